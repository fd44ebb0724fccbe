//! `doctor` against a local cloud with the real function binaries: a sound one, and one whose queues are set wrongly.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use duroxide_lambda::canary;
use local_cloud::{Cloud, CloudOptions};
use serde_json::Value;
use std::process::Output;
use std::time::Duration;

const RUNS: usize = 4;

/// A cloud of the sample's functions, and what `doctor` says of it.
async fn doctored(binaries: &Binaries, visibility: Duration, max_receives: u32) -> Result<(Output, Value)> {
    let cloud = Cloud::start(CloudOptions {
        visibility,
        max_receives,
        ..CloudOptions::of(binaries.functions.clone())
    })
    .await?;
    let api = cloud.api().context("it has an API")?;
    let runs = RUNS.to_string();
    let mut command = binaries.local(&["doctor", "--samples", "5", "--json", "--runs", &runs]);
    command.env("DUROXIDE_LAMBDA_URL", api);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    cloud.shutdown().await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let found = serde_json::from_slice(&output.stdout).context(said)?;
    Ok((output, found))
}

fn state<'a>(found: &'a Value, name: &str) -> Result<&'a str> {
    let checks = found["checks"].as_array().context("checks")?;
    let check = checks.iter().find(|check| check["name"] == name);
    let check = check.with_context(|| format!("{name}: {found:#}"))?;
    check["state"].as_str().context("a state")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: real processes"]
async fn a_sound_deployment_passes_and_a_wrong_queue_is_found() -> Result<()> {
    let binaries = Binaries::built().await?;
    let (output, found) = doctored(&binaries, Duration::from_secs(35), 15).await?;
    println!("{found:#}");
    ensure!(output.status.code() == Some(0), "{found:#}");
    for name in [
        "container",
        "store permissions",
        "queue turn",
        "queue work",
        "clock",
        "canary",
        "worker's queue and timeout",
        "cold starts of the worker",
    ] {
        ensure!(state(&found, name)? == "ok", "{name}: {found:#}");
    }
    let canary = &found["canary"];
    ensure!(canary["completed"] == RUNS, "{canary}");
    ensure!(canary["medianRequests"] == canary::REQUESTS, "{canary}");
    ensure!(
        canary["medianRequestUnits"].as_f64().is_some_and(|units| units > 0.0),
        "{canary}"
    );

    let (output, found) = doctored(&binaries, Duration::from_secs(8), 3).await?;
    ensure!(output.status.code() == Some(1), "{found:#}");
    for name in ["queue turn", "queue work", "worker's queue and timeout"] {
        ensure!(state(&found, name)? == "failed", "{name}: {found:#}");
    }
    ensure!(state(&found, "container")? == "ok", "{found:#}");
    Ok(())
}
