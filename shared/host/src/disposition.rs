//! What becomes of an SQS record after its step: pure decisions, no I/O.
//!
//! | outcome | the record | another wakeup |
//! |---|---|---|
//! | committed | served | if more is due than the turn took, at once |
//! | nothing | served | |
//! | raced | as after the second try, which claims; busy, if there was no time for it | |
//! | busy | served | soon, growing with the tries, not long after the lock ends |
//! | blocked | served | at the end of the pause, from whoever has begun it |
//! | paused | served | none: resuming the instance sends all of them |
//! | deferred | served | in a second, when another invocation has time; failed when that never helps |
//! | abandoned, timed out | served | when it may be tried again |
//! | cancelled | served | in a second: if the lock has only expired, the activity is still to be done |
//! | failed | failed: SQS delivers it again, and moves it to the dead-letter queue after some times | |
//!
//! Where nothing is wrong, a new wakeup is better than a failed record: a record comes back only after the queue's
//! visibility timeout, and each return counts towards the dead-letter queue. If the new wakeup cannot be sent, the
//! record fails after all. What is due later of a record's target is not decided here (`waiting`).

use crate::gate::Outcome;
use std::time::Duration;

/// The longest pause between two wakeups to a busy target.
const LONGEST: u64 = 16;

/// How often a wakeup may find too little time. Beyond that, the function's timeout is too short.
const DEFERRALS: u32 = 5;

/// What to do with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// Nothing more.
    Served,
    /// Send another wakeup, after a while.
    Again(Duration),
    /// Report the record as failed.
    Failed,
}

/// The disposition of a record whose wakeup was sent again `tries` times.
pub(crate) fn disposition(outcome: &Outcome, more: bool, tries: u32, now_ms: u64) -> Disposition {
    match outcome {
        Outcome::Committed if more => Disposition::Again(Duration::ZERO),
        Outcome::Committed | Outcome::Nothing | Outcome::Paused => Disposition::Served,
        Outcome::Busy { until_ms } => Disposition::Again(busy_for(*until_ms, tries, now_ms)),
        Outcome::Raced => Disposition::Again(busy_for(now_ms, tries, now_ms)),
        // During a pause another wakeup is under way.
        Outcome::Blocked { block: None } => Disposition::Served,
        Outcome::Blocked { block: Some(block) } => {
            Disposition::Again(Duration::from_millis(block.until.saturating_sub(now_ms)))
        }
        Outcome::Deferred if tries >= DEFERRALS => Disposition::Failed,
        Outcome::Deferred | Outcome::TimedOut | Outcome::Cancelled => Disposition::Again(Duration::from_secs(1)),
        Outcome::Abandoned { delay } => Disposition::Again(*delay),
        Outcome::Failed { .. } => Disposition::Failed,
    }
}

/// A turn takes some milliseconds, so the first pauses are short; a lock of an activity or a session may last long.
fn busy_for(until_ms: u64, tries: u32, now_ms: u64) -> Duration {
    let growing = (1_u64 << tries.min(8)).min(LONGEST);
    let locked = until_ms.saturating_sub(now_ms).div_ceil(1000);
    Duration::from_secs(growing.min(locked.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(outcome: Outcome) -> Disposition {
        disposition(&outcome, false, 0, 0)
    }

    #[test]
    fn each_outcome_has_its_disposition() {
        let second = Duration::from_secs(1);
        let error = String::new();
        assert_eq!(of(Outcome::Committed), Disposition::Served);
        assert_eq!(of(Outcome::Nothing), Disposition::Served);
        assert_eq!(of(Outcome::Paused), Disposition::Served);
        assert_eq!(of(Outcome::Cancelled), Disposition::Again(second));
        assert_eq!(of(Outcome::Deferred), Disposition::Again(second));
        assert_eq!(of(Outcome::TimedOut), Disposition::Again(second));
        assert_eq!(disposition(&Outcome::Deferred, false, 5, 0), Disposition::Failed);
        let delay = Duration::from_secs(7);
        assert_eq!(of(Outcome::Abandoned { delay }), Disposition::Again(delay));
        assert_eq!(of(Outcome::Failed { error }), Disposition::Failed);
        assert_eq!(
            disposition(&Outcome::Committed, true, 0, 0),
            Disposition::Again(Duration::ZERO)
        );
    }

    #[test]
    fn a_busy_target_is_woken_at_growing_pauses_and_soon_after_its_lock_ends() {
        let pause = |until_ms, tries| match disposition(&Outcome::Busy { until_ms }, false, tries, 10_000) {
            Disposition::Again(pause) => pause.as_secs(),
            other => panic!("{other:?}"),
        };
        let growing: Vec<u64> = (0..7).map(|tries| pause(1_000_000, tries)).collect();
        assert_eq!(growing, [1, 2, 4, 8, 16, 16, 16]);
        assert_eq!(pause(1_000_000, u32::MAX), 16);
        assert_eq!(pause(15_000, 9), 5);
        assert_eq!(pause(10_001, 9), 1);
        assert_eq!(pause(0, 9), 1);
    }
}
