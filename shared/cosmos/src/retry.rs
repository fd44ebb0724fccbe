//! What the outcome of an attempt means, and how long to wait before the next: pure decisions, no I/O.
//!
//! `send.rs` has the one loop that acts on them.
//!
//! Invariant: an attempt whose outcome is [`Class::Unknown`] is repeated only when the caller declared
//! [`Retry::Idempotent`] or the request is a read. All other repeats follow an attempt that certainly changed nothing.

use std::time::Duration;

use crate::observe::RequestKind;

/// Whether an attempt whose outcome is unknown may be repeated. Only the caller knows.
///
/// The outcome is unknown after a timeout, a connection lost after sending, 408, and every 5xx but 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Yes: sending twice is harmless, and the caller handles 409, 412 and 404 with
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
    /// There was no connection, so nothing was sent.
    NotSent,
    /// It was sent, at least in part, and no complete answer came.
    Lost,
}

/// What an outcome means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Class {
    Success,
    /// An answer that a repetition would not change, such as 409.
    Final,
    /// 401: the key may have been rotated, or the token has expired.
    CredentialRefused,
    /// 429.
    Throttled(Option<Duration>),
    /// 449: another write to the same document was in progress.
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

pub(crate) fn classify(outcome: Outcome) -> Class {
    let (status, substatus, retry_after) = match outcome {
        Outcome::Answer {
            status,
            substatus,
            retry_after,
        } => (status, substatus, retry_after),
        Outcome::NotSent => return Class::NotSent,
        Outcome::Lost => return Class::Unknown,
    };
    match (status, substatus) {
        (200..=299 | 304, _) => Class::Success,
        (401, _) => Class::CredentialRefused,
        (403, 3 | 1008) => Class::RegionMoved,
        (404, 1002) => Class::ReplicaBehind,
        (410, _) => Class::RangeGone,
        (429, _) => Class::Throttled(retry_after),
        (449, _) => Class::Collided,
        (503, _) => Class::Unavailable,
        (408 | 500..=599, _) => Class::Unknown,
        _ => Class::Final,
    }
}

/// How often each kind of failure occurred in one operation.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    collisions: u32,
    failures: u32,
    behind: u32,
    moved: u32,
}

impl Backoff {
    /// How long to wait before sending again, or `None` to give up.
    pub(crate) fn wait(&mut self, class: Class, kind: RequestKind, retry: Retry) -> Option<Duration> {
        match class {
            // The loop handles `CredentialRefused`: it has the source.
            Class::Success | Class::Final | Class::CredentialRefused => None,
            // `sweep.rs` sends the query of a range that is gone to its successors.
            Class::RangeGone if kind == RequestKind::RangeQuery => None,
            Class::Unknown if kind.is_write() && retry == Retry::Once => None,
            // The service computes when there is room again, so jitter would only make the request early or late.
            Class::Throttled(Some(after)) => Some(after),
            Class::Collided => {
                let wait = if self.collisions == 0 {
                    Duration::ZERO
                } else {
                    doubled(10, self.collisions - 1, 1_000)
                };
                self.collisions += 1;
                Some(wait)
            }
            Class::ReplicaBehind => Some(step(&mut self.behind, 5, 200)),
            Class::RegionMoved if self.moved >= 1 => None,
            Class::RegionMoved => Some(step(&mut self.moved, 20, 1_000)),
            Class::Throttled(None) | Class::Unavailable | Class::NotSent | Class::Unknown | Class::RangeGone => {
                Some(step(&mut self.failures, 20, 1_000))
            }
        }
    }

    /// How long to wait before asking again where a range has moved.
    pub(crate) fn range_moving(&mut self) -> Duration {
        step(&mut self.failures, 20, 1_000)
    }
}

fn step(count: &mut u32, first_ms: u64, cap_ms: u64) -> Duration {
    let full = doubled(first_ms, *count, cap_ms);
    *count = count.saturating_add(1);
    // Half fixed, half random, so that clients that failed together do not retry together.
    full.mul_f64(0.5 + fastrand::f64() * 0.5)
}

fn doubled(first_ms: u64, times: u32, cap_ms: u64) -> Duration {
    Duration::from_millis(first_ms.saturating_mul(1 << times.min(16)).min(cap_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, substatus: u32) -> Class {
        classify(Outcome::Answer {
            status,
            substatus,
            retry_after: Some(Duration::from_millis(7)),
        })
    }

    #[test]
    fn each_status_means_what_the_service_documents() {
        use Class::*;
        let table = [
            ((200, 0), Success),
            ((201, 0), Success),
            ((204, 0), Success),
            ((207, 0), Success),
            ((304, 0), Success),
            ((400, 0), Final),
            ((401, 0), CredentialRefused),
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
        for ((status, substatus), class) in table {
            assert_eq!(answer(status, substatus), class, "{status}/{substatus}");
        }
        assert_eq!(classify(Outcome::NotSent), NotSent);
        assert_eq!(classify(Outcome::Lost), Unknown);
    }

    #[test]
    fn only_the_unknown_outcome_of_a_write_depends_on_what_the_caller_declared() {
        use Class::*;
        for class in [
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
                    let again = Backoff::default().wait(class, kind, retry).is_some();
                    let expected = !(class == Unknown && kind.is_write() && retry == Retry::Once);
                    assert_eq!(again, expected, "{class:?} {retry:?} {kind:?}");
                }
            }
        }
    }

    #[test]
    fn a_final_answer_is_never_repeated() {
        for class in [Class::Success, Class::Final, Class::CredentialRefused] {
            assert_eq!(
                Backoff::default().wait(class, RequestKind::Read, Retry::Idempotent),
                None
            );
        }
        let gone = Backoff::default().wait(Class::RangeGone, RequestKind::RangeQuery, Retry::Idempotent);
        assert_eq!(gone, None);
    }

    #[test]
    fn the_wait_is_what_the_service_says_or_doubles_up_to_a_second() {
        let mut backoff = Backoff::default();
        let mut wait = |class| {
            backoff
                .wait(class, RequestKind::Create, Retry::Once)
                .unwrap()
                .as_millis()
        };
        assert_eq!(wait(Class::Throttled(Some(Duration::from_millis(123)))), 123);
        let collided: Vec<u128> = (0..5).map(|_| wait(Class::Collided)).collect();
        assert_eq!(collided, [0, 10, 20, 40, 80]);
        let mut full = 20;
        for _ in 0..12 {
            let waited = wait(Class::Unavailable);
            assert!(waited >= full / 2 && waited <= full, "{waited} of {full}");
            full = (full * 2).min(1_000);
        }
    }

    #[test]
    fn a_moved_region_is_tried_only_once_more() {
        let mut backoff = Backoff::default();
        assert!(
            backoff
                .wait(Class::RegionMoved, RequestKind::Create, Retry::Once)
                .is_some()
        );
        assert!(
            backoff
                .wait(Class::RegionMoved, RequestKind::Create, Retry::Once)
                .is_none()
        );
    }
}
