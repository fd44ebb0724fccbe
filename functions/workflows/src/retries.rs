//! How often anything is tried, and how long between.
//!
//! Invariant: only a call that got no answer is tried again, and always with the same key. Neighbours: `fulfil` and `parcel`
//! try steps, `saga` compensations.

use duroxide::{BackoffStrategy, RetryPolicy};
use std::time::Duration;

const ATTEMPTS: u32 = 4;
/// More than a step gets: behind a compensation there is nothing but a person.
const ATTEMPTS_TO_UNDO: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// The retries of a step.
pub fn of_a_step(first_pause: Duration) -> RetryPolicy {
    policy(ATTEMPTS, first_pause)
}

/// The retries of a compensation.
pub fn of_a_compensation(first_pause: Duration) -> RetryPolicy {
    policy(ATTEMPTS_TO_UNDO, first_pause)
}

fn policy(attempts: u32, first_pause: Duration) -> RetryPolicy {
    // No `with_timeout`: duroxide does not retry an attempt that timed out, it only stops waiting for it.
    RetryPolicy::new(attempts).with_backoff(BackoffStrategy::Exponential {
        base: first_pause,
        multiplier: 2.0,
        max: LONGEST_PAUSE,
    })
}
