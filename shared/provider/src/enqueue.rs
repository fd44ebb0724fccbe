//! Enqueueing from outside a turn: one request. A lost response does no harm: the id is unique to the request, so a retry
//! conflicts with the message, or with the receipt that it leaves when a turn has consumed it meanwhile.

use crate::error::Failure;
use crate::model::{Envelope, MessageDoc, Receipt, WorkDoc, target_of};
use crate::store::{Store, check_session, check_size, millis};
use cosmos::{PartitionKey, Retry};
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
    match store.container.create(&pk, &message, Retry::Idempotent).await {
        Ok(_) => {}
        // The id is unique: the conflict comes from our own first attempt.
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error.into()),
    }
    Ok((target.to_owned(), due_at))
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
