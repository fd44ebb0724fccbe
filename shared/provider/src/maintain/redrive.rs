//! Redriving: what was given up runs again, as new and once.
//!
//! ```text
//!   undeliverable ──────────────────────────────┐            the same intent, without attempts
//!   poison turn, poison activity ──> history ───┴──> ONE batch: remove the dead letter, write an intent ──> deliver
//!                                    (name, version, input)        the start of a new instance
//! ```
//!
//! The batch decides: whoever loses the race for the dead letter's version has nothing to do, and a crash after it leaves an
//! intent that the outbox delivers. The ids of the intent, of its message and of the new instance are made from what is
//! redriven, so that nothing can start twice, however often it is tried.
//!
//! A poisoned instance has failed, and everybody was told: its parent has the failure in its history, and a second answer
//! under the same id would be dropped as a duplicate at best. So the failed one stays as it is, for people to look at, and
//! a new instance runs, `{instance}~{digest}`, without a parent, from the input of the failed execution. The same holds
//! for a poisoned activity: the orchestration that waited for it has been told of the failure and may have made up for
//! it, so it is the whole orchestration that runs again. One execution may have left several dead letters (of several
//! activities, of its last turn): whichever of them are redriven, it runs again once.
//!
//! The children that an orchestration gives fixed ids are the same for the new instance, and an instance starts once: the new one
//! may wait for ever for a child that the failed one has started. Delete that child first, or let children be named after their
//! parent, as duroxide does when no id is given.
//!
//! A message whose last delivery had an unknown outcome may have been delivered after all. Its receipt drops a redrive for
//! a week; after that, duroxide itself drops a second start of an instance and a second completion.

use super::dead_letters::{DeadLetterId, address};
use crate::error::Failure;
use crate::model::{DeadLetterDoc, DeadLetterKind, Envelope, IntentDoc, MessageDoc, first_event};
use crate::store::{Store, check_size};
use cosmos::{Batch, MAX_PARTITION_KEY_BYTES, PartitionKey, Retry};
use duroxide::EventKind;
use duroxide::providers::WorkItem;

/// How much of the dead letter's digest is in the name of the new instance.
const DIGEST: usize = 12;

/// What a redrive did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redriven {
    /// The message is in the queue of this instance: wakeup it.
    Delivered {
        /// The target of an undeliverable message, or the new instance of a poisoned one.
        instance: String,
    },
    /// The dead letter is gone and the message is owed: the outbox delivers it to this instance.
    Owed {
        /// As above.
        instance: String,
    },
    /// There is no such dead letter: it was redriven or discarded before, or has expired.
    Gone,
}

/// How an execution began.
struct Beginning {
    at_ms: u64,
    orchestration: String,
    version: String,
    input: String,
}

impl Store {
    pub(crate) async fn redrive(&self, id: &DeadLetterId) -> Result<Redriven, Failure> {
        let pk = address(id)?;
        let Some(dead_letter) = self.dead_letter_doc(id).await? else {
            return Ok(Redriven::Gone);
        };
        let intent = self.again(&pk, &dead_letter.doc).await?;
        let mut batch = Batch::new();
        batch.delete(&id.id, Some(dead_letter.etag))?;
        batch.upsert(&intent.id, &intent)?;
        match self.container.batch(&pk, &batch, Retry::Idempotent).await {
            Ok(_) => {}
            // The answer to our own batch was lost, or somebody else redrives it: delivering twice does no harm.
            Err(error) if error.after_ambiguity() && error.is_not_found() => {}
            Err(error) if error.is_not_found() || error.is_precondition_failed() => return Ok(Redriven::Gone),
            Err(error) => return Err(error.into()),
        }
        Ok(self.deliver_again(&pk, &intent).await)
    }

    /// The intent by which the dead letter's subject runs again.
    async fn again(&self, pk: &PartitionKey, dead_letter: &DeadLetterDoc) -> Result<IntentDoc, Failure> {
        match (dead_letter.death.cause, &dead_letter.death.message) {
            (DeadLetterKind::Undeliverable, Some(message)) => {
                let now = self.now();
                let intent = IntentDoc::new(pk.as_str(), dead_letter.name(), now, message.clone());
                Ok(intent.owed_since(&self.sequence.next(now)))
            }
            (DeadLetterKind::PoisonTurn | DeadLetterKind::PoisonActivity, _) => self.start_again(pk, dead_letter).await,
            _ => Err(Failure::Refused(format!(
                "dead letter '{}' of instance '{}' was written by a newer version, which must redrive it",
                dead_letter.id,
                pk.as_str()
            ))),
        }
    }

