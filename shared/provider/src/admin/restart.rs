//! Restarting: the same input once more, as a new instance or as the next execution of the same one.
//!
//! | found | as a new instance | in place |
//! |---|---|---|
//! | no instance | not found | not found |
//! | pending, running, blocked, paused, between two executions | started; the other goes on | not ended |
//! | completed, failed, cancelled | started | the next execution begins |
//! | the same, and the child of another instance | started, as nobody's child | refused, unless `alone` |
//! | being deleted | started, if its input can still be read | being deleted |
//! | the new id is in use | taken | |
//!
//! The input is that of the current execution: of an instance that continued as new, what its last execution was given. The version is the
//! newest that is registered, unless the request names one, as for every start.
//!
//! **As a new instance** the other one is only read. The start is that of `enqueue::start`: one batch, with the receipt of its key. The new
//! instance has the tags of the other, and names it (`restartedFrom`).
//!
//! **In place**: one fenced batch copies the ended execution into a document of its own, where its status, output and history stay as they
//! are, replaces the instance document with one whose next execution has no events yet, and creates the message that starts it. duroxide sees
//! an instance without history and a start, so it begins execution n+1. (A continue-as-new would be dropped: the history before it has ended.)
//! Keys and tags stay, as when an instance continues as new; the custom status goes. Messages that came too late for the ended execution are
//! consumed by the same batch, as its next turn would have done: a cancellation among them must not cancel the next execution.
//!
//! A child has told its parent how it ended, and the parent has gone on. A restarted one has no parent to tell: its start names none. It stays
//! a child in the tree, and is deleted with it.
//!
//! What can go wrong:
//! - The process dies before the batch: nothing has happened. After it: the start waits, and maintenance wakes it if the wakeup was lost.
//! - The answer is lost: the commit's name in the instance document tells that it was this call.
//! - The request is repeated: with a key, its receipt (in the same batch) tells. Without one, it is refused while the execution runs.
//! - Two restarts at once: one batch fails at the fence, reads again, and finds an instance that has not ended.
//! - A deletion, or a late turn that drops messages: whoever comes second fails at the fence and reads again.

use super::summary;
use crate::batch;
use crate::due::Due;
use crate::enqueue::{self, Origin, StartRequest, Started};
use crate::error::Failure;
use crate::model::sql::MESSAGE;
use crate::model::{
    Envelope, ExecutionDoc, InstanceDoc, KeyReceiptDoc, KeyedRequest, Listed, MessageDoc, Receipt, ReceiptDoc,
    StagedOp, TextDoc,
};
use crate::read;
use crate::recovery::{Progress, roll_forward};
use crate::store::{Fence, Store, check_fence, check_size};
use cosmos::{PartitionKey, Query};
use duroxide::EventKind;
use duroxide::providers::WorkItem;
use std::time::Duration;

/// How often, and how long apart, an instance is tried while others write it.
const ATTEMPTS: u32 = 50;
const WAIT: Duration = Duration::from_millis(10);
/// How many late messages a restart consumes: the rest of the batch is the restart itself.
const MOST_LATE: usize = batch::BATCH_OPS - 6;

/// What to restart.
#[derive(Clone, Copy, Debug)]
pub struct RestartRequest<'a> {
    /// The instance whose input is taken.
    pub instance: &'a str,
    /// The version; `None`: the newest.
    pub version: Option<&'a str>,
    /// The idempotency key.
    pub key: Option<&'a str>,
}

/// What became of a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restarted {
    /// It is queued.
    Accepted {
        /// The execution that begins.
        execution: u64,
    },
    /// The same request was accepted before, with the same key.
    Repeated,
    /// Another request was accepted with the same key.
    KeyReused,
    /// There is no such instance.
    NotFound,
    /// The instance has not ended.
    NotEnded,
    /// The instance is being deleted.
    Deleting,
    /// It is the child of this instance, which has gone on with its end.
    IsChild {
        /// The parent.
        parent: String,
    },
    /// Another instance has the new id.
    Taken,
}

