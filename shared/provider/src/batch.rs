//! Operations on one partition, packed into batches and sent. Turns, work items, recovery and deletion all write here.
//!
//! A *fenced* batch replaces the lock with `If-Match` as its first operation: it fails as a whole when the lock changed.

use crate::error::Failure;
use crate::model::{LockDoc, StagedOp, StagedOpKind};
use crate::store::{Locked, Store};
use cosmos::{Batch, Etag, PartitionKey, Query, Retry};
use std::collections::HashSet;

/// How many operations and bytes a batch is filled to. The service takes 100 and 2 MB; the lock document, which is in
/// every fenced batch and may name a thousand messages, must still fit.
pub(crate) const BATCH_OPS: usize = cosmos::MAX_BATCH_OPERATIONS - 3;
pub(crate) const BATCH_BYTES: usize = cosmos::MAX_REQUEST_BYTES - 128 * 1024;
/// A staged document must fit a document, and its operations a batch.
const STAGED_BYTES: usize = 1800 * 1024;

/// The parts of a commit that does not fit one batch.
pub(crate) struct Split {
    /// Written with the lock: this batch decides.
    pub decisive: Vec<StagedOp>,
    /// Published after the decision, one group per batch.
    pub staged: Vec<Vec<StagedOp>>,
}

impl Split {
    /// Fills the decisive batch with the first operations, and stages the rest.
    pub(crate) fn of<'a>(ops: impl Iterator<Item = &'a StagedOp>) -> Split {
        let mut decisive: Vec<StagedOp> = Vec::new();
        let mut surplus: Vec<StagedOp> = Vec::new();
        let mut bytes = 0;
        for op in ops {
            if surplus.is_empty() && decisive.len() < BATCH_OPS - 1 && bytes + op.bytes() <= BATCH_BYTES {
                bytes += op.bytes();
                decisive.push(op.clone());
            } else {
                surplus.push(op.clone());
            }
        }
        Split {
            decisive,
            staged: pack_into(surplus, STAGED_BYTES),
        }
    }
}

/// Cuts a list of operations into groups that each fit one batch, in order.
pub(crate) fn pack(ops: Vec<StagedOp>) -> Vec<Vec<StagedOp>> {
    pack_into(ops, BATCH_BYTES)
}

fn pack_into(ops: Vec<StagedOp>, most_bytes: usize) -> Vec<Vec<StagedOp>> {
    let mut groups: Vec<Vec<StagedOp>> = Vec::new();
    let mut bytes = 0;
    for op in ops {
        let size = op.bytes();
        match groups.last_mut() {
            Some(group) if bytes + size <= most_bytes && group.len() < BATCH_OPS => group.push(op),
            _ => {
                groups.push(vec![op]);
                bytes = 0;
            }
        }
        bytes += size;
    }
    groups
}

/// A batch that begins with the fence: the lock, in the version that was seen.
pub(crate) fn lock_first(lock: &LockDoc, seen: &Etag) -> Result<Batch, Failure> {
    let mut batch = Batch::new();
    batch.replace(LockDoc::ID, lock, Some(seen.clone()))?;
    Ok(batch)
}

/// Adds operations to a batch.
pub(crate) fn extend(mut batch: Batch, ops: &[StagedOp]) -> Result<Batch, Failure> {
    for StagedOp { id, op, body } in ops {
        match (op, body) {
            (StagedOpKind::Create, Some(body)) => batch.create(id, body)?,
            (StagedOpKind::Upsert, Some(body)) => batch.upsert(id, body)?,
            (StagedOpKind::Replace { etag }, Some(body)) => batch.replace(id, body, Some(Etag::new(etag.clone())))?,
            (StagedOpKind::Delete { etag }, _) => batch.delete(id, Some(Etag::new(etag.clone())))?,
            (StagedOpKind::Discard, _) => batch.delete(id, None)?,
            (_, None) => return Err(Failure::Refused(format!("a staged operation on '{id}' has no body"))),
        };
    }
    Ok(batch)
}

