//! What the tests of the functions share.

use cosmos_emulator::{Counts, Faults, Listener, RequestKind, sequential_round_trips};
use duroxide::runtime::OrchestrationStatus;
use duroxide_lambda::testing::BatchResponse;
use duroxide_lambda::{Delayed, Target, Wakeup, WorkTarget};
use serde_json::Value;
use std::time::{Duration, Instant};
use tests::cloud::{Cloud, Function};

/// How long a test waits for what must come. No sound function comes near it.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Long enough that requests of one moment overlap on a busy machine.
const SLOW: Duration = Duration::from_millis(500);

/// What an invocation cost at its function's listener.
#[derive(Debug)]
pub struct Bill {
    pub counts: Counts,
    pub kinds: Vec<RequestKind>,
    pub rounds: usize,
}

impl Bill {
    /// Fails unless these were the requests, in this order as far as one waited for the other.
    #[track_caller]
    pub fn is(&self, kinds: &[RequestKind], rounds: usize) {
        assert_eq!((self.kinds.as_slice(), self.rounds), (kinds, rounds), "{self:?}");
    }
}

/// Has something done while the listener is slow, so that requests which are sent together are seen together.
pub async fn bill<T>(listener: &Listener, operation: impl Future<Output = T>) -> (T, Bill) {
    listener.set_faults(Faults {
        delay: Some(SLOW),
        ..Faults::default()
    });
    listener.reset();
    let answer = operation.await;
    let (counts, log) = (listener.counts(), listener.log());
    listener.clear_faults();
    let bill = Bill {
        counts,
        kinds: log.iter().map(|record| record.kind).collect(),
        rounds: sequential_round_trips(&log),
    };
    (answer, bill)
}

/// Asks again and again until the answer is yes.
pub async fn until(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !ask().await {
        assert!(begun.elapsed() < LIMIT, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts an orchestration, and answers the one wakeup that this led to.
pub async fn start(cloud: &Cloud, instance: &str, orchestration: &str, input: &str) -> Wakeup {
    let started = cloud.client.start_orchestration(instance, orchestration, input).await;
    started.unwrap_or_else(|error| panic!("{instance} does not start: {error:?}"));
    only(cloud.bell.take()).wakeup
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
        Target::Turn { .. } => panic!("a wakeup for an activity is due, not {wakeup:?}"),
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
    let response = tokio::time::timeout(2 * LIMIT, function.invoke(wakeups)).await;
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
