//! The budget: the time that is left of an invocation.
//!
//! Lambda kills an environment at its deadline, whatever it does. So the budget ends a margin earlier, to leave time for
//! the answer, and nothing is sent to the store after its end: the lock of an unfinished step expires by itself.

use std::time::Duration;
use tokio::time::Instant;

/// Reserved for returning the answer and the logs to Lambda.
const MARGIN: Duration = Duration::from_millis(500);

/// A smaller deadline is a duration. Lambda sends a moment; `cargo lambda watch` sends the ten minutes that are left, in the
/// same header. No moment since 1970 is so small, and no invocation takes so long.
const LENGTH_BELOW: u64 = 24 * 60 * 60 * 1000;

/// The end of the time in which an invocation may work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    end: Instant,
    timeout: Duration,
}

impl Budget {
    /// The budget of an invocation with this deadline, both in Unix ms.
    pub fn until(deadline_ms: u64, now_ms: u64) -> Budget {
        let left_ms = match deadline_ms {
            length if length < LENGTH_BELOW => length,
            moment => moment.saturating_sub(now_ms),
        };
        let left = Duration::from_millis(left_ms);
        Budget {
            timeout: left,
            ..Budget::of(left.saturating_sub(MARGIN))
        }
    }

    /// A budget of this much time from now.
    pub fn of(time: Duration) -> Budget {
        Budget {
            end: Instant::now() + time,
            timeout: time,
        }
    }

    /// The time that the invocation had at its beginning: the function's timeout.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// When it ends.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// When only `reserve` is left of it.
    pub fn end_less(&self, reserve: Duration) -> Instant {
        self.end.checked_sub(reserve).unwrap_or_else(Instant::now)
    }

    /// The time that is left.
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Whether so much time is left.
    pub fn fits(&self, need: Duration) -> bool {
        self.left() >= need
    }

    /// Whether it is over.
    pub fn is_spent(&self) -> bool {
        self.left().is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_760_000_000_000;

    #[tokio::test(start_paused = true)]
    async fn it_ends_a_margin_before_the_deadline() {
        let budget = Budget::until(NOW + 6_000, NOW);
        assert!(budget.fits(Duration::from_millis(5_500)));
        assert!(!budget.fits(Duration::from_millis(5_501)));
        tokio::time::advance(Duration::from_millis(5_499)).await;
        assert!(!budget.is_spent());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(budget.is_spent());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_in_the_past_is_a_spent_budget() {
        for deadline in [0, NOW - 5, NOW, NOW + 500] {
            assert!(Budget::until(deadline, NOW).is_spent(), "{deadline}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_is_a_duration_counts_from_now() {
        assert_eq!(Budget::until(600_000, NOW).left(), Duration::from_millis(599_500));
    }
}
