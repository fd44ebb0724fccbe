//! The HTTP API of the sample: behind a function URL, or an API Gateway HTTP API.

mod adapter;

use duroxide_lambda_api::{Api, router};

#[tokio::main]
async fn main() -> Result<(), duroxide_lambda::Error> {
    let (config, connection) = duroxide_lambda::connected().await?;
    let api = Api::new(connection, &config.api, config.maintenance.clone());
    lambda_http::run(adapter::Adapter::new(router(api))).await
}
