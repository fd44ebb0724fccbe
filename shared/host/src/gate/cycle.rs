//! What became of a ticket.

use crate::metrics::Metric;
use crate::notifier::Delayed;
use std::time::Duration;

/// How a cycle ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was executed, and its results are in the store.
    Committed,
    /// There was nothing to do: the wakeup was late or repeated.
    Nothing,
    /// Another invocation has it. The wakeup must come again: the holder may have fetched before the message arrived.
    Busy {
        /// Until when, unless it is released earlier (Unix ms).
        until_ms: u64,
    },
    /// Too little of the budget was left to begin.
    Deferred,
    /// It was given back, to be tried again.
    Abandoned {
        /// Not before this time has passed.
        delay: Duration,
    },
    /// The activity outlived the invocation: it was told, and given back to be tried again.
    TimedOut,
    /// The lock was gone: the orchestration did not want the activity any more, or another had taken it over.
    Cancelled,
    /// It did not work out.
    Failed {
        /// Why.
        error: String,
    },
}

impl Outcome {
    /// One word for logs: the name of its metric.
    pub fn name(&self) -> &'static str {
        self.metric().name()
    }

    pub(crate) fn metric(&self) -> Metric {
        match self {
            Outcome::Committed => Metric::Committed,
            Outcome::Nothing => Metric::Nothing,
            Outcome::Busy { .. } => Metric::Busy,
            Outcome::Deferred => Metric::Deferred,
            Outcome::Abandoned { .. } => Metric::Abandoned,
            Outcome::TimedOut => Metric::TimedOut,
            Outcome::Cancelled => Metric::Cancelled,
            Outcome::Failed { .. } => Metric::Failed,
        }
    }
}

/// What a commit ended for good.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The orchestration completed.
    Completed,
    /// The orchestration failed.
    Failed {
        /// Why.
        error: String,
    },
    /// The execution ended, and another follows.
    ContinuedAsNew,
}

/// One fetch-execute-ack cycle, as far as it went.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// How it ended.
    pub outcome: Outcome,
    /// The execution, if one was claimed.
    pub execution: Option<u64>,
    /// The number of the turn in its execution, or the activity's id.
    pub step: Option<u64>,
    /// How often it was fetched, this time included.
    pub attempt: Option<u32>,
    /// What the turn ended.
    pub ended: Option<Ended>,
    /// It was tried too often, and failed for that.
    pub poisoned: bool,
    /// There is another turn at once, which nobody else announces.
    pub more: bool,
    /// The wakeups that its commit owes.
    pub wakeups: Vec<Delayed>,
}

impl Cycle {
    /// A cycle that never began.
    pub(crate) fn not_begun(outcome: Outcome) -> Cycle {
        Cycle {
            outcome,
            execution: None,
            step: None,
            attempt: None,
            ended: None,
            poisoned: false,
            more: false,
            wakeups: Vec::new(),
        }
    }

    pub(crate) fn failed(error: impl Into<String>) -> Cycle {
        Cycle::not_begun(Outcome::Failed { error: error.into() })
    }
}
