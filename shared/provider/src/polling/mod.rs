//! Polling: which instance or work item to try next, for callers without a wakeup (duroxide's polling runtime).
//!
//! This process knows most work before any query could find it, because it committed it. Such *candidates* are tried
//! first. A *sweep* (one small page of every physical range, oldest due first) finds what other processes have enqueued:
//! at a steady interval while there are candidates, and at once when a caller has none. A candidate leads to a directed
//! fetch; a stale one costs one request. Dropping a candidate costs time, never work, so their number is limited.
//!
//! Timers are candidates with a time. A candidate whose instance has a turn under way in this process waits for the end of
//! that turn. What this process has given back because it cannot run it is left to others for a while. The activities of
//! an affinity session stay candidates for the worker slot that owns the session (`works`). A fetch that is dropped before
//! it ends (a runtime that shuts down) keeps neither its candidate nor its claim (`handover`).

mod candidates;
mod contexts;
mod handover;
mod turns;
mod works;

pub(crate) use candidates::{Candidates, WorkCandidate};
pub(crate) use contexts::Contexts;
pub(crate) use turns::Turns;
pub(crate) use works::Works;

use crate::error::Failure;
use crate::recovery;
use crate::store::Store;
use candidates::Place;
use cosmos::PartitionKey;
use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

/// Documents that a sweep takes from each physical range.
const PAGE: u32 = 100;

/// One kind of work to poll for.
pub(crate) trait Source: Sync {
    type Candidate: Clone + Eq + Hash + Send + Sync;
    type Item: Send;

    fn store(&self) -> &Store;

    fn candidates(&self) -> &Candidates<Self::Candidate>;

    /// Whether the caller serves such a candidate.
    fn serves(&self, search: &Search, candidate: &Self::Candidate) -> bool;

    /// When the caller gets the answer that there is nothing.
    fn deadline(&self, search: &Search) -> Instant {
        search.deadline
    }

    /// Identifies a candidate within one search.
    fn key(candidate: &Self::Candidate) -> String;

    /// Fetches what a candidate names.
    fn attempt(
        &self,
        search: &Search,
        candidate: &Self::Candidate,
    ) -> impl Future<Output = Result<Option<Self::Item>, Failure>> + Send;

    /// Makes candidates of one page of what is due.
    fn sweep(&self, search: &mut Search) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// One undirected fetch under way.
pub(crate) struct Search {
    begun: Instant,
    deadline: Instant,
    /// The caller will come back for what it is not given now. Without it, "nothing" is an answer about the store, and an
    /// instance that another fetch of this process examines may still be free.
    waits: bool,
    /// A caller that will not wait must sweep itself, to the end of the queue if need be: other processes may have claimed
    /// all that the first pages name. One that waits sweeps when a sweep is due.
    must_sweep: bool,
    place: Option<Place>,
    tried: HashSet<String>,
}

/// The next item of a source, waiting for it up to `poll_timeout`.
pub(crate) async fn poll<S: Source>(source: &S, poll_timeout: Duration) -> Result<Option<S::Item>, Failure> {
    let begun = Instant::now();
    let mut search = Search {
        begun,
        deadline: begun + poll_timeout,
        waits: !poll_timeout.is_zero(),
        must_sweep: poll_timeout.is_zero(),
        place: None,
        tried: HashSet::new(),
    };
    let (store, candidates) = (source.store(), source.candidates());
    loop {
        let mut trouble = None;
        let seen = candidates.added();
        if candidates.is_sweep_due() {
            trouble = source.sweep(&mut search).await.err();
        }
        while let Some(candidate) = candidates.pop(store.now(), search.waits, |c| source.serves(&search, c)) {
            if let Some(item) = source.attempt(&search, &candidate).await? {
                return Ok(Some(item));
            }
            search.tried.insert(S::key(&candidate));
        }
        // A failed sweep does not keep the caller from the candidates that are known.
        if let Some(failure) = trouble {
            return Err(failure);
        }
        if search.must_sweep {
            source.sweep(&mut search).await?;
            continue;
        }
        let deadline = source.deadline(&search);
        if Instant::now() >= deadline {
            return Ok(None);
        }
        candidates.wait(seen, deadline, store.now()).await;
        search.tried.clear();
    }
}

/// Whether and from where to sweep. Of several callers that only keep the interval, one sweeps and the others continue.
async fn begin_sweep<'a, C: Clone + Eq + Hash>(
    store: &Store,
    candidates: &'a Candidates<C>,
    search: &mut Search,
) -> Option<(MutexGuard<'a, ()>, Place)> {
    let (alone, place) = if search.must_sweep {
        (candidates.sweeping.lock().await, search.place.take())
    } else {
        let alone = candidates.sweeping.try_lock().ok()?;
        candidates.is_sweep_due().then_some(())?;
        (alone, candidates.take_place())
    };
    // Recorded before the sweep succeeds: if it fails, the next calls still try their candidates first.
    candidates.note_sweep();
    let place = place.unwrap_or_else(|| Place {
        now_ms: store.now(),
        cursor: None,
    });
    Some((alone, place))
}

/// Records where the next sweep continues: in this search if it must sweep, else for any caller, at once if this page had
/// nothing new.
fn end_sweep<C: Clone + Eq + Hash>(candidates: &Candidates<C>, search: &mut Search, next: Option<Place>, found: bool) {
    if search.must_sweep {
        search.must_sweep = next.is_some();
        search.place = next;
    } else {
        candidates.keep_place(next, found);
    }
}

/// Parks what has come since an instance was paused.
async fn park_late(store: &Store, instance: &str) -> Result<(), Failure> {
    let parked = async { recovery::park_late(store, &PartitionKey::new(instance)?).await };
    match parked.await {
        Ok(_) => Ok(()),
        Err(failure) => skip(instance, failure),
    }
}

/// Skips an instance whose documents cannot be read, so that it does not block all others. Errors of the store itself
/// are returned.
fn skip(instance: &str, failure: Failure) -> Result<(), Failure> {
    if failure.is_transient() && !matches!(failure, Failure::Stale { .. } | Failure::Busy(_)) {
        return Err(failure);
    }
    tracing::error!(instance, %failure, "an instance cannot be fetched; polling continues with others");
    Ok(())
}
