//! What an attempt's outcome means, and how long to wait before the next: pure decisions, no I/O.
//!
//! `send.rs` holds the one loop that acts on them.
//!
//! Invariant: an attempt whose outcome is [`Verdict::Unknown`] is repeated only when the caller declared
//! [`Retry::Idempotent`] or the request is a read. All other repeats follow an attempt that certainly changed nothing.

use std::time::Duration;

use crate::observe::RequestKind;

/// May an attempt whose outcome is unknown be sent again? The caller declares it, because only it knows.
///
/// Unknown is the outcome after a timeout, a connection lost after sending, 408, 500 and other 5xx but 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Yes: sending twice is harmless, and the caller understands 409, 412 and 404 with
    /// [`after_ambiguity`](crate::Error::after_ambiguity).
    Idempotent,
    /// No: the caller gets [`Error::Ambiguous`](crate::Error::Ambiguous) instead.
    Once,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The service answered.
    Answer {
        status: u16,
        substatus: u32,
        retry_after: Option<Duration>,
    },
    /// No connection came about, so nothing was sent.
    NotSent,
    /// Sent, at least in part, and no whole answer came.
    Lost,
}

/// What an outcome means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    Success,
    /// The request's own fault, or a plain fact such as 409.
    Final,
    /// 401: the key may have been rotated.
    KeyRefused,
    /// 429.
    Throttled(Option<Duration>),
    /// 449: another write to the same document was under way.
    Collided,
    /// 503: not processed.
    Unavailable,
    /// No connection.
    NotSent,
    /// A write may or may not have been applied.
    Unknown,
    /// 410: the physical range has split or moved.
    RangeGone,
    /// 404/1002: the replica has not caught up with the consistency token.
    ReplicaBehind,
    /// 403/3 and 403/1008: the account's write region has moved.
    RegionMoved,
}

pub(crate) fn judge(outcome: Outcome) -> Verdict {
    let (status, substatus, retry_after) = match outcome {
        Outcome::Answer {
            status,
            substatus,
            retry_after,
        } => (status, substatus, retry_after),
        Outcome::NotSent => return Verdict::NotSent,
        Outcome::Lost => return Verdict::Unknown,
    };
    match (status, substatus) {
        (200..=299 | 304, _) => Verdict::Success,
        (401, _) => Verdict::KeyRefused,
        (403, 3 | 1008) => Verdict::RegionMoved,
        (404, 1002) => Verdict::ReplicaBehind,
        (410, _) => Verdict::RangeGone,
        (429, _) => Verdict::Throttled(retry_after),
        (449, _) => Verdict::Collided,
        (503, _) => Verdict::Unavailable,
        (408 | 500..=599, _) => Verdict::Unknown,
        _ => Verdict::Final,
    }
}

/// How often each kind of failure has been met in one operation.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    collisions: u32,
    failures: u32,
    behind: u32,
    moved: u32,
}

impl Backoff {
    /// How long to wait before sending again, or `None` to give up.
    pub(crate) fn wait(&mut self, verdict: Verdict, kind: RequestKind, retry: Retry) -> Option<Duration> {
        match verdict {
            // `KeyRefused` is the loop's business: it needs the key source.
            Verdict::Success | Verdict::Final | Verdict::KeyRefused => None,
            // A query of a range that is gone must be sent to other ranges: `sweep.rs` knows which.
            Verdict::RangeGone if kind == RequestKind::RangeQuery => None,
            Verdict::Unknown if kind.is_write() && retry == Retry::Once => None,
            // The service computes when there will be room: to jitter it would be to come early or late.
            Verdict::Throttled(Some(after)) => Some(after),
            Verdict::Collided => {
                let wait = if self.collisions == 0 {
                    Duration::ZERO
                } else {
                    doubled(10, self.collisions - 1, 1_000)
                };
                self.collisions += 1;
                Some(wait)
            }
            Verdict::ReplicaBehind => Some(step(&mut self.behind, 5, 200)),
            Verdict::RegionMoved if self.moved >= 1 => None,
            Verdict::RegionMoved => Some(step(&mut self.moved, 20, 1_000)),
            Verdict::Throttled(None)
            | Verdict::Unavailable
            | Verdict::NotSent
            | Verdict::Unknown
            | Verdict::RangeGone => Some(step(&mut self.failures, 20, 1_000)),
        }
    }

    /// The wait between looks for where a range has gone.
    pub(crate) fn settle(&mut self) -> Duration {
        step(&mut self.failures, 20, 1_000)
    }
}

