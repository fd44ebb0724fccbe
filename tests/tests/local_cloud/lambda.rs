//! Lambda as functions see it.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use local_cloud::{Cloud, CloudOptions, LogSink};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

struct Stage {
    cloud: Arc<Cloud>,
    http: reqwest::Client,
}

impl Stage {
    async fn set(change: impl FnOnce(&mut CloudOptions)) -> Result<Stage> {
        let mut options = options();
        change(&mut options);
        let http = reqwest::Client::builder().no_proxy().build()?;
        let cloud = Arc::new(Cloud::start(options).await?);
        Ok(Stage { cloud, http })
    }

    /// Invokes the function; answers its answer, or the error in Lambda's form.
    async fn invoke(&self, event: Value) -> Result<Value> {
        let url = format!("{}/2015-03-31/functions/worker/invocations", self.cloud.endpoint());
        let answer = self
            .http
            .post(url)
            .header("authorization", SIGNED)
            .body(event.to_string());
        let answer = answer.send().await?;
        ensure!(answer.status().is_success(), "{}", answer.status());
        let failed = answer.headers().contains_key("x-amz-function-error");
        let body: Value = serde_json::from_slice(&answer.bytes().await?)?;
        ensure!(failed == body["errorType"].is_string(), "{body}");
        Ok(body)
    }

    fn is_busy(&self) -> bool {
        let status = self.cloud.status();
        status.functions["worker"].environments.iter().any(|one| one.busy)
    }

    fn environments(&self) -> Vec<u32> {
        let status = self.cloud.status();
        status.functions["worker"]
            .environments
            .iter()
            .map(|one| one.pid)
            .collect()
    }
}

