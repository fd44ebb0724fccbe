//! SDKs that others wrote, against the strict server: it refuses what the service refuses, and nothing else.

use anyhow::{Context, Result, ensure};
use cosmos_emulator::{CosmosServer, ServerOptions};
use std::path::Path;
use tests::real::Venv;
use tokio::process::Command;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: azure-cosmos from PyPI"]
async fn the_python_sdk_works_on_three_physical_partitions() -> Result<()> {
    let venv = Venv::azure_cosmos().await?;
    let server = CosmosServer::start(ServerOptions {
        partitions: 3,
        ..ServerOptions::default()
    })
    .await?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_sdk/azure_cosmos.py");
    let output = Command::new(venv.python())
        .arg(script)
        .args([server.listener().endpoint(), server.listener().key()])
        .env("NO_PROXY", "127.0.0.1")
        .kill_on_drop(true)
        .output()
        .await
        .context("Python does not start")?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(output.status.success() && out.ends_with("ok\n"), "{out}{err}");
    let counts = server.listener().counts();
    ensure!(
        counts.patches > 0 && counts.batches > 0 && counts.cross_partition_queries > 0,
        "{counts:?}"
    );
    Ok(())
}
