//! The HTTP API for clients and operators, with the dashboard.

#[tokio::main]
async fn main() -> Result<(), duroxide_lambda::Error> {
    duroxide_lambda_api::lambda::run().await
}
