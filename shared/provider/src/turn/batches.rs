//! Operations into batches: what goes into the decisive one, what is staged, and how they are sent.

use super::Plan;
use crate::error::Failure;
use crate::model::{LockDoc, StagedOp, StagedOpKind};
use crate::store::Store;
use cosmos::{Batch, Etag, PartitionKey, Query};
use std::collections::HashSet;

/// How many operations and bytes a batch is filled to. The service takes 100 and 2 MB; the lock document, which is in
/// every batch and may name a thousand messages, must still fit.
pub(crate) const BATCH_OPS: usize = cosmos::MAX_BATCH_OPERATIONS - 3;
pub(crate) const BATCH_BYTES: usize = cosmos::MAX_REQUEST_BYTES - 128 * 1024;
/// A staged document must fit a document, and its operations a batch.
const STAGED_BYTES: usize = 1800 * 1024;

/// Which operations go where, when they do not fit one batch.
pub(crate) struct Split {
    pub decisive: Vec<StagedOp>,
    pub history: Vec<StagedOp>,
    pub staged: Vec<Vec<StagedOp>>,
}

impl Split {
    pub(crate) fn of(plan: &Plan) -> Split {
        let mut decisive: Vec<StagedOp> = Vec::new();
        let mut surplus: Vec<StagedOp> = Vec::new();
        let mut bytes = 0;
        // History is staged under its final ids, for it is invisible until the instance's head names it. So it
        // never waits for publication, and a reader sees all of the turn with the decisive batch.
        for op in plan.state.iter().chain(&plan.rest) {
            if surplus.is_empty() && decisive.len() < BATCH_OPS - 1 && bytes + op.bytes() <= BATCH_BYTES {
                bytes += op.bytes();
                decisive.push(op.clone());
            } else {
                surplus.push(op.clone());
            }
        }
        Split {
            decisive,
            history: plan.history.clone(),
            staged: pack(surplus, BATCH_OPS, STAGED_BYTES),
        }
    }
}

/// Cuts a list of operations into groups that each fit, in order.
pub(crate) fn pack(ops: Vec<StagedOp>, most: usize, most_bytes: usize) -> Vec<Vec<StagedOp>> {
    let mut groups: Vec<Vec<StagedOp>> = Vec::new();
    let mut bytes = 0;
    for op in ops {
        let fits = bytes + op.bytes() <= most_bytes;
        match groups.last_mut() {
            Some(group) if fits && group.len() < most => group.push(op.clone()),
            _ => {
                groups.push(vec![op.clone()]);
                bytes = 0;
            }
        }
        bytes += op.bytes();
    }
    groups
}

/// A batch of these operations.
pub(crate) fn batch_of(ops: &[StagedOp]) -> Result<Batch, Failure> {
    extend(Batch::new(), ops)
}

/// A batch that begins with the fence: the lock, in the version that was seen.
pub(crate) fn lock_first(lock: &LockDoc, seen: &Etag) -> Result<Batch, Failure> {
    let mut batch = Batch::new();
    batch.replace(LockDoc::ID, lock, Some(seen.clone()))?;
    Ok(batch)
}

/// Adds these operations to a batch.
pub(crate) fn extend(mut batch: Batch, ops: &[StagedOp]) -> Result<Batch, Failure> {
    for StagedOp { id, op, body } in ops {
        match (op, body) {
            (StagedOpKind::Create, Some(body)) => batch.create(id, body)?,
            (StagedOpKind::Upsert, Some(body)) => batch.upsert(id, body)?,
            (StagedOpKind::Replace { etag }, Some(body)) => batch.replace(id, body, Some(Etag::new(etag.clone())))?,
            (StagedOpKind::Delete { etag }, _) => batch.delete(id, Some(Etag::new(etag.clone())))?,
            (StagedOpKind::Discard, _) => batch.delete(id, None)?,
            (_, None) => return Err(Failure::Refused(format!("a staged operation on '{id}' lost its body"))),
        };
    }
    Ok(batch)
}

impl Store {
    /// The operations without those that would delete what is gone already.
    pub(crate) async fn without_missing(
        &self,
        pk: &PartitionKey,
        ops: Vec<StagedOp>,
    ) -> Result<Vec<StagedOp>, Failure> {
        let discards: Vec<&str> = ops
            .iter()
            .filter(|op| matches!(op.op, StagedOpKind::Discard))
            .map(|op| op.id.as_str())
            .collect();
        let query = Query::new("SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(@ids, c.id)").param("@ids", &discards);
        let there: HashSet<String> = self.container.query::<String>(pk, &query).await?.into_iter().collect();
        Ok(ops
            .into_iter()
            .filter(|op| !matches!(op.op, StagedOpKind::Discard) || there.contains(&op.id))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(count: usize, bytes: usize) -> Vec<StagedOp> {
        let body = "x".repeat(bytes);
        (0..count)
            .map(|n| StagedOp::create(&format!("{n}"), &body).unwrap())
            .collect()
    }

    #[test]
    fn groups_fit_and_keep_every_operation_in_order() {
        for (count, bytes) in [(250, 10), (10, 700_000), (1, 1_900_000), (0, 0)] {
            let groups = pack(ops(count, bytes), BATCH_OPS, STAGED_BYTES);
            let ids: Vec<String> = groups.iter().flatten().map(|op| op.id.clone()).collect();
            assert_eq!(ids, (0..count).map(|n| n.to_string()).collect::<Vec<_>>());
            for group in groups {
                let size: usize = group.iter().map(StagedOp::bytes).sum();
                assert!(group.len() <= BATCH_OPS && (size <= STAGED_BYTES || group.len() == 1));
            }
        }
    }
}
