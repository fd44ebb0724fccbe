//! What the tests of the functions share.

use duroxide::runtime::OrchestrationStatus;
use duroxide_lambda::internals::BatchResponse;
use duroxide_lambda::{Delayed, Target, Wakeup, WorkTarget};
use serde_json::Value;
use std::time::Duration;
use tests::cloud::{Cloud, Function};
pub use tests::cost::cost_of;
pub use tests::{PATIENCE, until};

/// Starts an orchestration, and answers the one wakeup that this led to.
pub async fn start(cloud: &Cloud, instance: &str, orchestration: &str, input: &str) -> Wakeup {
    let started = cloud.client.start_orchestration(instance, orchestration, input).await;
    started.unwrap_or_else(|error| panic!("{instance} does not start: {error:?}"));
    only(cloud.queue.take()).wakeup
}

/// The one wakeup there is.
#[track_caller]
pub fn only(wakeups: Vec<Delayed>) -> Delayed {
    let [wakeup] =
        <[Delayed; 1]>::try_from(wakeups).unwrap_or_else(|wakeups| panic!("one wakeup is due, not {wakeups:#?}"));
    wakeup
}

/// The wakeups without their delays.
pub fn plain(wakeups: Vec<Delayed>) -> Vec<Wakeup> {
    wakeups.into_iter().map(|delayed| delayed.wakeup).collect()
}

/// The activity that a wakeup is for.
#[track_caller]
pub fn work_of(wakeup: &Wakeup) -> &WorkTarget {
    match &wakeup.target {
        Target::Work(work) => work,
        Target::Turn { .. } | Target::Batch { .. } => panic!("a wakeup for an activity is due, not {wakeup:?}"),
    }
}

/// The target of a turn.
pub fn turn_of(instance: &str) -> Target {
    Target::Turn {
        instance: instance.to_owned(),
    }
}

/// The message ids of the failed records.
pub fn failed(response: &BatchResponse) -> Vec<&str> {
    let failures = response.batch_item_failures.iter();
    let mut failed: Vec<&str> = failures.map(|failure| failure.item_identifier.as_str()).collect();
    failed.sort_unstable();
    failed
}

/// One invocation, all of whose records must be served.
pub async fn serve(function: &Function, wakeups: &[Wakeup]) {
    let response = tokio::time::timeout(PATIENCE, function.invoke(wakeups)).await;
    let response = response.expect("an invocation ends");
    assert_eq!(failed(&response), [""; 0], "of {wakeups:?}");
}

/// The output of an instance that must have completed.
pub async fn output(cloud: &Cloud, instance: &str) -> String {
    match status(cloud, instance).await {
        OrchestrationStatus::Completed { output, .. } => output,
        other => panic!("{instance} did not complete: {other:?}"),
    }
}

/// The status of an instance.
pub async fn status(cloud: &Cloud, instance: &str) -> OrchestrationStatus {
    let status = cloud.client.get_orchestration_status(instance).await;
    status.expect("the status can be read")
}

/// What the function has counted since the last time; a metric that was not written is null.
pub fn metrics(function: &Function) -> Value {
    let line = function.metrics.flush("function", Duration::ZERO, 0);
    serde_json::from_str(&line.expect("the metrics has a namespace")).expect("the line is JSON")
}
