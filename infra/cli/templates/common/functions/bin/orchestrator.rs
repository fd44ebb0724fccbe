//! Runs one turn of an orchestration per wakeup.

#[tokio::main]
async fn main() -> Result<(), duroxide_lambda::Error> {
    duroxide_lambda::orchestrator(workflows::orchestrations()).await
}
