//! The HTTP API of the sample: behind a function URL, or an API Gateway HTTP API.

#[tokio::main]
async fn main() -> Result<(), duroxide_lambda::Error> {
    duroxide_lambda_api::lambda::run().await
}
