//! Injected time and random ids, so that tests can move time and repeat a run.
//!
//! Every timestamp that is stored or compared comes from a [`Clock`](cosmos::Clock), and every random id from [`Ids`].
//! ETags fence the locks: a wrong clock can make a claim expire early or late, but never lets two processes commit.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// The source of commit ids and lock tokens.
pub trait Ids: Send + Sync + Debug {
    /// An id that no other process makes, of characters that a document id may have.
    fn unique(&self) -> String;
}

/// Random ids (UUID v4).
#[derive(Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    #[allow(clippy::disallowed_methods, reason = "this is the injected source itself")]
    fn unique(&self) -> String {
        uuid::Uuid::new_v4().simple().to_string()
    }
}

/// Makes sort keys that grow within this process, and by clock time across processes.
#[derive(Debug, Default)]
pub(crate) struct Sequence(AtomicU64);

impl Sequence {
    /// A key that sorts by `now_ms`, then by the order of the calls.
    pub(crate) fn next(&self, now_ms: u64) -> String {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        format!("{now_ms:015}-{n:012}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sort_keys_grow_with_time_and_within_one_millisecond() {
        let sequence = Sequence::default();
        let keys = [
            sequence.next(5),
            sequence.next(5),
            sequence.next(60),
            sequence.next(1_700_000_000_000),
        ];
        assert!(keys.is_sorted(), "{keys:?}");
    }

    #[test]
    fn random_ids_fit_a_document_id_and_differ() {
        let (a, b) = (RandomIds.unique(), RandomIds.unique());
        assert_ne!(a, b);
        assert!(a.chars().all(|c| c.is_ascii_alphanumeric()), "{a}");
    }
}
