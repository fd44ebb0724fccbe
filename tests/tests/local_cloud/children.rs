//! The function processes: killed at any time, replaced, and never left behind.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: six orders and twelve kills"]
async fn function_processes_may_be_killed_at_any_time() -> Result<()> {
    let binaries = Binaries::built().await?;
    let up = Up::start(&binaries, &[]).await?;
    let orders: Vec<String> = (0..6).map(|number| format!("order-{number}")).collect();
    for order in &orders {
        up.place(order, 1_000)?;
    }
    let mut rng = Rng::with_seed(11);
    let (mut killed, limit) = (0, Instant::now() + PATIENCE);
    while killed < 12 {
        ensure!(Instant::now() < limit, "there was nobody to kill");
        let children = up.children().await?;
        if let Some(pid) = rng.choice(children.iter().copied()) {
            // It may have ended since it was listed.
            killed += usize::from(signal(pid, "KILL").is_ok());
        }
        tokio::time::sleep(Duration::from_millis(rng.u64(20..400))).await;
    }
    for order in &orders {
        up.expect_shipped(order)?;
    }
    let status = up.status().await?;
    let starts = status["functions"]["orchestrator"]["coldStarts"].as_u64();
    ensure!(starts > Some(1), "those that were killed are replaced: {status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_and_a_termination_signal_stop_all_processes() -> Result<()> {
    let binaries = Binaries::built().await?;
    for name in ["INT", "TERM"] {
        let mut up = Up::start(&binaries, &[]).await?;
        up.place("order", 60_000)?;
        let children = up.children().await?;
        ensure!(children.len() >= 3, "one of each function: {children:?}");
        signal(up.process.id(), name)?;
        until_gone(&children).await?;
        until("the cloud has ended", || !up.process.is_running()).await?;
        // The last lines may still be on their way.
        until("it says that it stopped in order", || {
            up.process.stdout().iter().any(|line| line == "stopped.")
        })
        .await
        .with_context(|| format!("{name}: {:?}", up.process.stdout()))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_cloud_still_reports_a_function_that_crashes_or_does_not_restart() -> Result<()> {
    let binaries = Binaries::built().await?;
    let directory = fresh_directory("crash-once")?;
    // The first environment crashes in its first invocation, and no other one starts.
    let note = format!("NOTE={}", directory.join("note").display());
    let mut command = binaries.with_fake("orchestrator", "crash-once");
    command.args(["--quiet", "--env", &note]);
    let mut up = Up::of(command, &binaries).await?;
    for (id, said) in [
        (
            "first",
            "REPORT Status: error: the process ended during the invocation: exit status: 3",
        ),
        (
            "second",
            "REPORT Status: error: the process ended during its start: exit status: 7",
        ),
    ] {
        up.json(&["start", "fulfil-order", "--id", id, "--input", "{}"])?;
        let told = |line: &str| line.contains(said).then(|| line.to_owned());
        let line = up.process.wait_for(PATIENCE, told).await?;
        ensure!(line.starts_with("orchestrator#"), "{line}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_whose_output_nobody_reads_serves_and_can_be_stopped() -> Result<()> {
    let binaries = Binaries::built().await?;
    // Its worker writes more than any pipe holds, and then answers.
    let command = binaries.with_fake("worker", "talk");
    let mut cloud = Unread::start(command)?;
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
    let url = format!("{}/2015-03-31/functions/worker/invocations", cloud.endpoint);
    for _ in 0..3 {
        let answer = http
            .post(&url)
            .header("authorization", SIGNED)
            .body("{}")
            .send()
            .await?;
        ensure!(!answer.headers().contains_key("x-amz-function-error"));
        ensure!(answer.bytes().await? == "{}");
    }
    let status = http.get(format!("{}/cloud/status", cloud.endpoint)).send().await?;
    ensure!(status.status() == 200, "{}", status.status());
    signal(cloud.child.id(), "INT")?;
    until("it has ended", || matches!(cloud.child.try_wait(), Ok(Some(_)))).await
}

/// A cloud whose output is read as far as its address, and no farther.
struct Unread {
    child: Child,
    endpoint: String,
    _output: BufReader<ChildStdout>,
}

impl Unread {
    fn start(mut command: Command) -> Result<Unread> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut output = BufReader::new(child.stdout.take().context("stdout was piped")?);
        let mut line = String::new();
        let endpoint = loop {
            line.clear();
            ensure!(output.read_line(&mut line)? > 0, "it ended before it was up");
            if let Some(address) = line.trim().strip_prefix("SQS and Lambda") {
                break address.trim().to_owned();
            }
        };
        Ok(Unread {
            child,
            endpoint,
            _output: output,
        })
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // One that ended by itself cannot be killed, and needs not be.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_a_cloud_ends_its_busy_and_frozen_processes() -> Result<()> {
    let binaries = Binaries::built().await?;
    // The orchestrator takes an invocation and never answers.
    let mut command = binaries.with_fake("orchestrator", "hang");
    command.arg("--quiet");
    let up = Up::of(command, &binaries).await?;
    up.json(&["start", "fulfil-order", "--id", "stuck", "--input", "{}"])?;
    let limit = Instant::now() + PATIENCE;
    let busy = loop {
        let status = up.status().await?;
        let orchestrators = status["functions"]["orchestrator"]["environments"].clone();
        let busy = orchestrators
            .as_array()
            .and_then(|all| all.iter().find(|one| one["busy"] == true).cloned());
        if let Some(busy) = busy {
            break busy["pid"].as_u64().context("a process id")? as u32;
        }
        ensure!(Instant::now() < limit, "the function is never invoked: {status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let children = up.children().await?;
    ensure!(children.contains(&busy) && is_running(busy), "it hangs");
    let frozen = children.iter().filter(|pid| state(**pid) == Some('T')).count();
    ensure!(frozen >= 1, "idle ones are frozen: {children:?}");
    signal(up.process.id(), "KILL")?;
    until_gone(&children).await
}
