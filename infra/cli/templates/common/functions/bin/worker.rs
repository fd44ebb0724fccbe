//! Runs one activity per wakeup.

#[tokio::main]
async fn main() -> Result<(), duroxide_lambda::Error> {
    duroxide_lambda::worker(workflows::activities()).await
}
