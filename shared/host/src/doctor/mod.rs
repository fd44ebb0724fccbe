//! What a process of a deployment can find out about it, for `duroxide-lambda doctor`: the API's route calls it.
//!
//! ```text
//!   store: examine ──┐
//!   queues: settings ┼──> findings ──> checks (pure) ──> Diagnosis
//!   this process ────┘
//! ```
//!
//! [`Connection::diagnose`] makes the requests; `checks` judges, without any. What only the functions know (how long a step
//! takes, cold starts, the worker's timeout) comes from the [canary](crate::canary), which the command line runs.

mod checks;

use crate::canary::memory_mb;
use crate::config::MaintenanceSettings;
use crate::connection::Connection;
use crate::notifier::{QueueName, QueueSettings};
use duroxide_cosmos::MeasuredOperation;
use std::env;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

pub use checks::{VISIBILITY_FACTOR, percentile};

/// The queues have at most this time, and a third of the whole: a queue service that hangs must not use up the time of the store,
/// which would be blamed for it.
const QUEUES_TIME: Duration = Duration::from_secs(3);

/// How far a check is from what is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckState {
    /// As promised.
    Ok,
    /// It works, and costs more time or money than it should, or could not be checked.
    Warning,
    /// It does not work, or will not under load or after a crash.
    Failed,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What it is about, such as `container`.
    pub name: String,
    /// How it came out.
    pub state: CheckState,
    /// What was found.
    pub found: String,
    /// What is promised or expected.
    pub expected: String,
    /// What to do, if something is to be done.
    pub advice: Option<String>,
}

/// What one kind of operation costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationCost {
    /// Its name: `commit`, `read`, `query`, `claim`, `complete`.
    pub name: &'static str,
    /// How many were made.
    pub samples: u64,
    /// Requests of all, repetitions included.
    pub requests: u64,
    /// Half of them took no longer.
    pub median: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// Thousandths of a request unit, on average.
    pub milli_request_units: u64,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueFinding {
    /// Its name: `turn`, `work`, or `work:` and a tag.
    pub name: QueueName,
    /// Its settings; `None` if the notifier has none. Or why they cannot be read.
    pub settings: Result<Option<QueueSettings>, String>,
    /// How long the answer took.
    pub round_trip: Duration,
}

/// This process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionFacts {
    /// The version of this crate.
    pub version: String,
    /// The label of the deployment.
    pub build: Option<String>,
    /// The AWS region.
    pub region: Option<String>,
    /// The processor's architecture.
    pub architecture: &'static str,
    /// The memory in MB, if it runs on Lambda.
    pub memory_mb: Option<u64>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The checks.
    pub checks: Vec<Check>,
    /// What the operations of the store cost.
    pub operations: Vec<OperationCost>,
    /// The queues.
    pub queues: Vec<QueueFinding>,
    /// This process.
    pub function: FunctionFacts,
}

impl Connection {
    /// Examines the store, the queues and the settings within this time, with so many samples of each operation of the store. What
    /// it writes to the store it deletes again.
    pub async fn diagnose(&self, samples: u32, maintenance: &MaintenanceSettings, time: Duration) -> Diagnosis {
        let began = Instant::now();
        let deadline = began + time;
        // One after the other, so that neither makes the other slower.
        let queues = self.examine_queues(began + QUEUES_TIME.min(time / 3)).await;
        let examined = self.store().examine(samples, deadline).await;
        let limits = &self.parts.limits;
        let mut found = vec![checks::container(&examined.container)];
        found.push(checks::permissions(&examined.operations, time));
        found.extend(queues.iter().filter_map(|queue| checks::queue(queue, limits)));
        found.push(checks::clock(examined.clock.as_ref()));
        let operations: Vec<OperationCost> = examined.operations.iter().filter_map(cost).collect();
        found.extend(checks::distance(&operations));
        found.extend(checks::schedule(maintenance, limits));
        Diagnosis {
            checks: found,
            operations,
            queues,
            function: FunctionFacts {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                build: limits.build.clone(),
                region: env::var("AWS_REGION").ok().filter(|region| !region.is_empty()),
                architecture: env::consts::ARCH,
                memory_mb: memory_mb(),
            },
        }
    }

    async fn examine_queues(&self, deadline: Instant) -> Vec<QueueFinding> {
        let mut found = Vec::new();
        for name in self.parts.notifier.queues() {
            let began = Instant::now();
            let settings = timeout_at(deadline, self.parts.notifier.settings(&name)).await;
            let settings = settings.unwrap_or_else(|_| Err("no answer in time".to_owned()));
            found.push(QueueFinding {
                name,
                settings,
                round_trip: began.elapsed(),
            });
        }
        found
    }
}

/// The cost of an operation that was made at least once.
fn cost(measured: &MeasuredOperation) -> Option<OperationCost> {
    let samples = u64::try_from(measured.times.len()).unwrap_or(u64::MAX);
    Some(OperationCost {
        name: measured.name,
        samples,
        requests: measured.requests,
        median: percentile(&measured.times, 50)?,
        p99: percentile(&measured.times, 99)?,
        milli_request_units: measured.milli_request_units / samples.max(1),
    })
}