/// Starts a new instance with the input of another one.
pub(crate) async fn as_new(store: &Store, request: &RestartRequest<'_>, new_id: &str) -> Result<Restarted, Failure> {
    let Ok(pk) = &PartitionKey::new(request.instance) else {
        return Ok(Restarted::NotFound);
    };
    let found = store.fence(pk).await?.filter(|fence| fence.doc.is_taken());
    let Some(Fence { doc, .. }) = found else {
        return Ok(Restarted::NotFound);
    };
    let Some((orchestration, input)) = start_of(store, pk, &doc).await? else {
        return Ok(Restarted::NotFound);
    };
    let text = serde_json::to_string(&("restart", request.instance, new_id, request.version))?;
    let start = StartRequest {
        instance: new_id,
        orchestration: &orchestration,
        version: request.version,
        input: &input,
        tags: &doc.tags,
        key: request.key,
    };
    let origin = Origin {
        instance: request.instance,
        request: &text,
    };
    Ok(match enqueue::start_from(store, &start, Some(origin)).await? {
        Started::Accepted => Restarted::Accepted {
            execution: duroxide::INITIAL_EXECUTION_ID,
        },
        Started::Repeated => Restarted::Repeated,
        Started::Taken => Restarted::Taken,
        Started::KeyReused => Restarted::KeyReused,
    })
}

/// Begins the next execution of an instance that has ended. Also returns whom to wake.
pub(crate) async fn in_place(
    store: &Store,
    request: &RestartRequest<'_>,
    alone: bool,
) -> Result<(Restarted, Vec<Due>), Failure> {
    let Ok(pk) = &PartitionKey::new(request.instance) else {
        return Ok((Restarted::NotFound, Vec::new()));
    };
    let restart = Restart::new(store, pk, request)?;
    if let Some(earlier) = restart.earlier(store).await? {
        return Ok((earlier, vec![Due::turn(request.instance)]));
    }
    let mut due = Vec::new();
    for _ in 0..ATTEMPTS {
        let fence = store.fence(pk).await?;
        let Some(fence) = fence.filter(|fence| fence.doc.is_taken()) else {
            return Ok((Restarted::NotFound, due));
        };
        if fence.doc.lock.remembers(&restart.commit) {
            // The answer to our own write was lost.
            due.push(Due::turn(request.instance));
            let execution = fence.doc.current.execution;
            return Ok((Restarted::Accepted { execution }, due));
        }
        let is_deleting = fence.doc.lock.deleting.is_some();
        match roll_forward(store, pk, &fence).await? {
            Progress::Clean => {}
            Progress::Underway { .. } if is_deleting => return Ok((Restarted::Deleting, due)),
            Progress::Underway { .. } => {
                tokio::time::sleep(WAIT).await;
                continue;
            }
            Progress::Changed { due: rolled } => {
                due.extend(rolled);
                continue;
            }
        }
        if !fence.doc.current.status.is_over() {
            return Ok((Restarted::NotEnded, due));
        }
        if let Some(parent) = fence.doc.parent.clone().filter(|_| !alone) {
            return Ok((Restarted::IsChild { parent }, due));
        }
        if let Some(done) = restart.write(store, &fence).await? {
            due.push(Due::turn(request.instance));
            return Ok((done, due));
        }
        tokio::time::sleep(WAIT).await;
    }
    Err(Failure::busy(pk))
}

/// A restart in place.
struct Restart<'a> {
    pk: &'a PartitionKey,
    request: &'a RestartRequest<'a>,
    /// Its name among the commits of the instance.
    commit: String,
    receipt: Option<KeyReceiptDoc>,
}

impl<'a> Restart<'a> {
    fn new(store: &Store, pk: &'a PartitionKey, request: &'a RestartRequest<'a>) -> Result<Self, Failure> {
        let commit = store.ids.unique();
        let text = serde_json::to_string(&("restart", request.instance, request.version))?;
        let receipt = request
            .key
            .map(|key| KeyReceiptDoc::new(pk.as_str(), KeyedRequest::Restart, key, &text, &commit));
        Ok(Restart {
            pk,
            request,
            commit,
            receipt,
        })
    }

