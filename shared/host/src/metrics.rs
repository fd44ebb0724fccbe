//! Metrics: counts of what an invocation did, as one line in CloudWatch's embedded metric format.
//!
//! CloudWatch makes metrics of the line that stands in the log, so that measuring costs no request and no time. The
//! handlers count cycles, the notifier counts wakeups, the Cosmos client reports its requests ([`cosmos::Observer`]); the
//! handler flushes once at the end of an invocation. What came after the last flush is in the next line.
//!
//! [`METRICS`] is all there is; dashboards and alarms are checked against it.

use cosmos::{Observed, Observer};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// CloudWatch's unit.
    pub unit: &'static str,
    /// Whether it is written when it is zero: an alarm wants to see the zero.
    pub always: bool,
    /// What it counts, for the documentation.
    pub meaning: &'static str,
}

const fn always(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    Metric {
        name,
        unit,
        always: true,
        meaning,
    }
}

const fn count(name: &'static str, meaning: &'static str) -> Metric {
    Metric {
        name,
        unit: "Count",
        always: false,
        meaning,
    }
}

const fn seconds(name: &'static str, meaning: &'static str) -> Metric {
    Metric {
        name,
        unit: "Seconds",
        always: false,
        meaning,
    }
}

/// All of them. Each has the one dimension `Function`.
pub const METRICS: &[Metric] = &[
    always("Turns", "Count", "cycles for a turn, whatever their outcome"),
    always("Activities", "Count", "cycles for an activity, whatever their outcome"),
    count("Committed", "cycles that committed"),
    count("Nothing", "cycles that found nothing to do"),
    count("Busy", "cycles that met a lock held by another invocation"),
    count(
        "Deferred",
        "cycles that were not begun, because too little of the invocation was left",
    ),
    count("Abandoned", "cycles whose work was given back for a retry"),
    count("TimedOut", "activities that outlived the invocation"),
    count("Cancelled", "activities whose orchestration no longer wants them"),
    always(
        "Failed",
        "Count",
        "cycles that failed: their wakeups are delivered again",
    ),
    always(
        "OrchestrationsFailed",
        "Count",
        "orchestrations that ended as failed, though the invocation succeeded",
    ),
    count("Poisoned", "turns and activities given up after the last attempt"),
    count("MalformedWakeups", "records that are no wakeup"),
    always("Duration", "Milliseconds", "how long the invocation took"),
    always("CosmosRequests", "Count", "attempts sent to Cosmos DB, retries too"),
    always("CosmosCharge", "None", "request units charged"),
    count("CosmosThrottled", "attempts answered with 429"),
    count("WakeupsSent", "wakeups taken by the notifier"),
    always(
        "WakeupsFailed",
        "Count",
        "wakeups not taken by the notifier, left to maintenance",
    ),
    count("ColdStarts", "1 on the first invocation of an environment"),
    count("OutboxFound", "maintenance, messages to other instances: found"),
    count("OutboxDone", "maintenance, messages to other instances: settled"),
    count(
        "OutboxFailed",
        "maintenance, messages to other instances: not settled this time",
    ),
    count(
        "OutboxDead",
        "maintenance, messages to other instances: given up, dead letters now",
    ),
    count(
        "OutboxLeftOver",
        "maintenance, messages to other instances: 1 if the run ended before the pass",
    ),
    count(
        "UnfinishedFound",
        "maintenance, commits and deletions that were begun: found",
    ),
    count(
        "UnfinishedDone",
        "maintenance, commits and deletions that were begun: settled",
    ),
    count(
        "UnfinishedFailed",
        "maintenance, commits and deletions that were begun: not settled this time",
    ),
    count(
        "UnfinishedLeftOver",
        "maintenance, commits and deletions that were begun: 1 if the run ended before the pass",
    ),
    count("SessionsFound", "maintenance, expired sessions: found"),
    count("SessionsDone", "maintenance, expired sessions: settled"),
    count("SessionsFailed", "maintenance, expired sessions: not settled this time"),
    count(
        "SessionsLeftOver",
        "maintenance, expired sessions: 1 if the run ended before the pass",
    ),
    count("SweepFound", "maintenance, targets of overdue and coming items: found"),
    count("SweepDone", "maintenance, targets of overdue and coming items: settled"),
    count(
        "SweepFailed",
        "maintenance, targets of overdue and coming items: not settled this time",
    ),
    count(
        "SweepLeftOver",
        "maintenance, targets of overdue and coming items: 1 if the run ended before the pass",
    ),
    count("RetentionFound", "maintenance, trees and executions to delete: found"),
    count("RetentionDone", "maintenance, trees and executions to delete: settled"),
    count(
        "RetentionFailed",
        "maintenance, trees and executions to delete: not settled this time",
    ),
    count(
        "RetentionLeftOver",
        "maintenance, trees and executions to delete: 1 if the run ended before the pass",
    ),
    count("PassesBroken", "maintenance: passes that could not ask the store"),
    count("OutboxDepth", "messages to other instances that are not delivered"),
    seconds("OldestIntentSeconds", "the age of the oldest of them"),
    count("TurnsDue", "messages that are due"),
    count("WorksDue", "activities that are due"),
    seconds("OldestDueSeconds", "for how long the oldest of both is due"),
    count("OverdueTimers", "timers that should have fired"),
    count("TimersPending", "timers that are not due yet"),
    count("StuckInstances", "instances that are due, free, and do not get on"),
    count("DeadLetters", "dead letters in the store"),
];