fn step(count: &mut u32, first_ms: u64, cap_ms: u64) -> Duration {
    let full = doubled(first_ms, *count, cap_ms);
    *count = count.saturating_add(1);
    // Half fixed, half chance, so that many clients that failed together do not come back together.
    full.mul_f64(0.5 + fastrand::f64() * 0.5)
}

fn doubled(first_ms: u64, times: u32, cap_ms: u64) -> Duration {
    Duration::from_millis(first_ms.saturating_mul(1 << times.min(16)).min(cap_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, substatus: u32) -> Verdict {
        judge(Outcome::Answer {
            status,
            substatus,
            retry_after: Some(Duration::from_millis(7)),
        })
    }

    #[test]
    fn each_status_means_what_the_service_documents() {
        use Verdict::*;
        let table = [
            ((200, 0), Success),
            ((201, 0), Success),
            ((204, 0), Success),
            ((207, 0), Success),
            ((304, 0), Success),
            ((400, 0), Final),
            ((401, 0), KeyRefused),
            ((403, 0), Final),
            ((403, 3), RegionMoved),
            ((403, 1008), RegionMoved),
            ((403, 1014), Final),
            ((404, 0), Final),
            ((404, 1002), ReplicaBehind),
            ((404, 1003), Final),
            ((408, 0), Unknown),
            ((409, 0), Final),
            ((410, 1002), RangeGone),
            ((410, 1007), RangeGone),
            ((410, 1008), RangeGone),
            ((412, 0), Final),
            ((413, 0), Final),
            ((429, 3200), Throttled(Some(Duration::from_millis(7)))),
            ((449, 0), Collided),
            ((500, 0), Unknown),
            ((502, 0), Unknown),
            ((503, 0), Unavailable),
            ((504, 0), Unknown),
        ];
        for ((status, substatus), verdict) in table {
            assert_eq!(answer(status, substatus), verdict, "{status}/{substatus}");
        }
        assert_eq!(judge(Outcome::NotSent), NotSent);
        assert_eq!(judge(Outcome::Lost), Unknown);
    }

    #[test]
    fn only_an_unknown_outcome_of_a_write_depends_on_the_declaration() {
        use Verdict::*;
        for verdict in [
            Throttled(None),
            Collided,
            Unavailable,
            NotSent,
            Unknown,
            RangeGone,
            ReplicaBehind,
            RegionMoved,
        ] {
            for retry in [Retry::Idempotent, Retry::Once] {
                for kind in [
                    RequestKind::Create,
                    RequestKind::Batch,
                    RequestKind::Read,
                    RequestKind::Query,
                ] {
                    let again = Backoff::default().wait(verdict, kind, retry).is_some();
                    let expected = !(verdict == Unknown && kind.is_write() && retry == Retry::Once);
                    assert_eq!(again, expected, "{verdict:?} {retry:?} {kind:?}");
                }
            }
        }
    }

    #[test]
    fn a_final_answer_is_never_repeated() {
        for verdict in [Verdict::Success, Verdict::Final, Verdict::KeyRefused] {
            assert_eq!(
                Backoff::default().wait(verdict, RequestKind::Read, Retry::Idempotent),
                None
            );
        }
        let gone = Backoff::default().wait(Verdict::RangeGone, RequestKind::RangeQuery, Retry::Idempotent);
        assert_eq!(gone, None);
    }

    #[test]
    fn the_wait_is_what_the_service_asks_or_doubles_up_to_a_second() {
        let mut backoff = Backoff::default();
        let mut wait = |verdict| {
            backoff
                .wait(verdict, RequestKind::Create, Retry::Once)
                .unwrap()
                .as_millis()
        };
        assert_eq!(wait(Verdict::Throttled(Some(Duration::from_millis(123)))), 123);
        let collided: Vec<u128> = (0..5).map(|_| wait(Verdict::Collided)).collect();
        assert_eq!(collided, [0, 10, 20, 40, 80]);
        let mut full = 20;
        for _ in 0..12 {
            let waited = wait(Verdict::Unavailable);
            assert!(waited >= full / 2 && waited <= full, "{waited} of {full}");
            full = (full * 2).min(1_000);
        }
    }

    #[test]
    fn a_moved_region_is_asked_once_more_only() {
        let mut backoff = Backoff::default();
        assert!(
            backoff
                .wait(Verdict::RegionMoved, RequestKind::Create, Retry::Once)
                .is_some()
        );
        assert!(
            backoff
                .wait(Verdict::RegionMoved, RequestKind::Create, Retry::Once)
                .is_none()
        );
    }
}
