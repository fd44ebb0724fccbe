//! The yardstick: the smallest function that `lambda_runtime` makes possible.

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Error> {
    run(service_fn(hello)).await
}

async fn hello(_event: LambdaEvent<Value>) -> Result<Value, Error> {
    Ok(json!({ "hello": "world" }))
}
