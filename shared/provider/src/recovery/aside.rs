//! Messages of an instance that does not exist: kept aside for a grace period, then dead letters.
//!
//! Such a message may have overtaken its start: the start was released with a delay, is still an intent of its sender, or
//! comes from a client that has not sent it yet. Or nobody will ever start the instance: its id was mistyped, or it was
//! deleted. Nobody can know, so nothing is dropped:
//!
//! ```text
//!   a fetch finds neither instance nor start ──> aside: still stored, not due ──┬─> a start comes: put back, in their
//!                                                                               │   old places; its turn takes them
//!                                                                               └─> grace period over: dead letters
//!                                                                                   (a parent's cancellation: nothing)
//! ```
//!
//! A message aside is in the `repair` queue, due at the end of its grace period. So no turn takes it, no sweep wakes its
//! instance, it is no backlog, and the pass `unfinished` finds it when its time is over. The instance document says that there are
//! some (`aside`): a fetch that finds a start, or the instance, puts them back before it claims.
//!
//! Every step is a fenced batch; a partition without an instance document gets one in the first batch. So a stale view,
//! a turn that was claimed meanwhile, and two processes at once fail the fence and change nothing. Giving up claims
//! first and reads then: that read is as new as the claim, so it shows every start that came before, and no turn can
//! begin in between. A start that comes later finds the dead letters, which can be redriven. A crash leaves a claim that
//! expires and messages that are still due.

use crate::batch::{BATCH_BYTES, BATCH_OPS, extend, fence_first, pack};
use crate::due::Due;
use crate::error::Failure;
use crate::model::sql::{INSTANCE, MESSAGE};
use crate::model::{
    DeadLetterDoc, DeadLetterKind, GivenUp, InstanceDoc, MessageDoc, Receipt, ReceiptDoc, StagedOp, is_start,
};
use crate::page::PassOutcome;
use crate::store::{Fence, Store, Stored, millis};
use cosmos::{PartitionKey, Query, Retry};
use duroxide::providers::WorkItem;
use serde_json::value::RawValue;
use std::time::Duration;

/// How long giving up may take before another process may claim the instance.
const CLAIM: Duration = Duration::from_secs(30);

