//! Deleting instances: all of a group or none, over many partitions. See `model::deletion` for the protocol.
//!
//! ```text
//!   check ──> mark every instance (fences turns) ──> check again ──> DECIDE (one document) ──> erase each partition
//! ```
//!
//! A single small instance is deleted by one fenced batch. An instance whose partition is full (20 GB) can be deleted:
//! nothing is created in it, and its document takes the mark in place of something else.

use super::guard::Guard;
use super::list::{self, Listed};
use crate::batch::{BATCH_OPS, extend};
use crate::error::Failure;
use crate::model::{Deleting, DeletionDoc, InstanceDoc, Kind, Lock, StagedOp};
use crate::read;
use crate::recovery::{self, AT_ONCE, ATTEMPTS, Progress, add, tally};
use crate::store::Store;
use cosmos::{Batch, PartitionKey, Retry};
use duroxide::providers::{DeleteInstanceResult, InstanceFilter};
use futures::future::try_join_all;
use std::collections::HashSet;
use tokio::time::{Instant, timeout_at};

/// How long marking one instance may take before other processes may abort the deletion.
const MARKING_MS: u64 = 100;
/// An expired tree of up to so many instances is deleted at once; a larger one in parts, which begin small, so that one
/// fits into the time of any run, and become larger as long as the time suffices.
const WHOLE: usize = 4 * AT_ONCE;
const LEAST_PART: usize = AT_ONCE;
const LARGEST_PART: usize = 16 * AT_ONCE;

/// Deletes all of these instances, or none.
pub(crate) async fn delete_group(store: &Store, ids: &[String], force: bool) -> Result<DeleteInstanceResult, Failure> {
    delete_guarded(store, ids, if force { Guard::Any } else { Guard::Over }, None).await
}

/// Deletes a tree (the root first, then level by level) that has ended, its root before then. A large tree goes in parts,
/// from the leaves to the root: each part is deleted whole or not at all, and what is left is a tree that the next call
/// continues with. The marks of a part that cannot be marked well before the limit are removed again. Returns whether the
/// whole tree is deleted.
pub(crate) async fn delete_expired(
    store: &Store,
    tree: &[String],
    before: u64,
    limit: Instant,
) -> Result<bool, Failure> {
    let (mut left, mut size) = (tree, LEAST_PART);
    while !left.is_empty() {
        let (rest, part) = if left.len() <= WHOLE.max(size) {
            (&[] as &[String], left)
        } else {
            left.split_at(left.len() - size)
        };
        let guard = match rest.is_empty() {
            true => Guard::Expired { before },
            false => Guard::Child,
        };
        let time = limit.saturating_duration_since(Instant::now());
        // Removing the marks takes about as long as setting them.
        let mark_until = limit.checked_sub(time / 2);
        match delete_guarded(store, part, guard, mark_until).await {
            Ok(_) => {}
            Err(Failure::Busy(instance)) if left.len() < tree.len() => {
                let (all, left) = (tree.len(), left.len());
                tracing::info!(
                    instance,
                    all,
                    left,
                    "the time ended within a large tree; the next run continues"
                );
                return Ok(false);
            }
            Err(failure) => return Err(failure),
        }
        left = rest;
        size = LARGEST_PART.min(2 * size);
    }
    Ok(true)
}

async fn delete_guarded(
    store: &Store,
    ids: &[String],
    guard: Guard,
    mark_until: Option<Instant>,
) -> Result<DeleteInstanceResult, Failure> {
    let mut seen = HashSet::new();
    let ids: Vec<String> = ids.iter().filter(|id| seen.insert(id.as_str())).cloned().collect();
    let Some(root) = ids.first() else {
        return Ok(DeleteInstanceResult::default());
    };
    let ids = ids.as_slice();
    check(store, ids, guard).await?;
    if let [only] = ids
        && let Some(result) = delete_alone(store, &PartitionKey::new(only)?, guard).await?
    {
        return Ok(result);
    }
    let group = store.ids.unique();
    let deleting = Deleting {
        group: group.clone(),
        expires: store.repair_due() + ids.len() as u64 * MARKING_MS,
    };
    let decision = DeletionDoc::new(&group, store.repair_due(), ids);
    let marked = async {
        for some in ids.chunks(AT_ONCE) {
            try_join_all(some.iter().map(|id| mark(store, id, &deleting))).await?;
        }
        check(store, ids, guard).await?;
        check_versions(store, ids).await?;
        recovery::decide(store, &decision).await
    };
    let marked = match mark_until {
        Some(until) => timeout_at(until, marked)
            .await
            .unwrap_or_else(|_| Err(Failure::Busy(root.clone()))),
        None => marked.await,
    };
    if let Err(failure) = marked {
        // If the abort fails too, any process that meets the expired marks aborts the deletion.
        if let Err(error) = recovery::abort(store, &decision).await {
            tracing::warn!(group, %error, "an undecided deletion left marks; recovery removes them when they expire");
        }
        return Err(failure);
    }
    recovery::carry_out(store, &decision).await
}

