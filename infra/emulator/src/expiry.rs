//! When which document expires: a heap of hints, fed by writes.
//!
//! A hint says when a *version* of a document expires, and names it by its ETag. Every write of a document that will expire leaves
//! one; nothing is taken back. When a hint is due the document is deleted on the condition that it is still that
//! version: if it was written again or deleted meanwhile, the condition fails and the hint was void. So hints may come in
//! any order, from any number of writers, without a lock around the write. The price is a void hint for each rewrite, kept
//! until its time.
//!
//! Before a document request is answered, what is due is deleted ([`Expiry::is_due`] is one comparison where nothing
//! expires): nobody ever sees a document after its time, and no clock has to tick while nobody looks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::MutexGuard as AsyncGuard;

/// That one version of a document expires.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hint {
    /// In milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) db: String,
    pub(crate) container: String,
    /// The partition key, as a header.
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) etag: String,
}

/// The hints of an account.
pub(crate) struct Expiry {
    /// When the first hint is due.
    next: AtomicU64,
    hints: Mutex<BinaryHeap<Reverse<Hint>>>,
    sweeping: tokio::sync::Mutex<()>,
}

impl Default for Expiry {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(u64::MAX),
            hints: Mutex::default(),
            sweeping: tokio::sync::Mutex::default(),
        }
    }
}

impl Expiry {
    /// Whether something has to be deleted before anybody looks.
    pub(crate) fn is_due(&self) -> bool {
        let next = self.next.load(Ordering::SeqCst);
        next != u64::MAX && next <= now()
    }

    pub(crate) fn add(&self, hint: Hint) {
        let mut hints = self.hints();
        hints.push(Reverse(hint));
        self.set_next(&hints);
    }

    /// One at a time deletes what is due; others wait until it is done.
    pub(crate) async fn alone(&self) -> AsyncGuard<'_, ()> {
        self.sweeping.lock().await
    }

    /// The first hint that is due. It stays until it is [done](Self::done), so that nobody looks before.
    pub(crate) fn due(&self, now: u64) -> Option<Hint> {
        let hints = self.hints();
        hints
            .peek()
            .filter(|first| first.0.at <= now)
            .map(|first| first.0.clone())
    }

    /// Takes off a hint that was followed.
    pub(crate) fn done(&self, hint: &Hint) {
        let mut hints = self.hints();
        if hints.peek().is_some_and(|first| first.0 == *hint) {
            hints.pop();
        } else {
            // A more urgent one has come meanwhile.
            hints.retain(|other| other.0 != *hint);
        }
        self.set_next(&hints);
    }

    /// Forgets a container: it is gone, or its times have changed.
    pub(crate) fn forget(&self, db: &str, container: Option<&str>) {
        let mut hints = self.hints();
        hints.retain(|hint| hint.0.db != db || container.is_some_and(|container| hint.0.container != container));
        self.set_next(&hints);
    }

    fn set_next(&self, hints: &BinaryHeap<Reverse<Hint>>) {
        let next = hints.peek().map_or(u64::MAX, |first| first.0.at);
        self.next.store(next, Ordering::SeqCst);
    }

    fn hints(&self) -> MutexGuard<'_, BinaryHeap<Reverse<Hint>>> {
        // A panic cannot leave a heap half changed: comparing hints does not panic.
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The service's time, in milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the service's own clock, which a client cannot inject"
)]
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
