//! An orchestrator, as builds of it would be deployed: `REPLAY_BUILD` says which.

use duroxide_lambda::Error;
use std::env;
use tests::replay::{BUILD, FIRST, orchestrations};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let build = env::var(BUILD).unwrap_or_else(|_| FIRST.to_owned());
    println!("this line of the build '{build}' is no answer");
    duroxide_lambda::orchestrator(orchestrations(&build)).await
}
