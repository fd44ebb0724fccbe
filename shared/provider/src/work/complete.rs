//! Completing a work item: one batch.
//!
//! A result that no document can hold becomes a failure of the activity that says so: refusing it would make the
//! runtime run the activity again, with the same result, until it is poison. The failure of a poisoned activity leaves a
//! dead letter in the same batch.

use super::{HeldWork, HeldWorks};
use crate::error::Failure;
use crate::model::{DeadLetterDoc, Envelope, IntentDoc, MessageDoc, StagedOp, StagedOpKind};
use crate::poison;
use crate::store::{Store, check_size};
use crate::token::Token;
use crate::turn::{BATCH_BYTES, extend};
use cosmos::{Batch, PartitionKey, Retry};
use duroxide::ErrorDetails;
use duroxide::providers::WorkItem;
use std::time::Duration;
use tokio::time::Instant;

/// How often the item's version may have moved under the completion (renewals) before it counts as lost.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);

impl Store {
    /// Removes the claimed item, and queues `completion` for its instance.
    pub(crate) async fn complete_work(
        &self,
        token: &str,
        completion: Option<WorkItem>,
        held: &HeldWorks,
    ) -> Result<(), Failure> {
        let (token, pk, id) = Token::decode_work(token)?;
        let lost = || Failure::WorkLost {
            instance: token.instance.clone(),
            work: id.clone(),
        };
        let mut work = match held.get(&token.nonce) {
            Some(work) => work,
            None => self.own_work(&pk, &id, &token.nonce).await?.ok_or_else(lost)?,
        };
        let (ops, intent) = self.completion_ops(&pk, &token, completion.as_ref())?;
        let left = work.doc.until.saturating_sub(self.now());
        let deadline = Instant::now() + Duration::from_millis(left);
        let container = self.container.within(deadline);
        for _ in 0..ATTEMPTS {
            if work.doc.until <= self.now() {
                return Err(lost());
            }
            let mut batch = Batch::new();
            batch.delete(&id, Some(work.etag.clone()))?;
            let sent = container.batch(&pk, &extend(batch, &ops)?, Retry::Idempotent).await;
            let error = match sent {
                Ok(_) => {
                    held.forget(&token.nonce);
                    self.completed(&pk, work, intent).await;
                    return Ok(());
                }
                Err(error) => error,
            };
            if error.batch_index() != Some(0) && !error.is_conflict() && !error.is_transient() {
                return Err(error.into());
            }
            // Renewed meanwhile, cancelled, stolen, or done already by an attempt whose answer was lost: only the
            // first is worth another attempt, and the last has left its message. If a turn has taken that since, the
            // item counts as lost: nothing is wrong but the answer.
            if error.after_ambiguity() && self.has_message(&pk, &ops).await? {
                held.forget(&token.nonce);
                self.completed(&pk, work, intent).await;
                return Ok(());
            }
            work = self.own_work(&pk, &id, &token.nonce).await?.ok_or_else(lost)?;
            if Instant::now() >= deadline {
                return Err(lost());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(lost())
    }

    async fn completed(&self, pk: &PartitionKey, work: HeldWork, intent: Option<IntentDoc>) {
        if let Some(session) = &work.doc.session {
            self.touch_session(session).await;
        }
        if let Some(intent) = intent {
            self.deliver(pk, &[intent]).await;
        }
    }

    /// The message of the completion, in this partition or as an intent for another; and the dead letter, if there is one.
    fn completion_ops(
        &self,
        pk: &PartitionKey,
        token: &Token,
        completion: Option<&WorkItem>,
    ) -> Result<(Vec<StagedOp>, Option<IntentDoc>), Failure> {
        let Some(completion) = completion else {
            return Ok((Vec::new(), None));
        };
        let (WorkItem::ActivityCompleted { instance, .. } | WorkItem::ActivityFailed { instance, .. }) = completion
        else {
            return Err(Failure::Refused(
                "only a completed or failed activity completes a work item".to_owned(),
            ));
        };
        let now = self.now();
        let own = instance == pk.as_str();
        let envelope = Envelope {
            id: token.nonce.clone(),
            sort_key: self.sequence.next(now),
            due_at: now,
            receipt: !own,
        };
        let mut message = MessageDoc::new(instance, envelope.clone(), completion)?;
        if let Err(failure @ Failure::TooLarge { .. }) = check_size("the result of an activity", instance, &message) {
            message = MessageDoc::new(instance, envelope, &refusal(completion, &failure))?;
        }
        let mut ops = Vec::new();
        let mut intent = None;
        if own {
            ops.push(StagedOp::create(&message.id, &message)?);
        } else {
            PartitionKey::new(instance)?;
            let owed = IntentDoc::new(pk.as_str(), &token.nonce, self.repair_due(), message);
            ops.push(StagedOp::create(&owed.id, &owed)?);
            intent = Some(owed);
        }
        let room = BATCH_BYTES.saturating_sub(ops.iter().map(StagedOp::bytes).sum());
        if let Some(death) = poison::activity_death(completion, room) {
            let dead_letter = DeadLetterDoc::new(pk.as_str(), &token.nonce, now, self.dead_letter_ttl, death);
            ops.push(StagedOp::create(&dead_letter.id, &dead_letter)?);
        }
        Ok((ops, intent))
    }

    async fn has_message(&self, pk: &PartitionKey, ops: &[StagedOp]) -> Result<bool, Failure> {
        for op in ops.iter().filter(|op| matches!(op.op, StagedOpKind::Create)) {
            if self
                .container
                .read::<serde::de::IgnoredAny>(pk, &op.id)
                .await?
                .is_none()
            {
                return Ok(false);
            }
        }
        Ok(!ops.is_empty())
    }
}

/// The failure that stands for a completion which cannot be stored.
fn refusal(completion: &WorkItem, failure: &Failure) -> WorkItem {
    let (instance, execution_id, id) = match completion {
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
        } => (instance.clone(), *execution_id, *id),
        other => return other.clone(),
    };
    let details = ErrorDetails::Infrastructure {
        operation: "ack_work_item".to_owned(),
        message: failure.to_string(),
        retryable: false,
    };
    WorkItem::ActivityFailed {
        instance,
        execution_id,
        id,
        details,
    }
}
