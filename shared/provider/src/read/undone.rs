//! What a rewind has undone. Its history documents are not in the chain of the execution any more, but in that of the head that the
//! instance document remembers with the rewind.

use super::{REREAD_WAIT, REREADS, history_failure, instance, past};
use crate::error::Failure;
use crate::model::{Rewind, assemble};
use crate::store::Store;
use cosmos::PartitionKey;
use duroxide::Event;

/// A rewind, and the events that it has undone.
#[derive(Clone, Debug, PartialEq)]
pub struct Undone {
    /// When, why, and from which event on.
    pub rewind: Rewind,
    /// The events, in their order; none if the execution was pruned since.
    pub events: Vec<Event>,
}

/// What the rewind with this number has undone; `None` when the instance has no such rewind, or remembers it no more.
pub(crate) async fn undone(store: &Store, pk: &PartitionKey, number: u64) -> Result<Option<Undone>, Failure> {
    let Some(doc) = instance(store, pk).await? else {
        return Ok(None);
    };
    let Some(rewind) = doc.rewinds.all().iter().find(|rewind| rewind.number == number) else {
        return Ok(None);
    };
    let mut short = None;
    for _ in 0..REREADS {
        let past = past(store, pk, rewind.execution).await?;
        if past.history.is_empty() {
            break;
        }
        match assemble(&rewind.head, rewind.events, past.history) {
            Ok(mut events) => {
                events.retain(|event| event.event_id() >= rewind.before);
                let rewind = rewind.clone();
                return Ok(Some(Undone { rewind, events }));
            }
            Err(error) => short = Some(history_failure(pk, error, past.foreign)?),
        }
        tokio::time::sleep(REREAD_WAIT).await;
    }
    match short {
        Some(failure) => Err(failure),
        None => Ok(Some(Undone {
            rewind: rewind.clone(),
            events: Vec::new(),
        })),
    }
}
