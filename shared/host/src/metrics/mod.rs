//! Metrics: counts of what an invocation did, written as one log line in CloudWatch's embedded metric format.
//!
//! CloudWatch extracts the metrics from the log, so that measuring costs no request and no time. The handlers count steps,
//! the notifier counts wakeups, the Cosmos client reports its requests ([`cosmos::Observer`]). The handler flushes once at
//! the end of an invocation; what is counted after that is in the next line.

mod line;
mod metric;

pub use metric::Metric;

use cosmos::{Observed, Observer};
use line::Line;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counts, and writes the line.
#[derive(Debug)]
pub struct Metrics {
    namespace: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_warm: bool,
    counts: BTreeMap<Metric, f64>,
    /// Written even when they are zero.
    levels: BTreeSet<Metric>,
}

impl Metrics {
    /// Metrics of a CloudWatch namespace; without one, nothing is written.
    pub fn new(namespace: Option<String>) -> Metrics {
        Metrics {
            namespace,
            state: Mutex::default(),
        }
    }

    /// Adds to a count. It is not written when it stays zero.
    pub fn count(&self, metric: Metric, number: u64) {
        self.state().add(metric, number as f64);
    }

    /// Sets a level, such as the depth of a queue. It is written even when it is zero.
    pub fn level(&self, metric: Metric, height: u64) {
        let mut state = self.state();
        state.counts.insert(metric, height as f64);
        state.levels.insert(metric);
    }

    /// The line of an invocation that ends now, with everything counted since the line before. `None` without a namespace.
    pub fn flush(&self, function: &str, duration: Duration, timestamp_ms: u64) -> Option<String> {
        let namespace = self.namespace.as_deref()?;
        let (mut counts, levels) = self.state().take();
        counts.insert(Metric::Duration, duration.as_secs_f64() * 1000.0);
        let value = |metric: Metric| counts.get(&metric).copied().unwrap_or_default();
        let is_written =
            |metric: &Metric| metric.is_always_written() || levels.contains(metric) || value(*metric) != 0.0;
        let metrics = Metric::ALL.iter().copied().filter(is_written);
        let values: Vec<_> = metrics.map(|metric| (metric, value(metric))).collect();
        let line = Line::new(namespace, function, timestamp_ms, &values);
        Some(serde_json::to_string(&line).expect("strings and finite numbers have a JSON form"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Metrics {
    fn observed(&self, request: &Observed) {
        let mut state = self.state();
        state.add(Metric::CosmosRequests, 1.0);
        state.add(Metric::CosmosCharge, request.charge);
        if request.status == Some(429) {
            state.add(Metric::CosmosThrottled, 1.0);
        }
    }
}

impl State {
    fn add(&mut self, metric: Metric, amount: f64) {
        *self.counts.entry(metric).or_default() += amount;
    }

    fn take(&mut self) -> (BTreeMap<Metric, f64>, BTreeSet<Metric>) {
        if !mem::replace(&mut self.is_warm, true) {
            self.add(Metric::ColdStarts, 1.0);
        }
        (mem::take(&mut self.counts), mem::take(&mut self.levels))
    }
}

#[cfg(test)]
mod tests;