fn is_known(name: &str) -> bool {
    METRICS.iter().any(|metric| metric.name == name)
}

/// What a cycle was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A turn of an instance.
    Turn,
    /// An activity.
    Activity,
}

/// Counts, and writes the line.
#[derive(Debug)]
pub struct Metrics {
    namespace: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    warm: bool,
    counts: BTreeMap<&'static str, f64>,
    /// Written even when they are zero.
    levels: BTreeSet<&'static str>,
}

impl Metrics {
    /// A metrics whose metrics go to a namespace; without one it counts and writes nothing.
    pub fn new(namespace: Option<String>) -> Metrics {
        Metrics {
            namespace,
            state: Mutex::default(),
        }
    }

    /// A cycle ended. `outcome` is the name of the outcome's metric, such as `Committed`.
    pub fn cycle(&self, kind: Kind, outcome: &'static str) {
        debug_assert!(is_known(outcome), "{outcome} is the name of no metric");
        let kind = match kind {
            Kind::Turn => "Turns",
            Kind::Activity => "Activities",
        };
        let mut state = self.state();
        state.add(kind, 1.0);
        state.add(outcome, 1.0);
    }

    /// Wakeups were given to the notifier: so many were taken, so many were not.
    pub fn wakeups(&self, sent: usize, failed: usize) {
        let mut state = self.state();
        state.add("WakeupsSent", sent as f64);
        state.add("WakeupsFailed", failed as f64);
    }

    /// A record was no wakeup.
    pub fn malformed(&self) {
        self.state().add("MalformedWakeups", 1.0);
    }

    /// An orchestration ended as failed.
    pub fn orchestration_failed(&self) {
        self.state().add("OrchestrationsFailed", 1.0);
    }

    /// A turn or an activity was given up after its last attempt.
    pub fn poisoned(&self) {
        self.state().add("Poisoned", 1.0);
    }

    /// So many of something were met. Not written when none were: a metric costs by the hour in which it is written.
    pub fn count(&self, name: &'static str, number: u64) {
        debug_assert!(is_known(name), "{name} is the name of no metric");
        self.state().add(name, number as f64);
    }

    /// Something was looked at: this is how high it stands. It is written even when it is zero.
    pub fn level(&self, name: &'static str, height: u64) {
        debug_assert!(is_known(name), "{name} is the name of no metric");
        let mut state = self.state();
        state.counts.insert(name, height as f64);
        state.levels.insert(name);
    }

    /// The line of an invocation that ends now: what was counted since the last one. `None` without a namespace.
    pub fn flush(&self, function: &str, duration: Duration, timestamp_ms: u64) -> Option<String> {
        let namespace = self.namespace.as_deref()?;
        let (mut counts, levels) = self.state().take();
        counts.insert("Duration", duration.as_secs_f64() * 1000.0);
        let value = |metric: &Metric| rounded(counts.get(metric.name).copied().unwrap_or_default());
        let written: Vec<_> = METRICS
            .iter()
            .map(|metric| (metric, value(metric)))
            .filter(|(metric, value)| metric.always || levels.contains(metric.name) || *value != Number::Whole(0))
            .collect();
        let line = Line {
            aws: Directive::new(namespace, timestamp_ms, written.iter().map(|(metric, _)| *metric)),
            function,
            values: written.iter().map(|(metric, value)| (metric.name, *value)).collect(),
        };
        Some(serde_json::to_string(&line).expect("strings and finite numbers have a JSON form"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Metrics {
    fn observed(&self, request: &Observed) {
        let mut state = self.state();
        state.add("CosmosRequests", 1.0);
        state.add("CosmosCharge", request.charge);
        if request.status == Some(429) {
            state.add("CosmosThrottled", 1.0);
        }
    }
}

impl State {
    fn add(&mut self, name: &'static str, amount: f64) {
        *self.counts.entry(name).or_default() += amount;
    }

    fn take(&mut self) -> (BTreeMap<&'static str, f64>, BTreeSet<&'static str>) {
        if !mem::replace(&mut self.warm, true) {
            self.add("ColdStarts", 1.0);
        }
        (mem::take(&mut self.counts), mem::take(&mut self.levels))
    }
}

/// A value as it is written: counts are whole, and a sum of charges has no digits that only rounding made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Number {
    Whole(u64),
    Fraction(f64),
}

fn rounded(value: f64) -> Number {
    let rounded = (value * 1000.0).round() / 1000.0;
    if rounded.fract() == 0.0 {
        Number::Whole(rounded as u64)
    } else {
        Number::Fraction(rounded)
    }
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(rename = "_aws")]
    aws: Directive<'a>,
    #[serde(rename = "Function")]
    function: &'a str,
    #[serde(flatten)]
    values: BTreeMap<&'static str, Number>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Directive<'a> {
    timestamp: u64,
    cloud_watch_metrics: [MetricSet<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MetricSet<'a> {
    namespace: &'a str,
    dimensions: [[&'static str; 1]; 1],
    metrics: Vec<Definition>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Definition {
    name: &'static str,
    unit: &'static str,
}

impl<'a> Directive<'a> {
    fn new(namespace: &'a str, timestamp: u64, metrics: impl Iterator<Item = &'static Metric>) -> Directive<'a> {
        let metrics = metrics.map(|metric| Definition {
            name: metric.name,
            unit: metric.unit,
        });
        Directive {
            timestamp,
            cloud_watch_metrics: [MetricSet {
                namespace,
                dimensions: [["Function"]],
                metrics: metrics.collect(),
            }],
        }
    }
}

#[cfg(test)]
mod tests;
