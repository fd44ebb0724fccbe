//! The orchestrator function of the sample: one turn per ring.

#[tokio::main]
async fn main() -> Result<(), duroxide_lambda::Error> {
    duroxide_lambda::orchestrator(workflows::orchestrations()).await
}