/// Sets messages aside whose instance does not exist. `seen` is the fence of the view that showed neither instance nor
/// start. Returns `false` when that view was not the newest: then the rest of the messages is as it was.
pub(crate) async fn set_aside(
    store: &Store,
    pk: &PartitionKey,
    seen: Option<&Fence>,
    messages: &[MessageDoc],
) -> Result<bool, Failure> {
    let until = store.now().saturating_add(millis(store.orphan_grace));
    let ops: Result<Vec<StagedOp>, _> = messages
        .iter()
        .map(|message| StagedOp::replace(&message.id, &message.etag, &message.aside(until)))
        .collect();
    tracing::info!(
        instance = pk.as_str(),
        count = messages.len(),
        "messages of an instance that does not exist wait for its start"
    );
    let mut fence = seen.cloned();
    for group in pack(ops?) {
        let mut next = fence.as_ref().map_or_else(
            || InstanceDoc::absent(pk.as_str(), store.now()),
            |fence| fence.doc.clone(),
        );
        next.lock.aside = true;
        match write(store, pk, fence.as_ref(), next, &group).await? {
            Some(written) => fence = Some(written),
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// Makes the messages that were set aside due again, in their old places. When another process is faster, the caller reads
/// again.
pub(crate) async fn put_back(store: &Store, pk: &PartitionKey, fence: &Fence) -> Result<(), Failure> {
    let mut messages = partition(store, pk).await?.messages;
    messages.retain(MessageDoc::is_aside);
    release(store, pk, fence.clone(), &messages).await
}

/// What is queued in a partition, due or not.
#[derive(Default)]
struct Queued {
    messages: Vec<MessageDoc>,
    /// The instance exists, or a start is queued, or what cannot be decoded and may be one.
    begins: bool,
}

async fn partition(store: &Store, pk: &PartitionKey) -> Result<Queued, Failure> {
    let query = Query::new(format!("SELECT * FROM c WHERE c.type IN ({INSTANCE}, {MESSAGE})"));
    let mut queued = Queued::default();
    for raw in store.container.query::<Box<RawValue>>(pk, &query).await? {
        match Stored::decode(&raw) {
            Ok(Stored::Message(message)) => {
                let item = serde_json::from_str::<WorkItem>(message.item.get());
                queued.begins |= item.as_ref().map_or(true, is_start);
                queued.messages.push(message);
            }
            Ok(Stored::Instance(found)) => queued.begins |= found.doc.exists(),
            Ok(_) | Err(_) => queued.begins = true,
        }
    }
    Ok(queued)
}

/// Puts messages back and ends the claim and the mark, in as many batches as they need.
async fn release(store: &Store, pk: &PartitionKey, fence: Fence, messages: &[MessageDoc]) -> Result<(), Failure> {
    let ops: Result<Vec<StagedOp>, _> = messages
        .iter()
        .map(|message| StagedOp::replace(&message.id, &message.etag, &message.put_back()))
        .collect();
    let mut groups = pack(ops?);
    let last = groups.pop().unwrap_or_default();
    let mut fence = fence;
    for group in groups {
        let next = fence.doc.clone();
        match write(store, pk, Some(&fence), next, &group).await? {
            Some(written) => fence = written,
            None => return Ok(()),
        }
    }
    let mut next = fence.doc.with(|lock| lock.release(true));
    next.lock.aside = false;
    write(store, pk, Some(&fence), next, &last).await?;
    Ok(())
}

/// The grace period of a message is over: it becomes a dead letter, unless its instance begins after all.
pub(super) async fn give_up(store: &Store, pk: &PartitionKey) -> Result<PassOutcome, Failure> {
    let seen = store.fence(pk).await?;
    if seen
        .as_ref()
        .is_some_and(|fence| fence.doc.lock.claim_at(store.now()).is_some())
    {
        return Ok(PassOutcome::default());
    }
    let next = seen.as_ref().map_or_else(
        || InstanceDoc::absent(pk.as_str(), store.now()),
        |fence| fence.doc.clone(),
    );
    let until = store.now().saturating_add(millis(CLAIM));
    let claimed = next.with(|lock| lock.claim(&store.ids.unique(), until, &[]));
    let Some(fence) = store
        .swap_fence(pk, seen.as_ref().map(|fence| &fence.etag), claimed)
        .await?
    else {
        return Ok(PassOutcome::default());
    };
    let Queued { mut messages, begins } = partition(store, pk).await?;
    if begins {
        messages.retain(MessageDoc::is_aside);
        release(store, pk, fence, &messages).await?;
        return Ok(PassOutcome {
            done: 1,
            due: vec![Due::turn(pk.as_str())],
            ..PassOutcome::default()
        });
    }
    let all = messages.len();
    let now = store.now();
    messages.retain(|message| message.is_aside() && message.due_at <= now);
    let remain = messages.len() < all;
    write_dead_letters(store, pk, fence, &messages, remain).await
}

/// Writes the dead letters, some per batch; each batch also removes the messages that it is about.
async fn write_dead_letters(
    store: &Store,
    pk: &PartitionKey,
    mut fence: Fence,
    messages: &[MessageDoc],
    remain: bool,
) -> Result<PassOutcome, Failure> {
    let mut pass = PassOutcome::default();
    let mut groups: Vec<(u64, Vec<StagedOp>)> = Vec::new();
    for message in messages {
        let is_moot = is_moot(message);
        let mut ops = vec![removal_of(store, message)?];
        if !is_moot {
            ops.push(dead_letter_of(store, message)?);
        }
        let dead = u64::from(!is_moot);
        let bytes = |ops: &[StagedOp]| ops.iter().map(StagedOp::bytes).sum::<usize>();
        match groups.last_mut() {
            Some((count, group)) if group.len() + 2 <= BATCH_OPS && bytes(group) + bytes(&ops) <= BATCH_BYTES => {
                *count += dead;
                group.extend(ops);
            }
            _ => groups.push((dead, ops)),
        }
    }
    for (dead, group) in groups {
        let next = fence.doc.clone();
        match write(store, pk, Some(&fence), next, &group).await? {
            Some(written) => fence = written,
            None => return Ok(pass),
        }
        pass.dead += dead;
    }
    pass.done = 1;
    if remain {
        let next = fence.doc.with(|lock| lock.release(true));
        store.swap_fence(pk, Some(&fence.etag), next).await?;
        return Ok(pass);
    }
    // Nothing is left of an instance that never was. A document that stays instead does no harm.
    match store
        .container
        .delete(pk, InstanceDoc::ID, Some(&fence.etag), Retry::Idempotent)
        .await
    {
        Err(error) if !error.is_not_found() && !error.is_precondition_failed() => Err(error.into()),
        _ => Ok(pass),
    }
}

/// Whether the message has nothing to do any more: a parent that is cancelled in the turn which would start a child cancels
/// that child too, and never starts it. Nobody should have to look at this.
fn is_moot(message: &MessageDoc) -> bool {
    let by_parent = message.receipt == Receipt::Long;
    by_parent
        && matches!(
            serde_json::from_str(message.item.get()),
            Ok(WorkItem::CancelInstance { .. })
        )
}

fn dead_letter_of(store: &Store, message: &MessageDoc) -> Result<StagedOp, Failure> {
    let given_up = GivenUp {
        cause: DeadLetterKind::NoInstance,
        reason: reason_of(store, message),
        attempts: 0,
        execution: None,
        name: None,
        target: Some(message.pk.clone()),
        message: Some(message.clone()),
        items: Vec::new(),
        omitted: 0,
    };
    let dead_letter = DeadLetterDoc::new(
        &message.pk,
        message.name(),
        store.now(),
        store.dead_letter_ttl,
        given_up,
    );
    Ok(StagedOp::upsert(&dead_letter.id, &dead_letter)?)
}

/// Removes a message, or replaces it by its receipt.
fn removal_of(store: &Store, message: &MessageDoc) -> Result<StagedOp, Failure> {
    Ok(match message.receipt.ttl(store.receipt_ttl) {
        Some(ttl) => {
            let receipt = ReceiptDoc::new(&message.pk, &message.id, ttl);
            StagedOp::replace(&message.id, &message.etag, &receipt)?
        }
        None => StagedOp::delete(&message.id, &message.etag),
    })
}

fn reason_of(store: &Store, message: &MessageDoc) -> String {
    let what = match serde_json::from_str(message.item.get()) {
        Ok(WorkItem::ExternalRaised { name, .. } | WorkItem::QueueMessage { name, .. }) => format!("event '{name}'"),
        Ok(WorkItem::CancelInstance { .. }) => "cancellation".to_owned(),
        Ok(WorkItem::SubOrchCompleted { .. } | WorkItem::SubOrchFailed { .. }) => "result of a child".to_owned(),
        Ok(WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. }) => "result of an activity".to_owned(),
        Ok(WorkItem::TimerFired { .. }) => "timer".to_owned(),
        _ => "message".to_owned(),
    };
    format!(
        "instance '{}' does not exist, and was not started within {} s after this {what} came for it: if the id is right, \
         start the instance and redrive this dead letter; else discard it",
        message.pk,
        store.orphan_grace.as_secs()
    )
}

/// One fenced batch: the instance document in the version that was seen (or as a new document), and `ops`. Returns `None` when another
/// process was faster; whoever that is sees the messages.
async fn write(
    store: &Store,
    pk: &PartitionKey,
    seen: Option<&Fence>,
    next: InstanceDoc,
    ops: &[StagedOp],
) -> Result<Option<Fence>, Failure> {
    let batch = fence_first(&next, seen.map(|fence| &fence.etag))?;
    match store.container.batch(pk, &extend(batch, ops)?, Retry::Idempotent).await {
        Ok(results) => Ok(Some(store.written_fence(pk, next, &results).await?)),
        Err(error) if error.is_conflict() || error.is_precondition_failed() || error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
