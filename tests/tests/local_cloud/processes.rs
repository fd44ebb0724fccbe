//! Function processes: killed at any time, replaced, and ended with the cloud.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_survive_kills_of_any_process_at_any_time() -> Result<()> {
    let binaries = Binaries::built().await?;
    let up = Up::start(&binaries, &[]).await?;
    let orders: Vec<String> = (0..6).map(|number| format!("order-{number}")).collect();
    for order in &orders {
        up.place(order, 1_000)?;
    }
    let mut rng = Rng::with_seed(11);
    let (mut killed, limit) = (0, Instant::now() + PATIENCE);
    while killed < 12 {
        ensure!(Instant::now() < limit, "there was no process to kill");
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
    ensure!(starts > Some(1), "killed processes are replaced: {status}");
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
        // The last lines may still be in the pipe.
        until("it prints that it stopped", || {
            up.process.stdout().iter().any(|line| line == "stopped.")
        })
        .await
        .with_context(|| format!("{name}: {:?}", up.process.stdout()))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_cloud_still_reports_crashes_and_failed_starts() -> Result<()> {
    let binaries = Binaries::built().await?;
    let directory = fresh_directory("reports")?;
    // The first environment crashes in its first invocation, and no other one starts.
    let crashes = script(
        &directory,
        "crashes",
        "#!/usr/bin/env python3\nimport os, sys, urllib.request\n\
         if os.path.exists(os.environ['NOTE']): sys.exit(7)\n\
         open(os.environ['NOTE'], 'w').close()\n\
         urllib.request.urlopen('http://%s/2018-06-01/runtime/invocation/next' % os.environ['AWS_LAMBDA_RUNTIME_API'])\n\
         os._exit(3)\n",
    )?;
    let path = format!("PATH={}", std::env::var("PATH")?);
    let note = format!("NOTE={}", directory.join("note").display());
    let mut command = binaries.command(&["up", "--port", "0", "--cosmos-port", "0", "--quiet"]);
    command.args(["--env", &path, "--env", &note]);
    command
        .arg("--orchestrator")
        .arg(&crashes)
        .arg("--worker")
        .arg(&binaries.functions.worker)
        .arg("--maintenance")
        .arg(&binaries.functions.maintenance);
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
        let reported = |line: &str| line.contains(said).then(|| line.to_owned());
        let line = up.process.wait_for(PATIENCE, reported).await?;
        ensure!(line.starts_with("orchestrator#"), "{line}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_whose_output_nobody_reads_still_serves_and_stops() -> Result<()> {
    let binaries = Binaries::built().await?;
    let directory = fresh_directory("unread")?;
    // Writes more than a pipe holds, then answers.
    let talks = script(
        &directory,
        "talks",
        "#!/usr/bin/env python3\nimport os, urllib.request\n\
         base = 'http://%s/2018-06-01/runtime/invocation/' % os.environ['AWS_LAMBDA_RUNTIME_API']\n\
         while True:\n\
         \x20   id = urllib.request.urlopen(base + 'next').headers['Lambda-Runtime-Aws-Request-Id']\n\
         \x20   for _ in range(30000): print('x' * 100)\n\
         \x20   urllib.request.urlopen(urllib.request.Request(base + id + '/response', b'{}'))\n",
    )?;
    let path = format!("PATH={}", std::env::var("PATH")?);
    let mut command = binaries.command(&["up", "--port", "0", "--cosmos-port", "0", "--env", &path]);
    command.arg("--worker").arg(&talks);
    command.arg("--orchestrator").arg(&binaries.functions.orchestrator);
    command.arg("--maintenance").arg(&binaries.functions.maintenance);
    let mut cloud = Unread::start(command)?;
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
    let url = format!("{}/2015-03-31/functions/worker/invocations", cloud.endpoint);
    for _ in 0..3 {
        let answer = http.post(&url).body("{}").send().await?;
        ensure!(!answer.headers().contains_key("x-amz-function-error"));
        ensure!(answer.bytes().await? == "{}");
    }
    let status = http.get(format!("{}/cloud/status", cloud.endpoint)).send().await?;
    ensure!(status.status() == 200, "{}", status.status());
    signal(cloud.child.id(), "INT")?;
    until("it has ended", || matches!(cloud.child.try_wait(), Ok(Some(_)))).await
}

/// A cloud whose output is read up to its address only.
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
        // Fails if it has ended already, which is fine.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_cloud_takes_busy_and_frozen_processes_with_it() -> Result<()> {
    let binaries = Binaries::built().await?;
    let directory = fresh_directory("hang")?;
    // A function that takes an invocation and hangs.
    let hangs = script(
        &directory,
        "hangs",
        "#!/usr/bin/env python3\nimport os, time, urllib.request\n\
         urllib.request.urlopen('http://%s/2018-06-01/runtime/invocation/next' % os.environ['AWS_LAMBDA_RUNTIME_API'])\n\
         time.sleep(600)\n",
    )?;
    let path = std::env::var("PATH")?;
    let variable = format!("PATH={path}");
    let mut command = binaries.command(&["up", "--port", "0", "--cosmos-port", "0", "--quiet", "--env", &variable]);
    command
        .arg("--orchestrator")
        .arg(&hangs)
        .arg("--worker")
        .arg(&binaries.functions.worker)
        .arg("--maintenance")
        .arg(&binaries.functions.maintenance);
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
