//! Parking what waits in a paused instance, and making it due again when the instance is resumed.
//!
//! ```text
//!   running ──pause──> [Parking] ──> Parked ──resume──> [Resuming] ──> running
//!                         a batch per 97 documents, each fenced; the phases in brackets only if one batch does not suffice
//! ```
//!
//! The instance document decides, so each of the verbs has happened with its first batch; any process completes the rest (`roll_forward`,
//! and maintenance by the due time of the document). Parking moves the due time of a message or a work item to the end of time: no
//! sweep finds it, no turn takes it, and a wakeup that names the version of a work item fails to claim it.
//!
//! The races, and who decides them:
//!
//! | race | decided by |
//! |---|---|
//! | a turn commits while the instance is being paused | the fence: the turn is in time, and its work items are listed after it; or it fails as a whole |
//! | a worker claims, renews or completes an item while it is being parked | the item's version: it is parked, and the worker's write fails or is repeated; or the batch fails as a whole, is written without that item, which is listed again, and marked if it is still there |
//! | a claimed item is released, or its claim expires | the mark: it is parked then, by the release or by [`park_late`] |
//! | a message arrives after everything was parked | nobody: no turn takes it while the instance document says `Parked`; [`park_late`] moves it out of the way of maintenance |
//! | a commit of many batches is unfinished | it is published before anything is parked |
//! | two operators at once | the fence: the second one begins anew, and finds what the first has done |
//!
//! A message that cancels the instance is not parked: see `turn::paused`.

use crate::batch::{etags_of, extend, fence_first, pack};
use crate::due::{Due, Target, WorkVersion};
use crate::error::Failure;
use crate::model::sql::{TURN, WORK};
use crate::model::{InstanceDoc, Kind, Listed, MessageDoc, PausePhase, StagedOp, WorkDoc};
use crate::store::{Fence, Store};
use cosmos::{Etag, PartitionKey, Query, Retry};
use duroxide::providers::WorkItem;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::time::Duration;

/// How often, and how long apart, what was listed may change before it is written.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// What waits in a partition: messages for the next turn, and work items.
#[derive(Debug, Default)]
pub(crate) struct Queued {
    messages: Vec<MessageDoc>,
    works: Vec<(WorkDoc, String)>,
}

impl Queued {
    /// Everything that waits. What only a newer release can read is left to it.
    pub(crate) async fn read(store: &Store, pk: &PartitionKey) -> Result<Queued, Failure> {
        #[derive(serde::Deserialize)]
        struct Tagged {
            #[serde(rename = "_etag")]
            etag: String,
        }
        let query = Query::new(format!(
            "SELECT * FROM c WHERE c.queue IN ({TURN}, {WORK}) ORDER BY c.sortKey"
        ));
        let mut queued = Queued::default();
        for raw in store.container.query::<Box<RawValue>>(pk, &query).await? {
            match Kind::of(&raw) {
                Kind::Message => {
                    let message: Listed<MessageDoc> = serde_json::from_str(raw.get())?;
                    queued.messages.extend(message.known());
                }
                Kind::Work => {
                    let work: Listed<WorkDoc> = serde_json::from_str(raw.get())?;
                    let Tagged { etag } = serde_json::from_str(raw.get())?;
                    queued.works.extend(work.known().map(|work| (work, etag)));
                }
                _ => {}
            }
        }
        Ok(queued)
    }

    /// The messages, in their order.
    pub(crate) fn messages(&self) -> &[MessageDoc] {
        &self.messages
    }

    /// The work items, each with its version.
    pub(crate) fn works(&self) -> &[(WorkDoc, String)] {
        &self.works
    }

    /// Whether a message cancels the instance.
    pub(crate) fn cancels(&self) -> bool {
        self.messages.iter().any(MessageDoc::cancels)
    }

