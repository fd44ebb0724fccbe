//! Compensation: what was done is undone, last first.
//!
//! A saga is a stack of compensating activities. A step that succeeded, or of which nobody knows whether it did, puts its
//! compensation on the stack; a step that was refused does not. Invariant: [`Saga::undo`] tries every compensation, however
//! many of them fail, and never forgets one that did: it comes back as a sentence for a person. Neighbours: `fulfil` fills
//! and undoes it.
//!
//! It is ordinary code of the orchestration, so it runs only as long as that does. duroxide ends an orchestration without
//! asking it when a client cancels the instance, when an activity killed its worker on every delivery (poison), and when
//! the code was changed under a running instance (nondeterminism).

use crate::activities::Call;
use crate::shop::Key;
use duroxide::{BackoffStrategy, OrchestrationContext, RetryPolicy};
use serde::Serialize;
use std::time::Duration;

/// How often a step is tried.
const ATTEMPTS: u32 = 4;
/// How often a compensation is tried: longer, for there is nothing behind it but a person.
const ATTEMPTS_TO_UNDO: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// The retries of a step.
pub fn forward_retries(first_pause: Duration) -> RetryPolicy {
    retries(ATTEMPTS, first_pause)
}

fn retries(attempts: u32, first_pause: Duration) -> RetryPolicy {
    // No `with_timeout`: duroxide does not retry an attempt that timed out, it only stops waiting for it.
    RetryPolicy::new(attempts).with_backoff(BackoffStrategy::Exponential {
        base: first_pause,
        multiplier: 2.0,
        max: LONGEST_PAUSE,
    })
}

/// The compensations due, should the order fail now.
pub struct Saga {
    compensations: Vec<Compensation>,
    retries: RetryPolicy,
}

/// One compensation.
pub struct Compensation {
    activity: &'static str,
    input: String,
    by_hand: String,
}

impl Compensation {
    /// An activity under its own key, and what a person has to do should it never succeed.
    pub fn new(activity: &'static str, key: Key, ask: impl Serialize, by_hand: String) -> Compensation {
        let input = serde_json::to_string(&Call { key, ask }).expect("an ask is plain data, with field names for keys");
        Compensation {
            activity,
            input,
            by_hand,
        }
    }
}

impl Saga {
    /// Nothing to undo yet.
    pub fn new(first_pause: Duration) -> Saga {
        Saga {
            compensations: Vec::new(),
            retries: retries(ATTEMPTS_TO_UNDO, first_pause),
        }
    }

    /// From here on, a failure runs this compensation first.
    pub fn push(&mut self, compensation: Compensation) {
        self.compensations.push(compensation);
    }

    /// Undoes everything, last first. `Ok` are the activities that did; `Err` is what is left to do by hand.
    pub async fn undo(self, ctx: &OrchestrationContext) -> Result<Vec<String>, Vec<String>> {
        let (mut undone, mut by_hand) = (Vec::new(), Vec::new());
        for step in self.compensations.into_iter().rev() {
            match ctx
                .schedule_activity_with_retry(step.activity, step.input, self.retries.clone())
                .await
            {
                Ok(_) => undone.push(step.activity.to_owned()),
                Err(error) => by_hand.push(format!("{} ({}: {error})", step.by_hand, step.activity)),
            }
        }
        if by_hand.is_empty() { Ok(undone) } else { Err(by_hand) }
    }
}
