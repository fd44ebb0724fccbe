//! Enqueueing from outside a turn: one request. A lost response does no harm: the id is unique to the request, so a retry
//! conflicts with the message, or with the receipt that it leaves when a turn has consumed it meanwhile.
//!
//! A start also creates the instance document, in the same batch, so that the instance can be seen before its first turn.
//! If there is one already, the message alone is created: for duroxide a second start is one more message.
//!
//! These are duroxide's own requests. Those of our API (`start`, `raise`) answer what became of them, and may have an idempotency key.

mod keyed;
mod raise;
mod start;

pub use raise::{EventRequest, EventTarget, Raised};
pub(crate) use raise::{Sent, raise, send};
pub(crate) use start::{Origin, start, start_from};
pub use start::{StartRequest, Started, instance_id_of_key};

use crate::error::Failure;
use crate::model::{Envelope, InstanceDoc, MessageDoc, Receipt, WorkDoc, target_of};
use crate::store::{Store, check_session, check_size, millis};
use cosmos::{Batch, Container, PartitionKey, Retry};
use duroxide::providers::WorkItem;
use std::time::Duration;

/// Queues a message for its instance: due after `delay`, without one at once, whatever it is (a timer that a turn makes
/// is due when it fires; see `turn::plan`). Returns the instance, and when the message is due.
pub(crate) async fn message(store: &Store, item: &WorkItem, delay: Option<Duration>) -> Result<(String, u64), Failure> {
    let now = store.now();
    let due_at = now.saturating_add(delay.map_or(0, millis));
    let target = target_of(item)
        .ok_or_else(|| Failure::Refused("an activity is enqueued for workers, not for an orchestrator".to_owned()))?;
    let pk = PartitionKey::new(target)?;
    let envelope = Envelope {
        id: store.ids.unique(),
        queued_at: now,
        arrival: store.sequence.next(now),
        due_at,
        receipt: Receipt::Brief,
    };
    let message = MessageDoc::new(target, envelope, item)?;
    check_size("the input or event", target, &message)?;
    create(store, &store.container, &pk, &message).await?;
    Ok((target.to_owned(), due_at))
}

/// Creates a message, whose id conflicts only with an earlier attempt to create it, or with what that has left.
pub(crate) async fn create(
    store: &Store,
    container: &Container,
    pk: &PartitionKey,
    message: &MessageDoc,
) -> Result<(), Failure> {
    if let Some(start) = message.starts() {
        let mut pending = InstanceDoc::pending(pk.as_str(), &start.orchestration, store.now());
        pending.parent = start.parent;
        let mut batch = Batch::new();
        batch.create(&message.id, message)?;
        batch.create(InstanceDoc::ID, &pending)?;
        match container.batch(pk, &batch, Retry::Idempotent).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() && error.batch_index() == Some(0) => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
    match container.create(pk, message, Retry::Idempotent).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Queues an activity outside a turn.
pub(crate) async fn work(store: &Store, item: &WorkItem) -> Result<WorkDoc, Failure> {
    let now = store.now();
    let doc = WorkDoc::new(item, &store.sequence.next(now), now)?
        .ok_or_else(|| Failure::Refused("only an activity can be enqueued for workers".to_owned()))?;
    let pk = PartitionKey::new(&doc.pk)?;
    check_session(&doc)?;
    check_size("the input of the activity", &doc.pk, &doc)?;
    match store.container.create(&pk, &doc, Retry::Idempotent).await {
        Ok(_) => Ok(doc),
        // The activity is queued already, by us or by its turn: its claim and its attempts must stay.
        Err(error) if error.is_conflict() => Ok(doc),
        Err(error) => Err(error.into()),
    }
}