    /// The operations that park all of it.
    pub(crate) fn parking(&self, now_ms: u64) -> Result<Vec<StagedOp>, Failure> {
        let messages = self
            .messages
            .iter()
            .filter(|message| !message.is_parked() && !message.cancels());
        let works = self.works.iter().filter(|(work, _)| !work.is_parked_at(now_ms));
        let messages = messages.map(|message| Ok(StagedOp::replace(&message.id, &message.etag, &message.parked())?));
        let works = works.map(|(work, etag)| Ok(StagedOp::replace(&work.id, etag, &work.paused_at(now_ms))?));
        // Work items first: an activity may begin until it is parked.
        works.chain(messages).collect()
    }

    /// The operations that make all of it due again; it is changed likewise.
    pub(crate) fn resume(&mut self, now_ms: u64) -> Result<Vec<StagedOp>, Failure> {
        let mut ops = Vec::new();
        for message in self.messages.iter_mut().filter(|message| message.is_parked()) {
            let resumed = message.resumed_at(now_ms);
            ops.push(StagedOp::replace(&message.id, &message.etag, &resumed)?);
            *message = resumed;
        }
        for (work, etag) in self.works.iter_mut().filter(|(work, _)| work.is_paused()) {
            let resumed = work.resumed_at(now_ms);
            ops.push(StagedOp::replace(&work.id, etag, &resumed)?);
            *work = resumed;
        }
        Ok(ops)
    }

    /// Who has something to do: the turn, now and when its timers fire, and the activities that nobody runs, with the versions of
    /// their work items as far as they were written just now.
    pub(crate) fn due(&self, instance: &InstanceDoc, now_ms: u64, written: &HashMap<String, Etag>) -> Vec<Due> {
        let turn = |at_ms: Option<u64>| Due {
            at_ms,
            execution: Some(instance.current.execution),
            ..Due::turn(&instance.pk)
        };
        let is_due = self.messages.iter().any(|message| message.due_at <= now_ms);
        let now = is_due.then(|| turn(None));
        let later = self.messages.iter().filter(|message| message.due_at > now_ms);
        let later = later.map(|message| turn(Some(message.due_at)));
        let idle = self.works.iter().filter(|(work, _)| !work.is_claimed_at(now_ms));
        let works = idle.filter_map(|(work, _)| {
            let item: WorkItem = serde_json::from_str(work.item.get()).ok()?;
            let mut due = Due::activity(&item)?;
            due.at_ms = Some(work.due_at).filter(|at| *at > now_ms);
            if let Target::Work(target) = &mut due.target {
                target.written = written.get(&work.id).cloned().map(WorkVersion::of);
            }
            Some(due)
        });
        now.into_iter().chain(later).chain(works).collect()
    }
}

/// Writes operations in fenced batches: all but the last with the document `begun`, the last with `done`. A document that another process
/// has written since it was listed is left out, and then the last batch has `begun`, too. Returns the versions that it wrote, or
/// `None` when something is left to do, or the instance itself was written: whoever comes next reads it and lists again.
pub(crate) async fn apply(
    store: &Store,
    pk: &PartitionKey,
    fence: &Fence,
    (begun, done): (&InstanceDoc, &InstanceDoc),
    ops: Vec<StagedOp>,
) -> Result<Option<HashMap<String, Etag>>, Failure> {
    let mut groups = pack(ops);
    if groups.is_empty() {
        groups.push(Vec::new());
    }
    let (last, mut is_whole) = (groups.len() - 1, true);
    let mut etags = HashMap::new();
    let mut fence = fence.clone();
    for (n, mut group) in groups.into_iter().enumerate() {
        loop {
            let next = if n == last && is_whole { done } else { begun };
            let batch = extend(fence_first(next, Some(&fence.etag))?, &group)?;
            let error = match store.container.batch(pk, &batch, Retry::Idempotent).await {
                Ok(results) => {
                    fence = store.written_fence(pk, next.clone(), &results).await?;
                    etags.extend(etags_of(group, &results));
                    break;
                }
                Err(error) => error,
            };
            let is_written = error.is_precondition_failed() || error.is_not_found();
            match error.batch_index() {
                Some(index) if is_written && index > 0 && index <= group.len() => {
                    group.remove(index - 1);
                    is_whole = false;
                }
                _ if is_written => return Ok(None),
                _ => return Err(error.into()),
            }
        }
    }
    Ok(is_whole.then_some(etags))
}

