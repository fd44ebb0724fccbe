//! Metrics: counts of what an invocation did, written as one log line in CloudWatch's embedded metric format.
//!
//! CloudWatch extracts the metrics from the log, so that measuring costs no request and no time. The handlers count steps,
//! the notifier counts wakeups, the Cosmos client reports its requests ([`cosmos::Observer`]). The handler flushes once at
//! the end of an invocation; what is counted after that is in the next line.
//!
//! A metric costs by the hour in which it is written, so a function that runs every minute writes only what happens. Alarms
//! treat missing data as fine. A level (the depth of a queue) is written while it is not zero, and once more when it
//! returns to zero: otherwise graphs would end at its last height, and an alarm on the minimum of a period would not see that
//! the level came back to zero within it. Who wrote the last height is known to the environment only. If it is replaced before the level
//! returns, the zero is not written, and the missing data ends the alarm.

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
    /// Written even though they are zero: they were not zero when they were last set.
    returned: BTreeSet<Metric>,
    /// The levels that were not zero when they were last set.
    raised: BTreeSet<Metric>,
    /// The line has nothing that is zero, and no duration.
    is_brief: bool,
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

    /// Sets a level, such as the depth of a queue. It is written unless it is zero and was zero before.
    pub fn level(&self, metric: Metric, height: u64) {
        let mut state = self.state();
        state.counts.insert(metric, height as f64);
        if height > 0 {
            state.raised.insert(metric);
        } else if state.raised.remove(&metric) {
            state.returned.insert(metric);
        }
    }

    /// What a metric has counted since the line before.
    pub(crate) fn counted(&self, metric: Metric) -> f64 {
        self.state().counts.get(&metric).copied().unwrap_or_default()
    }

    /// Leaves out of the next line what is written for its own sake: the zeros, and the duration, which Lambda measures as well.
    pub fn brief(&self) {
        self.state().is_brief = true;
    }

    /// The line of an invocation that ends now, with everything counted since the line before. `None` without a namespace.
    pub fn flush(&self, function: &str, duration: Duration, timestamp_ms: u64) -> Option<String> {
        let namespace = self.namespace.as_deref()?;
        let Taken {
            mut counts,
            returned,
            is_brief,
        } = self.state().take();
        if !is_brief {
            counts.insert(Metric::Duration, duration.as_secs_f64() * 1000.0);
        }
        let value = |metric: Metric| counts.get(&metric).copied().unwrap_or_default();
        let is_written = |metric: &Metric| {
            let is_always = metric.is_always_written() && !is_brief;
            is_always || returned.contains(metric) || value(*metric) != 0.0
        };
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

    fn take(&mut self) -> Taken {
        if !mem::replace(&mut self.is_warm, true) {
            self.add(Metric::ColdStarts, 1.0);
        }
        Taken {
            counts: mem::take(&mut self.counts),
            returned: mem::take(&mut self.returned),
            is_brief: mem::take(&mut self.is_brief),
        }
    }
}

/// What a line is made of.
struct Taken {
    counts: BTreeMap<Metric, f64>,
    returned: BTreeSet<Metric>,
    is_brief: bool,
}

#[cfg(test)]
mod tests;
