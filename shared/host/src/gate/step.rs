//! The result of one step.

use crate::metrics::Metric;
use crate::notifier::Delayed;
use duroxide_cosmos::Blocked;
use std::time::Duration;

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was executed, and its results are in the store.
    Committed,
    /// There was nothing to do: the wakeup was late or repeated.
    Nothing,
    /// Another invocation works on the target. The wakeup must come again, because that invocation may have fetched
    /// before the message arrived.
    Busy {
        /// When its lock ends, unless it is released earlier (Unix ms).
        until_ms: u64,
    },
    /// Another turn of the instance was committed first: this one was thrown away, and has written nothing.
    Raced,
    /// This build cannot go on with it, and another one may. It is tried again after a pause.
    Blocked {
        /// What keeps the build from going on, if it was tried; during the pause it was not.
        block: Option<Blocked>,
    },
    /// An operator has paused the instance. Resuming it sends wakeups for everything that waits.
    Paused,
    /// Too little of the budget was left to begin.
    Deferred,
    /// It was released, to be tried again.
    Abandoned {
        /// Not before this time has passed.
        delay: Duration,
    },
    /// The activity took longer than its time limit or the invocation: it was stopped and released, to be tried again.
    TimedOut,
    /// The lock was lost: the orchestration cancelled the activity, or another environment claimed it.
    Cancelled,
    /// It failed.
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
            Outcome::Raced => Metric::Raced,
            Outcome::Blocked { .. } => Metric::Blocked,
            Outcome::Paused => Metric::Paused,
            Outcome::Deferred => Metric::Deferred,
            Outcome::Abandoned { .. } => Metric::Abandoned,
            Outcome::TimedOut => Metric::TimedOut,
            Outcome::Cancelled => Metric::Cancelled,
            Outcome::Failed { .. } => Metric::Failed,
        }
    }
}

/// How an execution ended with a turn.
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
    /// The orchestration was cancelled. For duroxide it has failed.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// The execution ended, and another follows.
    ContinuedAsNew,
}

/// One turn or one activity, as far as it went.
#[derive(Clone, Debug)]
pub struct Step {
    /// How it ended.
    pub outcome: Outcome,
    /// The execution, if one was claimed.
    pub execution: Option<u64>,
    /// The number of the turn in its execution, or the activity's id.
    pub number: Option<u64>,
    /// How often it was fetched, this time included.
    pub attempt: Option<u32>,
    /// How the execution ended, if it ended with this turn.
    pub ended: Option<Ended>,
    /// It failed because it was tried as often as allowed.
    pub given_up: bool,
    /// Another turn is due at once, and no other wakeup announces it.
    pub more: bool,
    /// The wakeups for whoever its commit made due.
    pub wakeups: Vec<Delayed>,
}

impl Step {
    /// A step that never began.
    pub(crate) fn not_begun(outcome: Outcome) -> Step {
        Step {
            outcome,
            execution: None,
            number: None,
            attempt: None,
            ended: None,
            given_up: false,
            more: false,
            wakeups: Vec::new(),
        }
    }

    pub(crate) fn failed(error: impl Into<String>) -> Step {
        Step::not_begun(Outcome::Failed { error: error.into() })
    }
}
