//! What follows for a ring from the outcome of its cycle: pure decisions, no I/O.
//!
//! | outcome | the record | another ring |
//! |---|---|---|
//! | committed | served | if more is due than the turn took, at once |
//! | nothing | served | |
//! | busy | served | soon, growing with the tries, not long after the lock ends |
//! | deferred | served | in a second, when another invocation has time; failed when that never helps |
//! | abandoned, timed out | served | when it may be tried again |
//! | cancelled | served | in a second: should the lock have run out only, the activity is still to be done |
//! | failed | failed: SQS delivers it again, and puts it aside after some times | |
//!
//! A new ring is better than a failed record where nothing is wrong: a record comes back only after the queue's
//! visibility timeout, and each return counts towards the dead-letter queue. When the new ring cannot be sent, the
//! record fails after all. And a ring that came before its time is rung again for that time, whatever the outcome.

use crate::gate::Outcome;
use std::time::Duration;

/// The longest pause between two rings to a busy target.
const LONGEST: u64 = 16;

/// How often a ring may find too little time. Beyond, time is not short by chance: the function's timeout is.
const DEFERRALS: u32 = 5;

/// What to do about a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing more.
    Served,
    /// Ring again after a while.
    Again(Duration),
    /// Report the record as failed.
    Failed,
}

/// The verdict on a ring that was sent again `tries` times.
pub(crate) fn verdict(outcome: &Outcome, more: bool, tries: u32, now_ms: u64) -> Verdict {
    match outcome {
        Outcome::Committed if more => Verdict::Again(Duration::ZERO),
        Outcome::Committed | Outcome::Nothing => Verdict::Served,
        Outcome::Busy { until_ms } => Verdict::Again(busy_for(*until_ms, tries, now_ms)),
        Outcome::Deferred if tries >= DEFERRALS => Verdict::Failed,
        Outcome::Deferred | Outcome::TimedOut | Outcome::Cancelled => Verdict::Again(Duration::from_secs(1)),
        Outcome::Abandoned { delay } => Verdict::Again(*delay),
        Outcome::Failed { .. } => Verdict::Failed,
    }
}

/// A turn takes some milliseconds, so the first pauses are short; a long activity or a session holds for long.
fn busy_for(until_ms: u64, tries: u32, now_ms: u64) -> Duration {
    let growing = (1_u64 << tries.min(8)).min(LONGEST);
    let held = until_ms.saturating_sub(now_ms).div_ceil(1000);
    Duration::from_secs(growing.min(held.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(outcome: Outcome) -> Verdict {
        verdict(&outcome, false, 0, 0)
    }

    #[test]
    fn each_outcome_has_its_verdict() {
        let second = Duration::from_secs(1);
        let error = String::new();
        assert_eq!(of(Outcome::Committed), Verdict::Served);
        assert_eq!(of(Outcome::Nothing), Verdict::Served);
        assert_eq!(of(Outcome::Cancelled), Verdict::Again(second));
        assert_eq!(of(Outcome::Deferred), Verdict::Again(second));
        assert_eq!(of(Outcome::TimedOut), Verdict::Again(second));
        assert_eq!(verdict(&Outcome::Deferred, false, 5, 0), Verdict::Failed);
        let delay = Duration::from_secs(7);
        assert_eq!(of(Outcome::Abandoned { delay }), Verdict::Again(delay));
        assert_eq!(of(Outcome::Failed { error }), Verdict::Failed);
        assert_eq!(verdict(&Outcome::Committed, true, 0, 0), Verdict::Again(Duration::ZERO));
    }

    #[test]
    fn a_busy_target_is_rung_at_growing_pauses_and_soon_after_its_lock_ends() {
        let pause = |until_ms, tries| match verdict(&Outcome::Busy { until_ms }, false, tries, 10_000) {
            Verdict::Again(pause) => pause.as_secs(),
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