    /// What an earlier request with the same key has become. A lagging replica may not show it: then the batch conflicts.
    async fn earlier(&self, store: &Store) -> Result<Option<Restarted>, Failure> {
        let Some(receipt) = &self.receipt else { return Ok(None) };
        let found = store.read::<KeyReceiptDoc>(self.pk, &receipt.id).await?;
        Ok(found.map(|found| match found.doc.request == receipt.request {
            true => Restarted::Repeated,
            false => Restarted::KeyReused,
        }))
    }

    /// Writes it in place of an instance that has ended. `None` when something was written meanwhile.
    async fn write(&self, store: &Store, fence: &Fence) -> Result<Option<Restarted>, Failure> {
        let Some((orchestration, input)) = start_of(store, self.pk, &fence.doc).await? else {
            return Err(Failure::stale(self.pk, "its first event cannot be read yet"));
        };
        let Some(late) = late_messages(store, self.pk).await? else {
            return Err(Failure::busy(self.pk));
        };
        let now = store.now();
        let (mut next, archived) = fence.doc.restarted(now);
        let execution = next.current.execution;
        let start = WorkItem::StartOrchestration {
            instance: self.pk.as_str().to_owned(),
            orchestration,
            input,
            version: self.request.version.map(str::to_owned),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: execution,
        };
        let envelope = Envelope {
            id: format!("restart:{}", self.commit),
            queued_at: now,
            arrival: store.sequence.next(now),
            due_at: now,
            receipt: Receipt::None,
        };
        let message = MessageDoc::new(self.pk.as_str(), envelope, &start)?;
        check_size("the input", self.pk.as_str(), &message)?;
        let consumed: Vec<String> = late.iter().map(|message| message.id.clone()).collect();
        next.lock.commit(&self.commit, &consumed);
        check_fence(&next)?;
        let mut ops = vec![
            StagedOp::create(&message.id, &message)?,
            StagedOp::upsert(&ExecutionDoc::id(execution - 1), &archived)?,
        ];
        if let Some(receipt) = &self.receipt {
            ops.push(StagedOp::create(&receipt.id, receipt)?);
        }
        if fence.doc.long_custom_status {
            ops.push(StagedOp::discard(TextDoc::CUSTOM_STATUS));
        }
        for message in &late {
            ops.push(match message.receipt.ttl(store.receipt_ttl) {
                Some(ttl) => {
                    let receipt = ReceiptDoc::new(self.pk.as_str(), &message.id, ttl);
                    StagedOp::replace(&message.id, &message.etag, &receipt)?
                }
                None => StagedOp::delete(&message.id, &message.etag),
            });
        }
        match batch::write_fenced(store, self.pk, fence, &next, ops).await {
            Ok(written) => Ok(written.map(|_| Restarted::Accepted { execution })),
            // Another request with the same key was faster.
            Err(Failure::Cosmos(error)) if error.is_conflict() => self.earlier(store).await,
            Err(failure) => Err(failure),
        }
    }
}

/// The orchestration of an instance and the input of its current execution; `None` when a document cannot be read yet.
async fn start_of(store: &Store, pk: &PartitionKey, doc: &InstanceDoc) -> Result<Option<(String, String)>, Failure> {
    if doc.current.events > 0 {
        let first = read::first_event(store, pk, &doc.current).await?;
        return Ok(first.and_then(|event| match event.kind {
            EventKind::OrchestrationStarted { name, input, .. } => Some((name, input)),
            _ => None,
        }));
    }
    // No turn has taken its start.
    let orchestration = doc.name.as_ref().or(doc.start_name.as_ref());
    let start = summary::start(store, pk).await?;
    Ok(orchestration.cloned().zip(start.map(|(input, _)| input)))
}

/// The messages that wait for an instance that has ended; `None` when they are more than one batch takes.
async fn late_messages(store: &Store, pk: &PartitionKey) -> Result<Option<Vec<MessageDoc>>, Failure> {
    let query = Query::new(format!("SELECT * FROM c WHERE c.type = {MESSAGE}"));
    let late = store.container.query::<Listed<MessageDoc>>(pk, &query).await?;
    // One of a newer release stays.
    let late: Vec<MessageDoc> = late.into_iter().filter_map(Listed::known).collect();
    Ok(Some(late).filter(|late| late.len() <= MOST_LATE))
}