    /// The start of a new instance like the failed one.
    async fn start_again(&self, pk: &PartitionKey, dead_letter: &DeadLetterDoc) -> Result<IntentDoc, Failure> {
        let execution = dead_letter.death.execution.unwrap_or(1);
        let Beginning {
            at_ms,
            orchestration,
            version,
            input,
        } = self.beginning(pk, execution).await?;
        // The moment is for an instance that was deleted and started anew under its name.
        let digest = DeadLetterDoc::digest(pk.as_str(), &format!("{execution}:{at_ms}"));
        let target = successor(pk.as_str(), &digest[..DIGEST]);
        let item = WorkItem::StartOrchestration {
            instance: target.clone(),
            orchestration,
            input,
            // A version that is none (an orchestration that was never registered) is left to the registry.
            version: semver::Version::parse(&version).is_ok().then_some(version),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: duroxide::INITIAL_EXECUTION_ID,
        };
        let name = format!("again-{digest}");
        let now = self.now();
        let envelope = Envelope {
            id: name.clone(),
            sort_key: self.sequence.next(now),
            due_at: now,
            receipt: true,
        };
        let message = MessageDoc::new(&target, envelope, &item)?;
        let intent = IntentDoc::new(pk.as_str(), &name, now, message);
        check_size("the input", pk.as_str(), &intent)?;
        Ok(intent)
    }

    /// Name, version and input of an execution. A history that cannot be understood to its end still has its beginning.
    async fn beginning(&self, pk: &PartitionKey, execution: u64) -> Result<Beginning, Failure> {
        let instance = pk.as_str().to_owned();
        let Some(state) = self.execution(pk, execution).await? else {
            return Err(Failure::NoExecution { instance, execution });
        };
        let past = self.past(pk, execution).await?;
        match first_event(&state.head, past.history)?.map(|event| (event.timestamp_ms, event.kind)) {
            Some((
                at_ms,
                EventKind::OrchestrationStarted {
                    name, version, input, ..
                },
            )) => Ok(Beginning {
                at_ms,
                orchestration: name,
                version,
                input,
            }),
            Some(_) => Err(Failure::Corrupt {
                instance,
                reason: format!("execution {execution} does not begin with its start"),
            }),
            None => Err(Failure::Stale {
                instance,
                reason: format!("the beginning of execution {execution} does not show"),
            }),
        }
    }

    async fn deliver_again(&self, pk: &PartitionKey, intent: &IntentDoc) -> Redriven {
        let instance = intent.message.pk.clone();
        if let Err(error) = self.deliver_one(&self.container, intent).await {
            tracing::warn!(instance = pk.as_str(), target = instance, %error,
                "a redriven message is not delivered yet; maintenance will try again");
            return Redriven::Owed { instance };
        }
        if let Err(error) = self.discard_all(pk, vec![intent.id.clone()]).await {
            tracing::warn!(instance = pk.as_str(), %error,
                "a delivered intent could not be removed; it will be delivered again, without effect");
        }
        Redriven::Delivered { instance }
    }
}

/// The name of the new instance; of a name that leaves no room, the end is left out.
fn successor(instance: &str, digest: &str) -> String {
    let room = MAX_PARTITION_KEY_BYTES - digest.len() - 1;
    let kept = &instance[..instance.floor_char_boundary(room)];
    format!("{kept}~{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_instance_has_a_name_that_a_partition_can_have() {
        assert_eq!(successor("order-1", "abc"), "order-1~abc");
        let long = successor(&"語".repeat(682), "0123456789ab");
        assert!(
            long.len() <= MAX_PARTITION_KEY_BYTES && long.ends_with("語~0123456789ab"),
            "{}",
            long.len()
        );
        assert!(PartitionKey::new(&long).is_ok());
    }
}
