//! Functions without the account's key: tokens of Entra ID, for which their AWS role is enough.

use crate::support::*;
use anyhow::{Result, ensure};
use cosmos_emulator::{CosmosServer, ServerOptions};
use std::time::Duration;
use tests::Identity;

/// Shorter than the test, so that each function has to renew it.
const LIFETIME: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_fulfil_orders_without_a_key_in_an_account_that_refuses_it() -> Result<()> {
    let binaries = Binaries::built().await?;
    let server = CosmosServer::start(ServerOptions::default()).await?;
    let identity = Identity::start(server.tokens().clone(), LIFETIME);
    let mut command = binaries.with_functions(&["up", "--port", "0", "--quiet"]);
    command.args(["--cosmos", &server.listener().endpoint()]);
    // The operator creates the container with the key; the functions do not get it.
    command.env("COSMOS_KEY", server.listener().key());
    for (name, value) in identity.variables() {
        command.args(["--env", &format!("{name}={value}")]);
    }
    let up = Up::of(command, &binaries).await?;
    server.disable_key();
    server.listener().reset();

    up.place("first", 100)?;
    up.expect_shipped("first")?;
    let first = identity.counts();
    ensure!(first.tokens >= 2 && first.refused == 0, "{first:?}");
    // By now the tokens of the first order are over.
    tokio::time::sleep(LIFETIME).await;
    up.place("second", 100)?;
    up.expect_shipped("second")?;
    let second = identity.counts();
    ensure!(second.tokens > first.tokens && second.refused == 0, "{second:?}");
    ensure!(second.assertions == second.tokens, "{second:?}");
    let log = server.listener().log();
    let refused = log.iter().filter(|request| request.status == Some(401)).count();
    ensure!(refused == 0, "{refused} of {} requests had no good token", log.len());
    for line in up.process.stdout().iter().chain(&up.process.stderr()) {
        ensure!(
            !line.contains("type=aad") && !line.contains(&server.listener().key()),
            "{line}"
        );
    }
    Ok(())
}
