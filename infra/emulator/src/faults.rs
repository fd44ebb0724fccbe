//! Random faults of one listener.
//!
//! Each document request draws a number from a generator that is seeded by [`Faults::seed`] and the number of earlier draws: a
//! client that sends one request at a time meets the same faults in every run.

use std::time::Duration;

use crate::kind::RequestKind;

/// Faults of a listener, as probabilities between 0 and 1 for each document request.
///
/// At most one of `lost_before`, `lost_after`, `throttled` and `unavailable` hits a request, so they should not add up to more than
/// 1. Requests about the account, databases, containers and ranges get only the delay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Decides which requests are hit.
    pub seed: u64,
    /// The connection closes without a reply, and nothing was done.
    pub lost_before: f64,
    /// The request is carried out, and then the connection closes without a reply.
    pub lost_after: f64,
    /// 429 with substatus 3200 and `x-ms-retry-after-ms`; nothing was done.
    pub throttled: f64,
    /// The `x-ms-retry-after-ms` of a 429.
    pub retry_after: Duration,
    /// 503; nothing was done.
    pub unavailable: f64,
    /// Added to every request, of whatever kind, before it is checked.
    pub delay: Option<Duration>,
    /// A random part of this is added to every request as well.
    pub jitter: Duration,
    /// Reads and queries go to the lagging region of [`Lag`](crate::Lag); without one this does nothing. A consistency token that the
    /// region has not reached gets 404/1002.
    pub stale_reads: bool,
    /// The share of stale reads that go to the write region after all, so that reads jump back and forth in time, and partitions
    /// differ in age, as with the replicas of the service.
    pub fresh: f64,
    /// Reads and queries do not fail.
    pub writes_only: bool,
    /// At most this many requests are lost, throttled or unavailable.
    pub limit: Option<u64>,
}

/// The fate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Served,
    LostBefore,
    LostAfter,
    Throttled,
    Unavailable,
}

/// The faults in force at a listener, and the state of the generator.
#[derive(Debug, Default)]
pub(crate) struct FaultPlan {
    faults: Faults,
    drawn: u64,
    hit: u64,
}

impl FaultPlan {
    pub(crate) fn new(faults: Faults) -> Self {
        Self {
            faults,
            drawn: 0,
            hit: 0,
        }
    }

    /// The delay of the next request.
    pub(crate) fn delay(&mut self) -> Option<Duration> {
        if self.faults.jitter.is_zero() {
            return self.faults.delay;
        }
        let part = self.faults.jitter.mul_f64(self.draw());
        Some(self.faults.delay.unwrap_or_default() + part)
    }

    /// The fate of the next document request.
    pub(crate) fn fate(&mut self, kind: RequestKind) -> Fate {
        let faults = &self.faults;
        let spared = (faults.writes_only && !kind.is_write())
            || faults.limit.is_some_and(|limit| self.hit >= limit)
            || faults.lost_before + faults.lost_after + faults.throttled + faults.unavailable <= 0.0;
        if spared {
            return Fate::Served;
        }
        let chances = [
            (faults.lost_before, Fate::LostBefore),
            (faults.lost_after, Fate::LostAfter),
            (faults.throttled, Fate::Throttled),
            (faults.unavailable, Fate::Unavailable),
        ];
        let mut left = self.draw();
        for (chance, fate) in chances {
            if left < chance {
                self.hit += 1;
                return fate;
            }
            left -= chance;
        }
        Fate::Served
    }

    /// Whether a read goes to the lagging region.
    pub(crate) fn is_stale(&mut self, kind: RequestKind) -> bool {
        if !self.faults.stale_reads || !kind.is_read() {
            return false;
        }
        self.faults.fresh <= 0.0 || self.draw() >= self.faults.fresh
    }

    pub(crate) fn retry_after(&self) -> Duration {
        self.faults.retry_after
    }

    /// The next number of the sequence, in `[0, 1)`.
    fn draw(&mut self) -> f64 {
        self.drawn += 1;
        fastrand::Rng::with_seed(self.faults.seed ^ self.drawn.wrapping_mul(0x9E37_79B9_7F4A_7C15)).f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(faults: Faults, kind: RequestKind) -> Vec<Fate> {
        let mut plan = FaultPlan::new(faults);
        (0..2_000).map(|_| plan.fate(kind)).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_and_another_seed_others() {
        let faults = Faults {
            seed: 7,
            lost_before: 0.2,
            throttled: 0.2,
            ..Faults::default()
        };
        let other = Faults {
            seed: 8,
            ..faults.clone()
        };
        assert_eq!(
            fates(faults.clone(), RequestKind::Read),
            fates(faults.clone(), RequestKind::Read)
        );
        assert_ne!(fates(faults, RequestKind::Read), fates(other, RequestKind::Read));
    }

    #[test]
    fn faults_are_as_frequent_as_configured() {
        let faults = Faults {
            lost_after: 0.1,
            unavailable: 0.3,
            ..Faults::default()
        };
        let fates = fates(faults, RequestKind::Create);
        let share = |fate: Fate| fates.iter().filter(|&&f| f == fate).count() as f64 / fates.len() as f64;
        assert!(
            (share(Fate::LostAfter) - 0.1).abs() < 0.03,
            "{}",
            share(Fate::LostAfter)
        );
        assert!(
            (share(Fate::Unavailable) - 0.3).abs() < 0.05,
            "{}",
            share(Fate::Unavailable)
        );
        assert_eq!(share(Fate::Throttled), 0.0);
    }

    #[test]
    fn reads_do_not_fail_when_only_writes_are_to_fail() {
        let faults = Faults {
            lost_before: 1.0,
            writes_only: true,
            ..Faults::default()
        };
        assert!(
            fates(faults.clone(), RequestKind::Query)
                .iter()
                .all(|&f| f == Fate::Served)
        );
        assert!(fates(faults, RequestKind::Batch).iter().all(|&f| f == Fate::LostBefore));
    }

    #[test]
    fn no_more_requests_are_hit_than_the_limit_allows() {
        let faults = Faults {
            throttled: 1.0,
            limit: Some(3),
            ..Faults::default()
        };
        let hit = fates(faults, RequestKind::Read)
            .iter()
            .filter(|&&f| f == Fate::Throttled)
            .count();
        assert_eq!(hit, 3);
    }
}
