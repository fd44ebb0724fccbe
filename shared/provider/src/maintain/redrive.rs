//! Redriving: what was given up runs again, once, without its earlier attempts.
//!
//! ```text
//!   no instance ────────────────────────────────────> ONE batch: remove the dead letter, queue the message again
//!   undeliverable ──────────────────────────────┐            the same intent, without attempts
//!   given-up turn or activity ──> first event ──┴──> ONE batch: remove the dead letter, write an intent ──> deliver
//!                             (name, version, input)               the start of a new instance
//! ```
//!
//! The batch decides: a process that loses the race for the dead letter's version has nothing to do, and a crash after
//! the batch leaves an intent that the outbox delivers. The ids of the intent, of its message and of the new instance
//! derive from what is redriven, so that nothing can start twice.
//!
//! An instance that was given up has failed, and its parent has recorded that failure: a second completion under the same
//! id would be dropped as a duplicate at best. So the failed instance stays, for operators to inspect, and a new instance
//! `{instance}~{digest}` runs, without a parent, from the input of the failed execution. The same holds for a given-up
//! activity: its orchestration has seen the failure and may have compensated, so the whole orchestration runs again. One
//! execution may have left several dead letters (of several activities, of its last turn): it runs again once, whichever
//! of them are redriven.
//!
//! Children with fixed ids are the same for the new instance, and an instance starts only once: the new instance may wait
//! for ever for a child that the failed one has started. Delete that child first, or let duroxide name children after
//! their parent.
//!
//! A message whose last delivery had an unknown outcome may have been delivered. Its receipt drops a redrive: it is kept
//! longer than the dead letter. (After that, duroxide itself drops a second start of an instance and a second completion.)

use super::dead_letters::{DeadLetterId, address, dead_letter_doc};
use crate::error::Failure;
use crate::model::{DeadLetterDoc, DeadLetterKind, Envelope, GivenUp, IntentDoc, MessageDoc, Receipt};
use crate::read;
use crate::recovery;
use crate::store::{Store, check_size};
use cosmos::{Batch, MAX_PARTITION_KEY_BYTES, PartitionKey, Retry};
use duroxide::EventKind;
use duroxide::providers::WorkItem;

/// How many characters of the digest are in the id of the new instance.
const DIGEST: usize = 12;

