//! A large fan-out on the local cloud: how many wakeups it takes.

use crate::support::*;
use anyhow::{Result, ensure};
use duroxide::runtime::OrchestrationStatus;
use duroxide_lambda::notifier::Sqs;
use duroxide_lambda::{Config, Connection};
use local_cloud::{Cloud, CloudOptions, Functions, LogLine, LogSink};
use serde_json::Value;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const FAN_OUT: &str = env!("CARGO_BIN_EXE_fan_out_function");

/// The outcomes of steps, from the functions' logs.
#[derive(Debug, Default)]
struct Outcomes {
    /// Activities, and turns, that found nothing to do.
    idle_works: AtomicUsize,
    idle_turns: AtomicUsize,
    /// Wakeups that SQS did not answer in time: it may have them nevertheless.
    not_sent: AtomicU64,
    /// What each run of maintenance sent and held back.
    runs: Mutex<Vec<String>>,
}

impl Outcomes {
    fn note(&self, line: &LogLine) {
        if line.text.contains("not sent") {
            let told: Value = serde_json::from_str(&line.text).unwrap_or_default();
            let more = told["wakeups"].as_u64().unwrap_or(1);
            self.not_sent.fetch_add(more, Ordering::SeqCst);
        }
        if line.function == "maintenance" {
            let told: Value = serde_json::from_str(&line.text).unwrap_or_default();
            let report: Value = serde_json::from_str(told["report"].as_str().unwrap_or("null")).unwrap_or_default();
            let run = match &report {
                Value::Null => return,
                report => format!(
                    "sent {} held {} due {}",
                    report["wakeupsSent"], report["remindersHeld"], report["store"]["activitiesDue"]
                ),
            };
            self.runs.lock().unwrap_or_else(PoisonError::into_inner).push(run);
        }
        if line.text.contains("\"outcome\":\"Nothing\"") {
            let counter = if line.function == "worker" {
                &self.idle_works
            } else {
                &self.idle_turns
            };
            counter.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Runs a fan-out of this input. Its activities must get at most 1.1 wakeups each.
async fn fan_out(count: u64, millis: u64, change: impl FnOnce(&mut CloudOptions)) -> Result<()> {
    let outcomes = Arc::new(Outcomes::default());
    let noting = Arc::clone(&outcomes);
    let mut options = CloudOptions::of(Functions {
        orchestrator: FAN_OUT.into(),
        worker: FAN_OUT.into(),
        maintenance: FAN_OUT.into(),
        api: None,
    });
    options.logs = LogSink::new(move |line| noting.note(line));
    let patient = ("DUROXIDE_NOTIFY_TIMEOUT_MS".to_owned(), "20000".to_owned());
    options.variables.push(patient);
    change(&mut options);
    let begun = Instant::now();
    let cloud = Cloud::start(options).await?;
    let get = |name: &str| cloud.variables().get(name).cloned();
    let config = Config::from_variables(get)?;
    let notifier = Arc::new(Sqs::from_variables(config.queues.clone(), get));
    let connection = Connection::new(config.cosmos_config(), notifier, config.limits.clone()).await?;
    let client = connection.client();
    client
        .start_orchestration("fan", "FanOut", format!("{count} {millis}"))
        .await?;
    let status = client.wait_for_orchestration("fan", PATIENCE * 5).await?;
    let OrchestrationStatus::Completed { output, .. } = &status else {
        anyhow::bail!("{status:?}");
    };
    ensure!(*output == count.to_string(), "{status:?}");
    let status = cloud.status();
    let (works, turns) = (
        status.queues["worker"].counts.sent,
        status.queues["orchestrator"].counts.sent,
    );
    println!(
        "fan-out {count} of {millis} ms: {works} wakeups for activities ({:?} found nothing), {turns} for turns \
         ({:?} found nothing), invocations {} and {}, runs of maintenance {}, {:.1} s",
        outcomes.idle_works,
        outcomes.idle_turns,
        status.functions["worker"].counts.invocations,
        status.functions["orchestrator"].counts.invocations,
        status.functions["maintenance"].counts.invocations,
        begun.elapsed().as_secs_f64(),
    );
    println!("not answered in time: {:?}; {:#?}", outcomes.not_sent, outcomes.runs);
    // A machine that is too slow for the SDK's timeouts sends some twice; that is another matter.
    let doubtful = outcomes.not_sent.load(Ordering::SeqCst);
    let most = count * 11 / 10 + 2 * doubtful;
    ensure!(
        (count - doubtful.min(count)..=most).contains(&works),
        "{works} wakeups for {count} activities, {doubtful} were not answered in time"
    );
    cloud.shutdown().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_out_needs_one_wakeup_per_activity() -> Result<()> {
    fan_out(100, 0, |_| {}).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 1,000 activities on the real binaries"]
async fn a_large_fan_out_with_a_long_queue_is_not_woken_again() -> Result<()> {
    fan_out(1_000, 0, |_| {}).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 1,000 slow activities on one environment"]
async fn a_large_fan_out_that_one_slow_environment_serves_is_not_woken_again() -> Result<()> {
    fan_out(1_000, 500, |options| options.concurrency = 1).await
}