/// Completes a pause or a resumption that another process has begun. Returns who has something to do, or `None` when there was
/// nothing to complete.
pub(super) async fn finish(store: &Store, pk: &PartitionKey, fence: &Fence) -> Result<Option<Vec<Due>>, Failure> {
    let mut fence = Some(fence.clone());
    let mut is_begun = false;
    for _ in 0..ATTEMPTS {
        let Some(now) = &fence else { return Ok(Some(Vec::new())) };
        let done = match now.doc.paused().map(|paused| paused.phase) {
            Some(PausePhase::Parking) => park(store, pk, now).await?.map(|_| Vec::new()),
            Some(PausePhase::Resuming) => resume(store, pk, now).await?,
            Some(PausePhase::Parked) | None => return Ok(is_begun.then(Vec::new)),
        };
        is_begun = true;
        if done.is_some() {
            return Ok(done);
        }
        tokio::time::sleep(PAUSE).await;
        fence = store.fence(pk).await?;
    }
    Err(Failure::busy(pk))
}

/// Parks everything that waits in a paused instance. Returns what was found, or `None` when something was written meanwhile.
async fn park(store: &Store, pk: &PartitionKey, fence: &Fence) -> Result<Option<Queued>, Failure> {
    let queued = Queued::read(store, pk).await?;
    let ops = queued.parking(store.now())?;
    let is_parked = fence
        .doc
        .paused()
        .is_some_and(|paused| paused.phase == PausePhase::Parked);
    if ops.is_empty() && is_parked {
        return Ok(Some(queued));
    }
    let mut done = fence.doc.clone();
    let parked = done.paused().map(|paused| paused.in_phase(PausePhase::Parked));
    done.set_paused(parked, store.repair_due());
    let applied = apply(store, pk, fence, (&fence.doc, &done), ops).await?;
    Ok(applied.map(|_| queued))
}

/// Makes due what is parked, and ends the pause.
async fn resume(store: &Store, pk: &PartitionKey, fence: &Fence) -> Result<Option<Vec<Due>>, Failure> {
    let now = store.now();
    let mut queued = Queued::read(store, pk).await?;
    let ops = queued.resume(now)?;
    let mut done = fence.doc.clone();
    done.set_paused(None, 0);
    let applied = apply(store, pk, fence, (&fence.doc, &done), ops).await?;
    Ok(applied.map(|etags| queued.due(&done, now, &etags)))
}

/// What became of an instance whose items may be overdue because it is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// It is paused, and what waits is parked.
    Parked,
    /// It is not paused, or a message cancels it: what waits is due.
    Due,
}

/// Parks what has come since the instance was paused: messages, and activities whose claim has expired.
pub(crate) async fn park_late(store: &Store, pk: &PartitionKey) -> Result<Late, Failure> {
    for _ in 0..ATTEMPTS {
        let Some(fence) = store.fence(pk).await? else {
            return Ok(Late::Due);
        };
        let is_marked = fence.doc.lock.deleting.is_some() || fence.doc.lock.unfinished.is_some();
        match fence.doc.paused().map(|paused| paused.phase) {
            Some(PausePhase::Parked | PausePhase::Parking) if !is_marked => {}
            _ => return Ok(Late::Due),
        }
        if let Some(queued) = park(store, pk, &fence).await? {
            return Ok(if queued.cancels() { Late::Due } else { Late::Parked });
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::busy(pk))
}