/// Writes one fenced batch. Returns `None` when the lock has changed. Deletes of documents that are gone are left out.
pub(crate) async fn write_fenced(
    store: &Store,
    pk: &PartitionKey,
    lock: &Locked,
    next: &LockDoc,
    mut ops: Vec<StagedOp>,
) -> Result<Option<Locked>, Failure> {
    loop {
        let batch = lock_first(next, &lock.etag)?;
        let error = match store
            .container
            .batch(pk, &extend(batch, &ops)?, Retry::Idempotent)
            .await
        {
            Ok(results) => return Ok(Some(store.written_lock(pk, next.clone(), &results).await?)),
            Err(error) => error,
        };
        let Some(index) = error.batch_index() else {
            return Err(error.into());
        };
        if index == 0 {
            return Ok(None);
        }
        let Some(op) = ops.get(index - 1) else {
            return Err(error.into());
        };
        match &op.op {
            StagedOpKind::Discard => {}
            // The commit checked that these exist, and it alone may consume them.
            StagedOpKind::Delete { .. } | StagedOpKind::Replace { .. } => {
                tracing::error!(instance = pk.as_str(), id = op.id, %error, "a consumed message is gone already");
            }
            StagedOpKind::Create | StagedOpKind::Upsert => return Err(error.into()),
        }
        ops.remove(index - 1);
        ops = without_missing(store, pk, ops).await?;
    }
}

/// Deletes documents by id, in order, in fenced batches. Returns the lock's newest version, or `None` when another
/// process has written it.
pub(crate) async fn discard_fenced(
    store: &Store,
    pk: &PartitionKey,
    mut lock: Locked,
    ids: Vec<String>,
) -> Result<Option<Locked>, Failure> {
    for group in pack(discards(&ids)) {
        let next = lock.doc.clone();
        match write_fenced(store, pk, &lock, &next, group).await? {
            Some(written) => lock = written,
            None => return Ok(None),
        }
    }
    Ok(Some(lock))
}

/// Deletes documents by id, in order, whether they exist or not.
pub(crate) async fn discard_all(store: &Store, pk: &PartitionKey, ids: Vec<String>) -> Result<(), Failure> {
    for mut group in pack(discards(&ids)) {
        while !group.is_empty() {
            let batch = extend(Batch::new(), &group)?;
            match store.container.batch(pk, &batch, Retry::Idempotent).await {
                Ok(_) => break,
                Err(error) if error.is_not_found() => {
                    if let Some(index) = error.batch_index().filter(|index| *index < group.len()) {
                        group.remove(index);
                    }
                    group = without_missing(store, pk, group).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn discards(ids: &[String]) -> Vec<StagedOp> {
    ids.iter().map(|id| StagedOp::discard(id)).collect()
}

/// The operations without the discards of documents that are gone already.
pub(crate) async fn without_missing(
    store: &Store,
    pk: &PartitionKey,
    ops: Vec<StagedOp>,
) -> Result<Vec<StagedOp>, Failure> {
    let is_discard = |op: &StagedOp| matches!(op.op, StagedOpKind::Discard);
    let ids: Vec<&str> = ops
        .iter()
        .filter(|op| is_discard(op))
        .map(|op| op.id.as_str())
        .collect();
    let query = Query::new("SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(@ids, c.id)").param("@ids", &ids);
    let existing: HashSet<String> = store.container.query::<String>(pk, &query).await?.into_iter().collect();
    Ok(ops
        .into_iter()
        .filter(|op| !is_discard(op) || existing.contains(&op.id))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_fit_and_keep_every_operation_in_order() {
        for (count, bytes) in [(250, 10), (10, 700_000), (1, 1_900_000), (0, 0)] {
            let body = "x".repeat(bytes);
            let ops = (0..count).map(|n| StagedOp::create(&format!("{n}"), &body).unwrap());
            let groups = pack_into(ops.collect(), STAGED_BYTES);
            let ids: Vec<String> = groups.iter().flatten().map(|op| op.id.clone()).collect();
            assert_eq!(ids, (0..count).map(|n| n.to_string()).collect::<Vec<_>>());
            for group in groups {
                let size: usize = group.iter().map(StagedOp::bytes).sum();
                assert!(group.len() <= BATCH_OPS && (size <= STAGED_BYTES || group.len() == 1));
            }
        }
    }
}
