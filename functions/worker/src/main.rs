//! The worker function of the sample: one activity per ring.

#[tokio::main]
async fn main() -> Result<(), duroxide_lambda::Error> {
    duroxide_lambda::worker(workflows::activities()).await
}
