//! Recovers from crashes and lost wakeups; a schedule invokes it every minute.

#[tokio::main]
async fn main() -> Result<(), duroxide_lambda::Error> {
    duroxide_lambda::maintenance().await
}
