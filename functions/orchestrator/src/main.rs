//! The orchestrator function of the sample: one turn per wakeup.

#[tokio::main]
async fn main() -> Result<(), duroxide_lambda::Error> {
    duroxide_lambda::orchestrator(workflows::orchestrations()).await
}
