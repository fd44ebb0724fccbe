//! Completing a work item: one batch.
//!
//! A result that no document can hold becomes a failure of the activity that says so: refusing it would make the runtime
//! run the activity again, with the same result, until it is given up. An activity that was given up leaves a dead letter
//! in the same batch. The message carries the attempts of the activity, because the batch deletes the item that has them.

use super::claimed::{ClaimedWorks, own};
use crate::batch::{BATCH_BYTES, extend};
use crate::error::Failure;
use crate::given_up;
use crate::model::{
    AttemptEnd, CompletedAttempts, DeadLetterDoc, Envelope, GivenUpWork, IntentDoc, LateUsage, MessageDoc, Receipt,
    StagedOp, StagedOpKind, Usage, WorkDoc,
};
use crate::recovery;
use crate::session;
use crate::store::{Store, check_size};
use crate::token::WorkToken;
use crate::types::Decided;
use cosmos::{Batch, PartitionKey, Retry};
use duroxide::providers::WorkItem;
use duroxide::{AppErrorKind, ErrorDetails};
use std::time::Duration;
use tokio::time::Instant;

/// How often the item may change during the completion (by renewals) before it counts as lost.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);

/// How an activity completes.
#[derive(Clone, Debug)]
pub(crate) struct Completion {
    pub item: WorkItem,
    /// The caller gives the activity up.
    pub given_up: Option<GivenUpWork>,
}

