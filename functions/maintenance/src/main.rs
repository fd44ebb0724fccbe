//! The maintenance function of the sample: what a schedule invokes every minute.

#[tokio::main]
async fn main() -> Result<(), duroxide_lambda::Error> {
    duroxide_lambda::maintenance().await
}