/// Refuses what must not be deleted.
async fn check(store: &Store, ids: &[String], guard: Guard) -> Result<(), Failure> {
    if !matches!(guard, Guard::Any) {
        let root = ids.first();
        for some in ids.chunks(AT_ONCE) {
            let each = some.iter().map(|id| async {
                let instance = read::instance(store, &PartitionKey::new(id)?).await?;
                guard.check(id, root == Some(id), instance.as_ref())
            });
            try_join_all(each).await?;
        }
    }
    let group: HashSet<&String> = ids.iter().collect();
    let orphans: Vec<String> = list::children_of(store, ids)
        .await?
        .into_iter()
        .filter(|child| !group.contains(child))
        .collect();
    if let Some(orphan) = orphans.first() {
        return Err(Failure::Refused(format!(
            "instance '{orphan}' is a child of an instance to be deleted, but not to be deleted itself: \
             delete the whole tree"
        )));
    }
    Ok(())
}

/// Refuses a group with a document that a newer release wrote, before anything of it is deleted.
async fn check_versions(store: &Store, ids: &[String]) -> Result<(), Failure> {
    for some in ids.chunks(AT_ONCE) {
        let each = some
            .iter()
            .map(|id| async { recovery::check_versions(store, &PartitionKey::new(id)?).await });
        try_join_all(each).await?;
    }
    Ok(())
}

/// Deletes a single instance in one batch; `None` when it does not fit, or has changed meanwhile.
async fn delete_alone(store: &Store, pk: &PartitionKey, guard: Guard) -> Result<Option<DeleteInstanceResult>, Failure> {
    let Some(fence) = store.fence(pk).await? else {
        return Ok(None);
    };
    if fence.doc.lock.unfinished.is_some() || fence.doc.lock.deleting.is_some() {
        return Ok(None);
    }
    let instance = Some(&fence.doc).filter(|instance| instance.exists());
    guard.check(pk.as_str(), true, instance)?;
    let remains = recovery::remains(store, pk).await?;
    if remains.len() > BATCH_OPS || remains.iter().any(|doc| doc.kind == Kind::Intent) {
        return Ok(None);
    }
    let mut batch = Batch::new();
    batch.delete(InstanceDoc::ID, Some(fence.etag.clone()))?;
    let ops: Vec<StagedOp> = remains
        .iter()
        .filter(|doc| doc.kind != Kind::Instance)
        .map(|doc| StagedOp::delete(&doc.version.id, &doc.version.etag))
        .collect();
    match store
        .container
        .batch(pk, &extend(batch, &ops)?, Retry::Idempotent)
        .await
    {
        Ok(_) => Ok(Some(tally(instance, &remains))),
        Err(error) if error.after_ambiguity() && error.is_not_found() && store.fence(pk).await?.is_none() => {
            Ok(Some(tally(instance, &remains)))
        }
        Err(error) if error.is_not_found() || error.is_precondition_failed() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Marks an instance for the deletion, whoever has claimed it.
async fn mark(store: &Store, instance: &str, mark: &Deleting) -> Result<(), Failure> {
    let pk = &PartitionKey::new(instance)?;
    for _ in 0..ATTEMPTS {
        let seen = store.fence(pk).await?;
        if let Some(fence) = &seen {
            match recovery::roll_forward(store, pk, fence).await? {
                Progress::Clean => {}
                Progress::Changed { .. } => continue,
                Progress::Underway { .. } => return Err(Failure::busy(pk)),
            }
        }
        let mut next = seen.as_ref().map_or_else(
            || InstanceDoc::absent(pk.as_str(), store.now()),
            |fence| fence.doc.with(|lock| lock.release(false)),
        );
        next.lock.deleting = Some(mark.clone());
        next.lock.mark_due(Some(mark.expires));
        let etag = seen.as_ref().map(|fence| &fence.etag);
        let marked = match store.swap_fence(pk, etag, next.clone()).await {
            Err(Failure::Cosmos(cosmos::Error::PartitionFull { .. })) => {
                store.swap_fence(pk, etag, next.with(Lock::shorten)).await?
            }
            marked => marked?,
        };
        if marked.is_some() {
            return Ok(());
        }
    }
    Err(Failure::busy(pk))
}

/// Deletes the trees of all ended roots that match.
pub(crate) async fn delete_bulk(store: &Store, filter: &InstanceFilter) -> Result<DeleteInstanceResult, Failure> {
    let roots = list::matching(store, filter, Listed::is_ended_root).await?;
    let (mut total, mut failed) = (DeleteInstanceResult::default(), None);
    for root in roots {
        let deleted = async { delete_group(store, &list::tree_of(store, &root).await?, true).await };
        match deleted.await {
            Ok(one) => add(&mut total, &one),
            Err(failure) => {
                tracing::warn!(instance = root, %failure, "a tree was not deleted; bulk deletion continues with the others");
                failed = Some(failure);
            }
        }
    }
    match failed {
        Some(failure) if total.instances_deleted == 0 => Err(failure),
        _ => Ok(total),
    }
}
