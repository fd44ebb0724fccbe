//! Rolling forward: publishing what a decided commit has staged.
//!
//! Whoever meets an unfinished commit publishes the rest of it: a fetch before it claims, maintenance when it sweeps.
//! Each publication advances a counter in the instance document with `If-Match`, in the same batch as the operations themselves, so
//! two publishers cannot publish the same operations twice.

use super::deletion;
use crate::batch;
use crate::error::Failure;
use crate::model::{StagedDoc, StagedHead, StagedOp, Unfinished};
use crate::store::{Fence, Store};
use cosmos::{Etag, PartitionKey};
use std::collections::HashMap;
use std::time::Duration;

/// How often to read again a staged document that a lagging replica does not show.
const REREADS: u32 = 20;
const REREAD_WAIT: Duration = Duration::from_millis(20);
/// The wait after another publisher was faster.
const RACE_WAIT: Duration = Duration::from_millis(5);

/// Operations that a commit has just staged and need not read again, by the number of their document.
#[derive(Debug, Default)]
pub(crate) struct StagedOps {
    pub commit: String,
    pub ops: HashMap<u32, Vec<StagedOp>>,
}

impl StagedOps {
    /// The operations of the next document, if they are of this commit: others may have finished it meanwhile, and begun
    /// to publish their own.
    fn take(&mut self, unfinished: &Unfinished) -> Option<Vec<StagedOp>> {
        if self.commit != unfinished.commit {
            return None;
        }
        self.ops.remove(&unfinished.next)
    }
}

/// What was found in an instance document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing was unfinished.
    Clean,
    /// Something was finished: read again.
    Changed,
    /// Another process is working on it.
    Underway { until_ms: u64 },
}

/// Finishes what the instance document says is unfinished: a commit or a deletion.
pub(crate) async fn roll_forward(store: &Store, pk: &PartitionKey, fence: &Fence) -> Result<Progress, Failure> {
    if fence.doc.lock.deleting.is_some() {
        return deletion::finish(store, pk, fence).await;
    }
    if fence.doc.lock.unfinished.is_some() {
        tracing::info!(instance = pk.as_str(), "rolling an unfinished commit forward");
        publish(store, pk, fence.clone(), StagedOps::default()).await?;
        return Ok(Progress::Changed);
    }
    Ok(Progress::Clean)
}

/// Publishes what the unfinished commit has staged. Returns when nothing is left, whoever published it, with the versions
/// of what this call wrote. The commit itself passes what it has just staged; others read it.
pub(crate) async fn publish(
    store: &Store,
    pk: &PartitionKey,
    mut fence: Fence,
    mut known: StagedOps,
) -> Result<HashMap<String, Etag>, Failure> {
    let mut etags = HashMap::new();
    let mut rereads = 0;
    while let Some(unfinished) = fence.doc.lock.unfinished.clone() {
        let id = StagedDoc::id(&unfinished.commit, unfinished.next);
        let staged = match known.take(&unfinished) {
            Some(ops) => Some(ops),
            None => store
                .container
                .read::<StagedDoc>(pk, &id)
                .await?
                .map(|found| found.doc.ops),
        };
        let Some(mut ops) = staged else {
            rereads += 1;
            if rereads > REREADS {
                return Err(Failure::stale(pk, format!("staged document {id} cannot be read yet")));
            }
            tokio::time::sleep(REREAD_WAIT).await;
            let Some(now) = store.fence(pk).await? else {
                return Ok(etags);
            };
            fence = now;
            continue;
        };
        let mut next = fence.doc.clone();
        ops.push(StagedOp::discard(&id));
        if unfinished.next + 1 < unfinished.total {
            next.lock.unfinished = Some(Unfinished {
                next: unfinished.next + 1,
                ..unfinished
            });
        } else {
            next.lock.unfinished = None;
            next.lock.mark_due(None);
            ops.push(StagedOp::discard(&StagedHead::id(&unfinished.commit)));
        }
        match batch::write_fenced(store, pk, &fence, &next, ops).await? {
            Some(published) => {
                fence = published.fence;
                etags.extend(published.etags);
            }
            None => {
                // Another process publishes too, or the response to our own batch was lost.
                tokio::time::sleep(RACE_WAIT).await;
                match store.fence(pk).await? {
                    Some(now) => fence = now,
                    None => return Ok(etags),
                }
            }
        }
    }
    Ok(etags)
}
