//! Writing a plan that no turn has made: one fenced batch, or a staged commit (`turn::commit` has the same steps for turns).

use super::plan::Plan;
use crate::batch::{BATCH_BYTES, BATCH_OPS, Split, extend, fence_first, pack};
use crate::error::Failure;
use crate::model::{InstanceDoc, StagedDoc, StagedHead, StagedOp, StagedOpKind, Unfinished};
use crate::recovery::{StagedOps, publish};
use crate::store::Store;
use cosmos::{Batch, Etag, PartitionKey, Retry};
use std::collections::HashMap;

/// Writes a plan in place of the version that was seen. Returns `false` when something was written since, and nothing has happened.
pub(super) async fn write(store: &Store, pk: &PartitionKey, seen: &Etag, plan: Plan) -> Result<bool, Failure> {
    let Plan {
        commit,
        mut instance,
        state,
        history,
        rest,
    } = plan;
    let all = || state.iter().chain(&history).chain(&rest);
    let bytes: usize = all().map(StagedOp::bytes).sum();
    if all().count() <= BATCH_OPS && bytes <= BATCH_BYTES {
        let ops = all().cloned().collect();
        return decide(store, pk, seen, (&instance, &commit), ops).await;
    }
    let split = Split::of(state.iter().chain(&rest));
    let total = u32::try_from(split.staged.len()).map_err(|_| Failure::Refused("too many operations".into()))?;
    let names: Vec<String> = history.iter().map(|op| op.id.clone()).collect();
    let head = StagedHead::new(pk.as_str(), &commit, store.repair_due(), total, names);
    let mut writes = vec![StagedOp::create(&head.id, &head)?];
    writes.extend(history);
    let mut staged = StagedOps {
        commit: commit.clone(),
        ops: HashMap::new(),
    };
    for (n, ops) in (0..).zip(split.staged) {
        let doc = StagedDoc::new(pk.as_str(), &commit, n, store.repair_due(), ops);
        writes.push(StagedOp::create(&doc.id, &doc)?);
        staged.ops.insert(n, doc.ops);
    }
    for group in pack(writes) {
        let batch = extend(Batch::new(), &group)?;
        match store.container.batch(pk, &batch, Retry::Idempotent).await {
            Ok(_) => {}
            // The names are unique: a conflict comes from our own first attempt.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut decisive = split.decisive;
    if total == 0 {
        decisive.push(StagedOp::discard(&head.id));
    } else {
        instance.lock.unfinished = Some(Unfinished {
            commit: commit.clone(),
            next: 0,
            total,
        });
        instance.lock.mark_due(Some(store.repair_due()));
    }
    if !decide(store, pk, seen, (&instance, &commit), decisive).await? {
        return Ok(false);
    }
    if let Some(fence) = store.fence(pk).await? {
        publish(store, pk, fence, staged).await?;
    }
    Ok(true)
}

/// Sends the batch that decides.
async fn decide(
    store: &Store,
    pk: &PartitionKey,
    seen: &Etag,
    (instance, commit): (&InstanceDoc, &str),
    mut ops: Vec<StagedOp>,
) -> Result<bool, Failure> {
    loop {
        let batch = extend(fence_first(instance, Some(seen))?, &ops)?;
        let error = match store.container.batch(pk, &batch, Retry::Idempotent).await {
            Ok(_) => return Ok(true),
            Err(error) => error,
        };
        let is_changed = error.is_precondition_failed() || error.is_not_found() || error.is_conflict();
        let failed = error.batch_index().and_then(|index| index.checked_sub(1));
        match failed.and_then(|index| ops.get(index).map(|op| (index, op))) {
            Some((index, op)) if matches!(op.op, StagedOpKind::Discard) && error.is_not_found() => {
                ops.remove(index);
            }
            _ if error.after_ambiguity() && is_changed => {
                // The conflict may come from our own first attempt.
                let now = store.fence(pk).await?;
                return Ok(now.is_some_and(|now| now.doc.lock.remembers(commit)));
            }
            _ if is_changed => return Ok(false),
            _ => return Err(error.into()),
        }
    }
}
