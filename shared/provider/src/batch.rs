//! Operations on one partition, packed into batches and sent. Turns, work items, recovery and deletion all write here.
//!
//! A *fenced* batch replaces the instance document with `If-Match` as its first operation: it fails as a whole when anything was committed since.

use crate::error::Failure;
use crate::model::{InstanceDoc, StagedOp, StagedOpKind};
use crate::store::{Fence, Store};
use cosmos::{Batch, BatchResult, Etag, PartitionKey, Query, Retry};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};

/// How many operations and bytes a batch is filled to. The service takes 100 and 2 MB; the instance document, which is
/// in every fenced batch and may name a thousand messages, must still fit.
pub(crate) const BATCH_OPS: usize = cosmos::MAX_BATCH_OPERATIONS - 3;
pub(crate) const BATCH_BYTES: usize = cosmos::MAX_REQUEST_BYTES - 192 * 1024;
/// A staged document must fit a document, and its operations a batch.
const STAGED_BYTES: usize = 1800 * 1024;

/// A fenced batch that was written.
pub(crate) struct Written {
    pub fence: Fence,
    /// The versions of the documents that its other operations wrote.
    pub etags: HashMap<String, Etag>,
}

/// The parts of a commit that does not fit one batch.
pub(crate) struct Split {
    /// Written with the instance document: this batch decides.
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

/// A batch that begins with the fence: the instance document, in place of the version that was seen. `None`: there was none.
pub(crate) fn fence_first(next: &InstanceDoc, seen: Option<&Etag>) -> Result<Batch, Failure> {
    let mut batch = Batch::new();
    match seen {
        Some(seen) => batch.replace(InstanceDoc::ID, next, Some(seen.clone()))?,
        None => batch.create(InstanceDoc::ID, next)?,
    };
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

/// The versions that the operations after the fence wrote.
pub(crate) fn etags_of(ops: Vec<StagedOp>, results: &[BatchResult]) -> HashMap<String, Etag> {
    let written = ops.into_iter().zip(results.iter().skip(1));
    written
        .filter_map(|(op, result)| Some((op.id, result.etag.clone()?)))
        .collect()
}

/// Writes one fenced batch. Returns `None` when something was committed since. Deletes of documents that are gone are left out.
pub(crate) async fn write_fenced(
    store: &Store,
    pk: &PartitionKey,
    fence: &Fence,
    next: &InstanceDoc,
    mut ops: Vec<StagedOp>,
) -> Result<Option<Written>, Failure> {
    loop {
        let batch = fence_first(next, Some(&fence.etag))?;
        let error = match store
            .container
            .batch(pk, &extend(batch, &ops)?, Retry::Idempotent)
            .await
        {
            Ok(results) => {
                let fence = store.written_fence(pk, next.clone(), &results).await?;
                let etags = etags_of(ops, &results);
                return Ok(Some(Written { fence, etags }));
            }
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

/// Deletes documents by id, in order, in fenced batches. Returns the fence's newest version, or `None` when another
/// process has written it.
pub(crate) async fn discard_fenced(
    store: &Store,
    pk: &PartitionKey,
    mut fence: Fence,
    ids: Vec<String>,
) -> Result<Option<Fence>, Failure> {
    for group in pack(discards(&ids)) {
        let next = fence.doc.clone();
        match write_fenced(store, pk, &fence, &next, group).await? {
            Some(written) => fence = written.fence,
            None => return Ok(None),
        }
    }
    Ok(Some(fence))
}

/// A document in the version that a list shows.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Version {
    pub id: String,
    #[serde(rename = "_etag")]
    pub etag: String,
}

/// Deletes documents in the versions that were listed, in order, in fenced batches. One that was rewritten since stays:
/// whoever deletes must look at it again, because a newer release may have written it. Returns as [`discard_fenced`].
pub(crate) async fn delete_fenced(
    store: &Store,
    pk: &PartitionKey,
    mut fence: Fence,
    listed: &[Version],
) -> Result<Option<Fence>, Failure> {
    let ops = listed.iter().map(|doc| StagedOp::delete(&doc.id, &doc.etag));
    for mut group in pack(ops.collect()) {
        while !group.is_empty() {
            let next = fence.doc.clone();
            let batch = extend(fence_first(&next, Some(&fence.etag))?, &group)?;
            match store.container.batch(pk, &batch, Retry::Idempotent).await {
                Ok(results) => {
                    fence = store.written_fence(pk, next, &results).await?;
                    break;
                }
                Err(error) if error.batch_index() == Some(0) => return Ok(None),
                Err(error) if error.is_not_found() || error.is_precondition_failed() => {
                    let failed = error.batch_index().and_then(|index| index.checked_sub(1));
                    if let Some(index) = failed.filter(|index| *index < group.len()) {
                        group.remove(index);
                    }
                    group = without_changed(store, pk, group).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(Some(fence))
}

/// The deletions of documents that are still in their version.
async fn without_changed(store: &Store, pk: &PartitionKey, mut ops: Vec<StagedOp>) -> Result<Vec<StagedOp>, Failure> {
    let ids: Vec<&str> = ops.iter().map(|op| op.id.as_str()).collect();
    let query = Query::new("SELECT c.id, c._etag FROM c WHERE ARRAY_CONTAINS(@ids, c.id)").param("@ids", &ids);
    let listed = store.container.query::<Version>(pk, &query).await?;
    let now: HashMap<String, String> = listed.into_iter().map(|doc| (doc.id, doc.etag)).collect();
    ops.retain(|op| matches!(&op.op, StagedOpKind::Delete { etag } if now.get(&op.id) == Some(etag)));
    Ok(ops)
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