/// Removes the claimed item, and queues `completion` for its instance. `decided` is set when that is written.
pub(crate) async fn complete(
    store: &Store,
    token: &WorkToken,
    completion: Option<&Completion>,
    works: &ClaimedWorks,
    decided: &Decided,
) -> Result<(), Failure> {
    let pk = &token.pk;
    let store = &works.step(store, token);
    let mut work = works.of(store, token).await?;
    let brought = Brought {
        spent: store.spending.total().plus(Usage::REQUEST),
        late: store.spent.carried(pk.as_str()),
    };
    let (ops, intent) = completion_ops(store, token, &work.doc, completion, &brought)?;
    let deadline = store.expiry(work.doc.until);
    let container = store.container.within(deadline);
    for _ in 0..ATTEMPTS {
        if work.doc.until <= store.now() {
            return Err(token.lost());
        }
        let mut batch = Batch::new();
        batch.delete(&token.id, Some(work.etag.clone()))?;
        let sent = container.batch(pk, &extend(batch, &ops)?, Retry::Idempotent).await;
        let is_done = match sent {
            Ok(_) => true,
            Err(error) if error.batch_index() != Some(0) && !error.is_conflict() && !error.is_transient() => {
                return Err(error.into());
            }
            // Renewed, cancelled, claimed by another process, or already done by an attempt whose response was lost:
            // only the first is worth another attempt, and the last has left its message. If a turn has consumed that
            // message since, the item counts as lost; only the response is wrong then.
            Err(error) => error.after_ambiguity() && has_message(store, pk, &ops).await?,
        };
        if is_done {
            decided.set();
            works.forget(&token.nonce);
            after_completion(store, pk, &work.doc, intent).await;
            match completion {
                Some(_) => brought.settle(store, token),
                None => store.spare_step(pk.as_str()),
            }
            return Ok(());
        }
        work = own(store, token).await?;
        if Instant::now() >= deadline {
            return Err(token.lost());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(token.lost())
}

/// What the message of the completion brings to the turn that takes it, beside the attempts.
struct Brought {
    /// What the step has spent, with the request of its completion.
    spent: Usage,
    /// Late usage that this process knows.
    late: Vec<LateUsage>,
}

impl Brought {
    /// The usage of the whole activity.
    fn usage(&self, store: &Store, work: &WorkDoc, attempts: Option<&CompletedAttempts>) -> Usage {
        let (attempts, activity_ms) = attempts.map_or((0, 0), CompletedAttempts::totals);
        let earlier = work.usage.as_deref().copied().unwrap_or_default();
        let activity = Usage {
            activities: 1,
            attempts,
            activity_ms,
            ..Usage::default()
        };
        activity.plus(earlier).plus(self.spent).plus(store.announced())
    }

    /// The completion is written: keeps what it has cost, and forgets what its message has.
    fn settle(&self, store: &Store, token: &WorkToken) {
        let instance = token.pk.as_str();
        store.spent.forget(instance, &self.late);
        let message = MessageDoc::id_of(&token.nonce);
        store.keep_late(instance, &message, store.spending.total(), self.spent);
    }
}

async fn after_completion(store: &Store, pk: &PartitionKey, work: &WorkDoc, intent: Option<IntentDoc>) {
    if let Some(session) = &work.session {
        session::touch(store, session).await;
    }
    if let Some(intent) = intent {
        recovery::deliver(store, pk, &[intent]).await;
    }
}

/// The message of the completion, in this partition or as an intent for another; and the dead letter, if there is one.
fn completion_ops(
    store: &Store,
    token: &WorkToken,
    work: &WorkDoc,
    completion: Option<&Completion>,
    brought: &Brought,
) -> Result<(Vec<StagedOp>, Option<IntentDoc>), Failure> {
    let Some(Completion {
        item: completion,
        given_up,
    }) = completion
    else {
        return Ok((Vec::new(), None));
    };
    let (WorkItem::ActivityCompleted { instance, .. } | WorkItem::ActivityFailed { instance, .. }) = completion else {
        return Err(Failure::Refused(
            "only a completed or failed activity completes a work item".to_owned(),
        ));
    };
    let (pk, now) = (token.pk.as_str(), store.now());
    let own = instance == pk;
    let envelope = Envelope {
        id: token.nonce.clone(),
        queued_at: now,
        arrival: store.sequence.next(now),
        due_at: now,
        receipt: Receipt::between(pk, instance),
    };
    let end = match given_up {
        Some(given_up) => given_up.end,
        None => Some(end_of(completion)),
    };
    let attempts = work.completed(now, end);
    let usage = brought.usage(store, work, attempts.as_ref());
    let with = |mut message: MessageDoc| {
        message.attempts.clone_from(&attempts);
        message.late.clone_from(&brought.late);
        message.using(usage)
    };
    let mut message = with(MessageDoc::new(instance, envelope.clone(), completion)?);
    if let Err(failure @ Failure::TooLarge { .. }) = check_size("the result of an activity", instance, &message) {
        message = with(MessageDoc::new(instance, envelope, &too_large(completion, &failure))?);
    }
    let mut ops = Vec::new();
    let mut intent = None;
    if own {
        ops.push(StagedOp::create(&message.id, &message)?);
    } else {
        PartitionKey::new(instance)?;
        let outgoing = IntentDoc::new(pk, &token.nonce, store.repair_due(), message);
        ops.push(StagedOp::create(&outgoing.id, &outgoing)?);
        intent = Some(outgoing);
    }
    let room = BATCH_BYTES.saturating_sub(ops.iter().map(StagedOp::bytes).sum());
    let given_up = match given_up {
        Some(given_up) => given_up::of_work(given_up, work, completion, room),
        None => given_up::of_activity(completion, room),
    };
    if let Some(given_up) = given_up {
        let dead_letter = DeadLetterDoc::new(pk, &token.nonce, now, store.dead_letter_ttl, given_up);
        ops.push(StagedOp::create(&dead_letter.id, &dead_letter)?);
    }
    Ok((ops, intent))
}

async fn has_message(store: &Store, pk: &PartitionKey, ops: &[StagedOp]) -> Result<bool, Failure> {
    for op in ops.iter().filter(|op| matches!(op.op, StagedOpKind::Create)) {
        let found = store.container.read::<serde::de::IgnoredAny>(pk, &op.id).await?;
        if found.is_none() {
            return Ok(false);
        }
    }
    Ok(!ops.is_empty())
}

fn end_of(completion: &WorkItem) -> AttemptEnd {
    match completion {
        WorkItem::ActivityCompleted { .. } => AttemptEnd::Completed,
        _ => AttemptEnd::Failed,
    }
}

/// The failure that replaces a completion which is too large to store. The orchestration can handle it like any other error of
/// the activity; an infrastructure failure would end the turn that takes it.
fn too_large(completion: &WorkItem, failure: &Failure) -> WorkItem {
    match completion.clone() {
        WorkItem::ActivityCompleted {
            instance,
            execution_id,
            id,
            ..
        }
        | WorkItem::ActivityFailed {
            instance,
            execution_id,
            id,
            ..
        } => WorkItem::ActivityFailed {
            instance,
            execution_id,
            id,
            details: ErrorDetails::Application {
                kind: AppErrorKind::ActivityFailed,
                message: failure.to_string(),
                retryable: false,
            },
        },
        other => other,
    }
}
