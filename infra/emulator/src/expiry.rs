//! When documents expire: a heap of deadlines, one for each write of a document with a time to live.
//!
//! A deadline names a *version* of a document by its ETag, and is never revoked. When it has passed, the document is deleted with
//! `If-Match`: if it was written again or deleted meanwhile, the condition fails and nothing happens. So deadlines may be added in
//! any order by concurrent writers, without a lock around the write. The price is an obsolete deadline for each rewrite, kept until
//! its time.
//!
//! Expired documents are deleted before the next document request is answered ([`Expiry::is_due`] is one comparison), so no
//! client sees a document after its time, and no background task is needed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::MutexGuard as AsyncGuard;

/// The time at which one version of a document expires.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline {
    /// In milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) db: String,
    pub(crate) container: String,
    /// The partition key, as a header.
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) etag: String,
}

/// The deadlines of an account.
pub(crate) struct Expiry {
    /// The first deadline.
    next: AtomicU64,
    deadlines: Mutex<BinaryHeap<Reverse<Deadline>>>,
    sweeping: tokio::sync::Mutex<()>,
}

impl Default for Expiry {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(u64::MAX),
            deadlines: Mutex::default(),
            sweeping: tokio::sync::Mutex::default(),
        }
    }
}

impl Expiry {
    /// Whether a deadline has passed.
    pub(crate) fn is_due(&self) -> bool {
        let next = self.next.load(Ordering::SeqCst);
        next != u64::MAX && next <= now()
    }

    pub(crate) fn add(&self, deadline: Deadline) {
        let mut deadlines = self.deadlines();
        deadlines.push(Reverse(deadline));
        self.set_next(&deadlines);
    }

    /// One request at a time deletes expired documents; others wait until it is done.
    pub(crate) async fn lock(&self) -> AsyncGuard<'_, ()> {
        self.sweeping.lock().await
    }

    /// The first deadline that has passed. It stays until it is [done](Self::done), so that other requests wait for its deletion.
    pub(crate) fn due(&self, now: u64) -> Option<Deadline> {
        let deadlines = self.deadlines();
        deadlines
            .peek()
            .filter(|first| first.0.at <= now)
            .map(|first| first.0.clone())
    }

    /// Removes a deadline whose document was deleted or is obsolete.
    pub(crate) fn done(&self, deadline: &Deadline) {
        let mut deadlines = self.deadlines();
        if deadlines.peek().is_some_and(|first| first.0 == *deadline) {
            deadlines.pop();
        } else {
            // An earlier one was added meanwhile.
            deadlines.retain(|other| other.0 != *deadline);
        }
        self.set_next(&deadlines);
    }

    /// Removes the deadlines of a database or container that was deleted or redefined.
    pub(crate) fn forget(&self, db: &str, container: Option<&str>) {
        let mut deadlines = self.deadlines();
        deadlines.retain(|deadline| {
            deadline.0.db != db || container.is_some_and(|container| deadline.0.container != container)
        });
        self.set_next(&deadlines);
    }

    fn set_next(&self, deadlines: &BinaryHeap<Reverse<Deadline>>) {
        let next = deadlines.peek().map_or(u64::MAX, |first| first.0.at);
        self.next.store(next, Ordering::SeqCst);
    }

    fn deadlines(&self) -> MutexGuard<'_, BinaryHeap<Reverse<Deadline>>> {
        // Comparing deadlines does not panic, so the heap is always whole.
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner)
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