fn options() -> CloudOptions {
    CloudOptions::of(fake_functions())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_environment_serves_again_and_is_frozen_meanwhile() -> Result<()> {
    let stage = Stage::set(|_| {}).await?;
    let first = stage.invoke(json!({"do": "echo", "text": "☃"})).await?;
    ensure!(first["event"]["text"] == "☃" && first["served"] == 1, "{first}");
    let left = first["left"].as_f64().context("time is left")?;
    ensure!(
        (1_000.0..=30_000.0).contains(&left),
        "the deadline is the timeout from now: {left} ms"
    );
    let pid = u32::try_from(first["pid"].as_u64().context("a process id")?)?;
    until("it is frozen between invocations", || state(pid) == Some('T')).await?;
    let second = stage.invoke(json!({"do": "stale"})).await?;
    ensure!(second["served"] == 2 && second["pid"] == first["pid"], "{second}");
    ensure!(
        second["stale"] == 400,
        "an answer to no invocation is refused: {second}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for timeouts of 15 seconds"]
async fn errors_crashes_and_timeouts_are_distinguished_and_only_ended_processes_are_replaced() -> Result<()> {
    let reported: Arc<Mutex<Vec<String>>> = Arc::default();
    let reporter = Arc::clone(&reported);
    let stage = Stage::set(|options| {
        options.timeout = Duration::from_secs(15);
        options.logs = LogSink::new(move |line| {
            if line.report && line.function == "worker" {
                let line = format!("#{} {}", line.environment, line.text);
                reporter.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
    })
    .await?;
    let pid = stage.invoke(json!({})).await?["pid"].clone();
    let failed = stage.invoke(json!({"do": "fail"})).await?;
    ensure!(
        failed == json!({"errorType": "Sad", "errorMessage": "it did not work"}),
        "{failed}"
    );
    let large = stage.invoke(json!({"do": "large"})).await?;
    ensure!(large["errorType"] == "ResponseSizeTooLarge", "{large}");
    ensure!(stage.invoke(json!({})).await?["pid"] == pid, "who only failed goes on");

    let crashed = stage.invoke(json!({"do": "crash"})).await?;
    ensure!(crashed["errorType"] == "Runtime.ExitError", "{crashed}");
    ensure!(
        crashed["errorMessage"].to_string().contains("exit status: 3"),
        "{crashed}"
    );
    let next = stage.invoke(json!({})).await?;
    ensure!(next["pid"] != pid && next["served"] == 1, "{next}");

    let overrun = stage.invoke(json!({"do": "sleep", "seconds": 600})).await?;
    ensure!(overrun["errorType"] == "Sandbox.Timedout", "{overrun}");
    let old = u32::try_from(next["pid"].as_u64().context("a process id")?)?;
    ensure!(!is_running(old), "it was killed");
    ensure!(
        stage.invoke(json!({})).await?["served"] == 1,
        "another has taken its place"
    );
    let counts = stage.cloud.status().functions["worker"].counts;
    ensure!(
        (counts.crashes, counts.timeouts, counts.errors) == (1, 1, 4),
        "{counts:?}"
    );
    let reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
    let expected = [
        "#1 REPORT Status: error: Sad: it did not work",
        "#1 REPORT Status: error: ResponseSizeTooLarge: ",
        "#1 REPORT Status: error: the process ended during the invocation: exit status: 3",
        "#2 REPORT Status: timeout: the invocation took longer than ",
    ];
    ensure!(reported.len() == expected.len(), "{reported:?}");
    for (line, expected) in reported.iter().zip(expected) {
        ensure!(line.starts_with(expected), "{expected}: {reported:?}");
    }
    Ok(())
}

/// A script that may be executed.
///
/// Another process writes it. A file that is open for writing cannot be executed, and a child that some other test forks
/// meanwhile would hold it open, had we opened it here.
fn script(directory: &Path, text: &str) -> Result<PathBuf> {
    let path = directory.join("wrapper");
    let mut writer = Command::new("sh");
    writer.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""]);
    ensure!(
        writer.arg(&path).arg(text).status()?.success(),
        "{} cannot be written",
        path.display()
    );
    Ok(path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for timeouts of 15 seconds"]
async fn processes_that_a_function_started_are_frozen_and_killed_with_it() -> Result<()> {
    // The script stays, and the function is a child of it.
    let wrapper = script(
        &fresh_directory("group")?,
        &format!("#!/bin/sh\n'{FAKE_FUNCTION}'\nexit $?\n"),
    )?;
    let stage = Stage::set(|options| {
        options.timeout = Duration::from_secs(15);
        options.functions.worker = wrapper.clone();
    })
    .await?;
    let function_of = async |event: Value| -> Result<u32> {
        let pid = stage.invoke(event).await?["pid"].as_u64().context("a process id")?;
        Ok(u32::try_from(pid)?)
    };
    let first = function_of(json!({})).await?;
    ensure!(!stage.environments().contains(&first), "it is a child of the script");
    until("it is frozen with the script", || state(first) == Some('T')).await?;

    let overrun = stage.invoke(json!({"do": "sleep", "seconds": 600})).await?;
    ensure!(overrun["errorType"] == "Sandbox.Timedout", "{overrun}");
    until_gone(&[first]).await?;

    let second = function_of(json!({})).await?;
    let script = stage.environments();
    ensure!(script.len() == 1 && second != first, "{script:?}");
    signal(script[0], "KILL")?;
    until_gone(&[second]).await?;

    let third = function_of(json!({})).await?;
    drop(stage);
    until_gone(&[third]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn environments_are_started_on_demand_up_to_the_limit_and_end_when_idle() -> Result<()> {
    let stage = Stage::set(|options| {
        options.concurrency = 3;
        options.idle = Duration::from_secs(2);
    })
    .await?;
    ensure!(stage.environments().len() == 1, "one is started ahead");
    let sleeps = (0..7).map(|_| stage.invoke(json!({"do": "sleep", "seconds": 0.3})));
    let answers = futures::future::try_join_all(sleeps).await?;
    let pids: std::collections::BTreeSet<u64> = answers.iter().filter_map(|answer| answer["pid"].as_u64()).collect();
    ensure!(pids.len() == 3, "{pids:?}");
    until("idle ones end", || stage.environments().is_empty()).await?;
    // They leave the list before they are killed.
    let pids: Vec<u32> = pids.into_iter().map(u32::try_from).collect::<Result<_, _>>()?;
    until_gone(&pids).await?;
    ensure!(stage.invoke(json!({})).await?["served"] == 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schedule_begins_with_a_run_at_once() -> Result<()> {
    let stage = Stage::set(|options| options.schedule = PATIENCE * 10).await?;
    let runs = || stage.cloud.status().functions["maintenance"].counts.invocations;
    until("maintenance runs", || runs() == 1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_init_error_of_a_function_is_reported() -> Result<()> {
    let mut options = options();
    options
        .variables
        .push(("BEHAVIOUR".to_owned(), "report-start".to_owned()));
    let error = Cloud::start(options).await.err().context("it does not start")?;
    ensure!(error.to_string().contains("Moon.Closed: the moon is closed"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_cloud_ends_its_processes() -> Result<()> {
    // Idle ones end by themselves, but not within this test.
    let stage = Stage::set(|options| options.idle = PATIENCE * 10).await?;
    stage.invoke(json!({})).await?;
    let pids = stage.environments();
    ensure!(!pids.is_empty());
    drop(stage);
    until_gone(&pids).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_cloud_ends_a_process_that_hangs_in_an_invocation() -> Result<()> {
    let stage = Stage::set(|options| options.timeout = Duration::from_secs(600)).await?;
    let url = format!("{}/2015-03-31/functions/worker/invocations", stage.cloud.endpoint());
    let hang = json!({"do": "sleep", "seconds": 600}).to_string();
    let asked = stage.http.post(url).header("authorization", SIGNED);
    let asked = asked.header("x-amz-invocation-type", "Event").body(hang);
    ensure!(asked.send().await?.status() == 202);
    until("it is busy", || stage.is_busy()).await?;
    let pids = stage.environments();
    drop(stage);
    until_gone(&pids).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invocation_continues_when_its_client_hangs_up() -> Result<()> {
    let stage = Stage::set(|options| options.concurrency = 1).await?;
    let first = stage.invoke(json!({})).await?;
    let url = format!("{}/2015-03-31/functions/worker/invocations", stage.cloud.endpoint());
    let event = json!({"do": "sleep", "seconds": 2}).to_string();
    let asked = stage.http.post(url).header("authorization", SIGNED).body(event);
    let asked = tokio::spawn(asked.send());
    until("it is busy", || stage.is_busy()).await?;
    asked.abort();
    let next = stage.invoke(json!({})).await?;
    ensure!(next["pid"] == first["pid"] && next["served"] == 3, "{first} {next}");
    until("nobody is busy", || !stage.is_busy()).await?;
    let counts = stage.cloud.status().functions["worker"].counts;
    ensure!((counts.invocations, counts.cold_starts) == (3, 1), "{counts:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_start_leaves_no_process() -> Result<()> {
    let mut options = options();
    let note = fresh_directory("given-up-note")?.join("pid");
    let text = note.to_string_lossy().into_owned();
    options
        .variables
        .push(("BEHAVIOUR".to_owned(), "hang-at-start".to_owned()));
    options.variables.push(("NOTE".to_owned(), text));
    let starting = tokio::spawn(Cloud::start(options));
    let noted = || {
        let text = std::fs::read_to_string(&note).ok()?;
        text.strip_suffix('\n')?.parse::<u32>().ok()
    };
    until("it hangs in its start", || noted().is_some()).await?;
    let pid = noted().context("it has noted its process")?;
    starting.abort();
    until_gone(&[pid]).await
}
