//! Rolling forward: publishing what a decided commit has staged; completing a pause, a resumption or a rewind.
//!
//! Whoever meets an unfinished commit publishes the rest of it: a fetch before it claims (if the commit is old enough that its
//! maker has probably died), maintenance when it sweeps. Each publication advances a counter in the instance document with
//! `If-Match`, in the same batch as the operations themselves, so two publishers cannot publish the same operations twice.
//! The maker of a commit wakes whoever it makes due only after its last publication, so who publishes in its place returns
//! them ([`Progress::Changed`]), with the versions that it wrote.

use super::deletion;
use super::park;
use super::rewind;
use crate::batch;
use crate::due::{Due, Target, WorkVersion};
use crate::error::Failure;
use crate::model::{PausePhase, StagedDoc, StagedHead, StagedOp, Unfinished, WorkDoc};
use crate::store::{Fence, Store, Stored};
use cosmos::{Etag, PartitionKey};
use duroxide::providers::WorkItem;
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
    /// Something was finished: read again, and wake these.
    Changed { due: Vec<Due> },
    /// Another process is working on it.
    Underway { until_ms: u64 },
}

/// Finishes what the instance document says is unfinished: a commit, a deletion, a rewind, a pause or a resumption.
pub(crate) async fn roll_forward(store: &Store, pk: &PartitionKey, fence: &Fence) -> Result<Progress, Failure> {
    // Boxed: this is a part of every fetch and of every verb, and what is seldom to be finished must not make all of their futures large.
    if fence.doc.lock.deleting.is_some() {
        return Box::pin(deletion::finish(store, pk, fence)).await;
    }
    if fence.doc.lock.unfinished.is_some() {
        tracing::info!(instance = pk.as_str(), "rolling an unfinished commit forward");
        let published = Box::pin(publish(store, pk, fence.clone(), StagedOps::default())).await?;
        return Ok(Progress::Changed { due: published.due });
    }
    if fence.doc.rewinding().is_some() {
        let due = Box::pin(rewind::finish(store, pk, fence)).await?;
        return Ok(Progress::Changed {
            due: due.unwrap_or_default(),
        });
    }
    match Box::pin(park::finish(store, pk, fence)).await? {
        Some(due) => Ok(Progress::Changed { due }),
        None => Ok(Progress::Clean),
    }
}

/// What a call has published.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// The versions of the documents that it wrote.
    pub etags: HashMap<String, Etag>,
    /// Who has something to do, if another process had staged it: its maker knows.
    pub due: Vec<Due>,
}

/// Publishes what the unfinished commit has staged. Returns when nothing is left, whoever published it, with what this
/// call wrote. The commit itself passes what it has just staged; others read it.
pub(crate) async fn publish(
    store: &Store,
    pk: &PartitionKey,
    mut fence: Fence,
    mut known: StagedOps,
) -> Result<Published, Failure> {
    let mut done = Published::default();
    let mut rereads = 0;
    while let Some(unfinished) = fence.doc.lock.unfinished.clone() {
        let id = StagedDoc::id(&unfinished.commit, unfinished.next);
        let own = known.take(&unfinished);
        let is_own = own.is_some();
        let staged = match own {
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
                return Ok(done);
            };
            fence = now;
            continue;
        };
        let due = if is_own { Vec::new() } else { due_of(&ops) };
        let mut next = fence.doc.clone();
        ops.push(StagedOp::discard(&id));
        if unfinished.next + 1 < unfinished.total {
            next.lock.unfinished = Some(Unfinished {
                next: unfinished.next + 1,
                ..unfinished
            });
        } else {
            next.lock.unfinished = None;
            // The commit that ended a paused instance may have left parked messages.
            let is_resuming = next.paused().is_some_and(|paused| paused.phase == PausePhase::Resuming);
            // The children of a rewound instance are settled after the commit.
            let is_left = is_resuming || next.rewinding().is_some();
            next.lock.mark_due(is_left.then(|| store.repair_due()));
            ops.push(StagedOp::discard(&StagedHead::id(&unfinished.commit)));
        }
        match batch::write_fenced(store, pk, &fence, &next, ops).await? {
            Some(published) => {
                fence = published.fence;
                done.due.extend(with_versions(due, &published.etags));
                done.etags.extend(published.etags);
            }
            None => {
                // Another process publishes too, or the response to our own batch was lost.
                tokio::time::sleep(RACE_WAIT).await;
                match store.fence(pk).await? {
                    Some(now) => fence = now,
                    None => return Ok(done),
                }
            }
        }
    }
    Ok(done)
}

/// Who has something to do once these operations are published: the workers of new activities, and the instance when its
/// timers fire. Messages to other instances are intents, which the outbox delivers.
fn due_of(ops: &[StagedOp]) -> Vec<Due> {
    let due = |op: &StagedOp| {
        let body = op.body.as_ref()?;
        // What a newer release has staged and this one cannot decode is left to the sweep.
        if WorkDoc::numbers_of(&op.id).is_some() {
            let work: WorkDoc = serde_json::from_str(body.get()).ok()?;
            let item: WorkItem = serde_json::from_str(work.item.get()).ok()?;
            return Due::activity(&item);
        }
        let Stored::Message(message) = Stored::decode(body).ok()? else {
            return None;
        };
        let item: WorkItem = serde_json::from_str(message.item.get()).ok()?;
        Due::enqueued(&item, Some(message.due_at))
    };
    ops.iter().filter_map(due).collect()
}

/// The same, the activities with the versions of their work items.
fn with_versions(mut due: Vec<Due>, etags: &HashMap<String, Etag>) -> Vec<Due> {
    for Due { target, .. } in &mut due {
        if let Target::Work(work) = target {
            let etag = etags.get(&WorkDoc::id_of(&work.identifier()));
            work.written = etag.cloned().map(WorkVersion::of);
        }
    }
    due
}
