//! Pruning earlier executions: oldest first, in fenced batches that only delete.
//!
//! ```text
//!   the newest to prune ──> a page of executions ──> their history ──> groups ──> ONE batch each: fence, counts, deletions
//!                                   ^                                                        │
//!                                   └────────────────── until nothing is left ───────────────┘
//! ```
//!
//! A batch replaces the instance document in the version that was read, and deletes whole executions. So the counts in that
//! document are right after each batch, and a call that crashes or is dropped leaves
//! nothing unfinished: the next one continues with the oldest that is left. Nothing is claimed and nothing is created, so
//! an instance can be pruned whose partition is full. Turns run between two batches; a batch that meets one fails as a
//! whole, and is planned again.
//!
//! An execution with more documents than a batch holds is *emptied* first: its document then says that it has no events,
//! so that no reader misses the history that goes in the next batches. Its document goes last.
//!
//! An execution with a document of a newer release is left as it is, and the others are pruned. A call ends after a while
//! (`prune_time`); then, and when something was left, its error says how much is deleted, and the next call continues.
//!
//! A full partition may have a commit that cannot be rolled forward, because that creates documents. Pruning concerns
//! earlier executions only, so it leaves the commit unfinished: the next fetch, which has room then, rolls it forward.
//!
//! Memory does not depend on how much there is to prune: only ids and counts are read, one page at a time.

use super::list;
use super::prune_run::{End, Pruning};
use crate::error::Failure;
use crate::store::Store;
use cosmos::PartitionKey;
use duroxide::providers::{InstanceFilter, PruneOptions, PruneResult};
use tokio::time::Instant;

/// Removes the executions of one instance that `options` selects; never the current one.
pub(crate) async fn prune(store: &Store, pk: &PartitionKey, options: &PruneOptions) -> Result<PruneResult, Failure> {
    prune_by(store, pk, options, Instant::now() + store.prune_time).await
}

async fn prune_by(
    store: &Store,
    pk: &PartitionKey,
    options: &PruneOptions,
    until: Instant,
) -> Result<PruneResult, Failure> {
    let mut pruning = Pruning::new(store, pk, until);
    match pruning.run(options).await {
        Ok(End::Done) => Ok(pruning.result),
        Ok(End::Time) => Err(partly(pruning.result, Failure::OutOfTime(store.prune_time))),
        Err(failure) if pruning.result.executions_deleted == 0 => Err(failure),
        Err(failure) => Err(partly(pruning.result, failure)),
    }
}

fn partly(done: PruneResult, why: Failure) -> Failure {
    Failure::Partly {
        executions: done.executions_deleted,
        events: done.events_deleted,
        why: Box::new(why),
    }
}

/// The same, until well before the limit, and without waiting for a turn that is under way. Another call continues.
pub(crate) async fn prune_until(
    store: &Store,
    pk: &PartitionKey,
    options: &PruneOptions,
    limit: Instant,
) -> Result<PruneResult, Failure> {
    let left = limit.saturating_duration_since(Instant::now());
    let mut pruning = Pruning::new(store, pk, limit - left / 4);
    pruning.waits = false;
    match pruning.run(options).await {
        Err(Failure::Busy(_)) if pruning.result.executions_deleted > 0 => Ok(pruning.result),
        done => done.map(|_| pruning.result),
    }
}

/// Prunes every instance that matches.
pub(crate) async fn prune_bulk(
    store: &Store,
    filter: &InstanceFilter,
    options: &PruneOptions,
) -> Result<PruneResult, Failure> {
    let until = Instant::now() + store.prune_time;
    let (mut total, mut failed) = (PruneResult::default(), None);
    for instance in list::matching(store, filter, |_| true).await? {
        // As in one instance: never before something is deleted.
        if total.events_deleted > 0 && Instant::now() >= until {
            return Err(partly(total, Failure::OutOfTime(store.prune_time)));
        }
        match prune_by(store, &PartitionKey::new(&instance)?, options, until).await {
            Ok(one) => {
                total.instances_processed += one.instances_processed;
                total.executions_deleted += one.executions_deleted;
                total.events_deleted += one.events_deleted;
            }
            // Deleted since it was listed.
            Err(Failure::NoInstance(_)) => {}
            Err(failure) => {
                if let Failure::Partly { executions, events, .. } = &failure {
                    total.executions_deleted += executions;
                    total.events_deleted += events;
                }
                tracing::warn!(instance, %failure, "an instance was not pruned; bulk pruning continues with the others");
                failed = Some(failure);
            }
        }
    }
    match failed {
        Some(Failure::Partly { why, .. }) if matches!(*why, Failure::OutOfTime(_)) => Err(partly(total, *why)),
        Some(failure) if total.instances_processed == 0 => Err(failure),
        _ => Ok(total),
    }
}