/// The result of a redrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redriven {
    /// The message is in the queue of this instance: wake it.
    Delivered {
        /// The target of an undeliverable message, or the new instance.
        instance: String,
    },
    /// The dead letter is removed, and the message is not delivered yet: the outbox delivers it to this instance.
    Undelivered {
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

/// Redrives one dead letter.
pub(crate) async fn redrive(store: &Store, id: &DeadLetterId) -> Result<Redriven, Failure> {
    let pk = address(id)?;
    let Some(dead_letter) = dead_letter_doc(store, id).await? else {
        return Ok(Redriven::Gone);
    };
    let mut batch = Batch::new();
    batch.delete(&id.id, Some(dead_letter.etag))?;
    if let GivenUp {
        cause: DeadLetterKind::NoInstance,
        message: Some(message),
        ..
    } = &dead_letter.doc.given_up
    {
        // It was in this partition, and its place is empty or has its receipt.
        batch.upsert(&message.id, &message.queued_again(store.now()))?;
        let instance = message.pk.clone();
        let is_done = decide(store, &pk, &batch).await?;
        return Ok(if is_done {
            Redriven::Delivered { instance }
        } else {
            Redriven::Gone
        });
    }
    let intent = again(store, &pk, &dead_letter.doc).await?;
    batch.upsert(&intent.id, &intent)?;
    if !decide(store, &pk, &batch).await? {
        return Ok(Redriven::Gone);
    }
    let instance = intent.message.pk.clone();
    let delivered = recovery::deliver(store, &pk, &[intent]).await;
    Ok(if delivered.is_empty() {
        Redriven::Undelivered { instance }
    } else {
        Redriven::Delivered { instance }
    })
}

/// Sends the batch that decides. Returns whether the dead letter was there.
async fn decide(store: &Store, pk: &PartitionKey, batch: &Batch) -> Result<bool, Failure> {
    match store.container.batch(pk, batch, Retry::Idempotent).await {
        Ok(_) => Ok(true),
        // The response to our own batch was lost, or another process redrives it: delivering twice does no harm.
        Err(error) if error.after_ambiguity() && error.is_not_found() => Ok(true),
        Err(error) if error.is_not_found() || error.is_precondition_failed() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The intent that makes the dead letter's subject run again.
async fn again(store: &Store, pk: &PartitionKey, dead_letter: &DeadLetterDoc) -> Result<IntentDoc, Failure> {
    match (dead_letter.given_up.cause, &dead_letter.given_up.message) {
        (DeadLetterKind::Undeliverable, Some(message)) => {
            let now = store.now();
            let intent = IntentDoc::new(pk.as_str(), dead_letter.name(), now, message.clone());
            Ok(intent.queued_since(now))
        }
        (DeadLetterKind::PoisonTurn | DeadLetterKind::PoisonActivity, _) => start_again(store, pk, dead_letter).await,
        _ => Err(Failure::Refused(format!(
            "dead letter '{}' of instance '{}' was written by a newer version: redrive it with that version",
            dead_letter.id,
            pk.as_str()
        ))),
    }
}

/// The start of a new instance like the failed one.
async fn start_again(store: &Store, pk: &PartitionKey, dead_letter: &DeadLetterDoc) -> Result<IntentDoc, Failure> {
    let execution = dead_letter.given_up.execution.unwrap_or(1);
    let Beginning {
        at_ms,
        orchestration,
        version,
        input,
    } = beginning(store, pk, execution).await?;
    // The time distinguishes an instance that was deleted and started again under the same id.
    let digest = DeadLetterDoc::digest(pk.as_str(), &format!("{execution}:{at_ms}"));
    let target = successor(pk.as_str(), &digest[..DIGEST]);
    let item = WorkItem::StartOrchestration {
        instance: target.clone(),
        orchestration,
        input,
        // An orchestration that was never registered has no valid version: the registry chooses.
        version: semver::Version::parse(&version).is_ok().then_some(version),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: duroxide::INITIAL_EXECUTION_ID,
    };
    let name = format!("again-{digest}");
    let now = store.now();
    let envelope = Envelope {
        id: name.clone(),
        queued_at: now,
        arrival: store.sequence.next(now),
        due_at: now,
        receipt: Receipt::Long,
    };
    let message = MessageDoc::new(&target, envelope, &item)?;
    let intent = IntentDoc::new(pk.as_str(), &name, now, message);
    check_size("the input", pk.as_str(), &intent)?;
    Ok(intent)
}

/// Name, version and input of an execution. Only the first event must be decodable.
async fn beginning(store: &Store, pk: &PartitionKey, execution: u64) -> Result<Beginning, Failure> {
    let instance = pk.as_str().to_owned();
    let Some(state) = read::execution_state(store, pk, execution).await? else {
        return Err(Failure::NoExecution { instance, execution });
    };
    match read::first_event(store, pk, &state)
        .await?
        .map(|event| (event.timestamp_ms, event.kind))
    {
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
            reason: format!("execution {execution} does not begin with its start event"),
        }),
        None => {
            let reason = format!("the first event of execution {execution} cannot be read yet");
            Err(Failure::stale(pk, reason))
        }
    }
}

/// The id of the new instance; an id that is too long is cut.
fn successor(instance: &str, digest: &str) -> String {
    let room = MAX_PARTITION_KEY_BYTES - digest.len() - 1;
    let kept = &instance[..instance.floor_char_boundary(room)];
    format!("{kept}~{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_instance_id_fits_a_partition_key() {
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
