//! Runs scenarios in a browser.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::real::{Node, chromium, target_dir};
use tokio::process::Command;
use tokio::sync::Mutex;

/// Longer than all scenarios of a world take on a slow machine: they take up to a minute on an idle one.
const LIMIT: Duration = Duration::from_secs(900);

/// One browser at a time: some scenarios measure.
static BROWSER: Mutex<()> = Mutex::const_new(());

/// The folder of the dashboard's modules.
pub fn dashboard() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/api/dashboard")
}

/// The folder of the scenarios.
fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dashboard/browser")
}

/// Runs these scenarios, one after the other. `world` has what they need to know, at least the address of the API (`api`).
pub async fn run(world: &Value, names: &[&str]) -> Result<()> {
    let (node, chromium) = (Node::ready().await?, chromium().await?);
    // What a failed scenario leaves: a screenshot.
    let left = target_dir()?.join("dashboard-tests");
    fs::create_dir_all(&left)?;
    let _one = BROWSER.lock().await;
    let mut command = Command::new("node");
    command.arg(scenarios().join("run.mjs")).args(names);
    command.env("NODE_PACKAGES", node.root()).env("CHROMIUM", chromium);
    command.env("WORLD", world.to_string()).env("LEFT", left);
    command.kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await;
    let output = output
        .with_context(|| format!("not within {LIMIT:?}"))?
        .context("Node does not start")?;
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    println!("{out}");
    ensure!(output.status.success(), "{}\n{out}\n{err}", output.status);
    Ok(())
}
