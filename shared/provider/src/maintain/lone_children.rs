//! Children whose parent does not exist: a part of retention.
//!
//! A tree is deleted by its root. A child that was started after its parent had been deleted (its start was still on its
//! way) belongs to no such tree, so it is treated as a root itself.
//!
//! A child whose parent exists when it is examined always has a tree: whoever deletes that parent later must delete the
//! child too. So each child is examined once, when it has ended long ago enough, and the children of roots that run for
//! ever cost nothing afterwards. How far the examination came is kept in one small document. It stops at the first child
//! that could not be deleted yet, so that the next run finds that one again.

use super::retention::{Deleted, delete_tree};
use crate::admin;
use crate::error::Failure;
use crate::model::RetentionDoc;
use crate::model::sql::{ENDED, INSTANCE};
use crate::page::{PageRequest, PassOutcome};
use crate::store::Store;
use cosmos::{Batch, PartitionKey, Query, Retry};
use serde::Deserialize;
use std::collections::BTreeSet;
use tokio::time::{Instant, timeout_at};

/// A child that ended long ago.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Child {
    pk: String,
    parent: String,
    completed_at: u64,
}

/// The searches of retention that this module does: `HELD` is `SEARCH` after a page with a child that could not be deleted.
pub(super) const SEARCH: u8 = 2;
const HELD: u8 = 3;

/// Whether a cursor is of this search.
pub(super) fn is_search(search: u8) -> bool {
    matches!(search, SEARCH | HELD)
}

/// Examines one page of children that ended before then.
pub(super) async fn page(store: &Store, before: u64, request: PageRequest) -> Result<PassOutcome, Failure> {
    let place = request.place(store);
    if Instant::now() >= request.deadline {
        return Ok(PassOutcome::untouched(place));
    }
    let pk = PartitionKey::new(RetentionDoc::PK)?;
    let kept = store.container.read::<RetentionDoc>(&pk, RetentionDoc::ID).await?;
    let mut kept = kept.map_or_else(RetentionDoc::new, |found| found.doc);
    let examined = kept.examined_until;
    let query = Query::new(format!(
        "SELECT c.pk, c.parent, c.completedAt FROM c WHERE c.type = {INSTANCE} AND c.status IN ({ENDED}) \
         AND IS_DEFINED(c.name) AND IS_DEFINED(c.parent) AND c.completedAt >= @examined AND c.completedAt < @before \
         ORDER BY c.type, c.completedAt"
    ))
    .param("@examined", examined)
    .param("@before", before);
    let container = store.container.within(request.deadline);
    let sweep = container
        .sweep::<Child, _, _>(&query, request.most, place.sweep.clone(), |child| child.completed_at)
        .await?;
    let is_empty = sweep.items.is_empty();
    let mut pass = PassOutcome::default();
    let held = examine(store, sweep.items, before, request.deadline, &mut pass).await?;
    let until = held.or(sweep.reached).unwrap_or(before);
    if place.search != HELD && until > examined && !is_empty {
        // Two runs at once may both write: whichever is last, children are examined again at worst.
        let mut batch = Batch::new();
        kept.examined_until = until;
        batch.upsert(RetentionDoc::ID, &kept)?;
        store.container.batch(&pk, &batch, Retry::Idempotent).await?;
    }
    pass.cursor = place.after(sweep.cursor);
    if let (Some(cursor), Some(_)) = (&mut pass.cursor, held) {
        cursor.search = HELD;
    }
    Ok(pass)
}

/// Deletes those without a parent, oldest first. Returns the end of the oldest that is left.
async fn examine(
    store: &Store,
    children: Vec<Child>,
    before: u64,
    deadline: Instant,
    pass: &mut PassOutcome,
) -> Result<Option<u64>, Failure> {
    let parents: BTreeSet<String> = children.iter().map(|child| child.parent.clone()).collect();
    let parents: Vec<String> = parents.into_iter().collect();
    let existing = admin::existing(store, &parents).await?;
    let mut held = None;
    for child in children.iter().filter(|child| !existing.contains(&child.parent)) {
        pass.found += 1;
        let deleted = timeout_at(deadline, async {
            match has_parent(store, &child.parent).await? {
                true => Ok(None),
                false => delete_tree(store, &child.pk, before, deadline).await.map(Some),
            }
        });
        let deleted = deleted.await;
        let is_left = match deleted {
            Ok(Ok(Some(deleted))) => {
                pass.done += u64::from(deleted != Deleted::Nothing);
                pass.partial += u64::from(deleted == Deleted::Part);
                deleted != Deleted::Whole
            }
            Ok(Ok(None)) => false,
            // It was deleted by others since it was found.
            Ok(Err(Failure::NoInstance(_))) => false,
            Ok(Err(failure)) => {
                tracing::warn!(instance = child.pk, %failure, "a child without a parent was not deleted; it stays due");
                pass.failed += 1;
                true
            }
            Err(_) => true,
        };
        if is_left && held.is_none() {
            held = Some(child.completed_at);
        }
    }
    Ok(held)
}

/// Whether the parent exists after all: a lagging replica may have answered, and its word is no reason to delete.
async fn has_parent(store: &Store, parent: &str) -> Result<bool, Failure> {
    let fence = store.newest_fence(&PartitionKey::new(parent)?).await?;
    Ok(fence.is_some_and(|fence| fence.doc.exists()))
}
