//! What the tests of the functions share.

use duroxide::runtime::OrchestrationStatus;
use duroxide_lambda::{BatchResponse, Delayed, Ring, Target, WorkTarget};
use cosmos_emulator::{Counts, Door, Faults, RequestKind, sequential_rounds};
use serde_json::Value;
use std::time::{Duration, Instant};
use tests::cloud::{Cloud, Function};

/// How long a test waits for what must come. No sound function comes near it.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Long enough that requests of one moment overlap on a busy machine.
const SLOW: Duration = Duration::from_millis(500);

/// What an invocation cost at its function's door.
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

/// Has something done while the door is slow, so that requests which are sent together are seen together.
pub async fn bill<T>(door: &Door, operation: impl Future<Output = T>) -> (T, Bill) {
    door.set_faults(Faults {
        delay: Some(SLOW),
        ..Faults::default()
    });
    door.reset();
    let answer = operation.await;
    let (counts, log) = (door.counts(), door.log());
    door.clear_faults();
    let bill = Bill {
        counts,
        kinds: log.iter().map(|record| record.kind).collect(),
        rounds: sequential_rounds(&log),
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

/// Starts an orchestration, and answers the one ring that this led to.
pub async fn start(cloud: &Cloud, instance: &str, orchestration: &str, input: &str) -> Ring {
    let started = cloud.client.start_orchestration(instance, orchestration, input).await;
    started.unwrap_or_else(|error| panic!("{instance} does not start: {error:?}"));
    only(cloud.bell.take()).ring
}

/// The one ring there is.
#[track_caller]
pub fn only(rings: Vec<Delayed>) -> Delayed {
    let [ring] = <[Delayed; 1]>::try_from(rings).unwrap_or_else(|rings| panic!("one ring is due, not {rings:#?}"));
    ring
}

/// The rings without their delays.
pub fn plain(rings: Vec<Delayed>) -> Vec<Ring> {
    rings.into_iter().map(|delayed| delayed.ring).collect()
}

/// The activity that a ring is for.
#[track_caller]
pub fn work_of(ring: &Ring) -> &WorkTarget {
    match &ring.target {
        Target::Work(work) => work,
        Target::Turn { .. } => panic!("a ring for an activity is due, not {ring:?}"),
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
pub async fn serve(function: &Function, rings: &[Ring]) {
    let response = tokio::time::timeout(2 * LIMIT, function.invoke(rings)).await;
    let response = response.expect("an invocation ends");
    assert_eq!(failed(&response), [""; 0], "of {rings:?}");
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
    let line = function.meter.flush("function", Duration::ZERO, 0);
    serde_json::from_str(&line.expect("the meter has a namespace")).expect("the line is JSON")
}
