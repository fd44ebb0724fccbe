//! Events for a client of our API: one batch that reads the instance and creates the message and, if the request has a key, its
//! receipt.
//!
//! ```text
//!   [receipt of the key] read instance  message ──> running: Accepted; ended, or only a fence: withdrawn again
//!            │                │            └─ exists: an own attempt whose answer was lost
//!            │                └─ missing: NotFound, nothing is written
//!            └─ exists: an own attempt; same request ──> Repeated; other request ──> KeyReused
//! ```
//!
//! The read is a part of the batch: it sees the newest version. A process that dies before it withdraws a message leaves one that
//! a turn of the ended instance drops, as it drops every late event.

use super::keep_late;
use super::keyed::{Earlier, earlier};
use super::start::receipt_of;
use crate::error::Failure;
use crate::model::{Envelope, Header, InstanceDoc, KeyReceiptDoc, KeyedRequest, Kind, MessageDoc, Status, Usage};
use crate::store::{Store, check_size};
use cosmos::{Batch, BatchResult, PartitionKey, Retry};
use duroxide::providers::WorkItem;
use serde::Deserialize;

/// How often a request is tried whose receipt has expired meanwhile.
const ATTEMPTS: u32 = 3;

/// Where an event goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTarget<'a> {
    /// To those who wait for the event of this name.
    Event(&'a str),
    /// Into the queue of this name, which keeps it until it is taken.
    Queue(&'a str),
}

/// What to raise.
#[derive(Clone, Copy, Debug)]
pub struct EventRequest<'a> {
    /// The instance.
    pub instance: &'a str,
    /// Where it goes.
    pub target: EventTarget<'a>,
    /// Its data.
    pub data: &'a str,
    /// The idempotency key.
    pub key: Option<&'a str>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// It is queued for the next turn of the instance.
    Accepted,
    /// The same request was accepted before, with the same key.
    Repeated,
    /// Another request was accepted with the same key.
    KeyReused,
    /// There is no such instance.
    NotFound,
    /// The instance has ended.
    Ended,
}

/// The part of the instance document that decides.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Seen {
    status: Status,
    name: Option<String>,
    start_name: Option<String>,
}

impl Seen {
    /// Why the instance takes no event.
    fn refuses(&self) -> Option<Raised> {
        match self {
            _ if self.name.is_none() && self.start_name.is_none() => Some(Raised::NotFound),
            _ if self.status.is_over() => Some(Raised::Ended),
            _ => None,
        }
    }
}

/// What is written.
struct Documents {
    receipt: Option<KeyReceiptDoc>,
    message: MessageDoc,
}

/// Raises an event: one request, unless the instance has ended or the key is in use.
pub(crate) async fn raise(store: &Store, request: &EventRequest<'_>) -> Result<Raised, Failure> {
    let key = request.key.map(|key| (KeyedRequest::Event, key));
    send(store, request.instance, Sent::Event(request.target, request.data), key).await
}

/// What is sent to an instance that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sent<'a> {
    Event(EventTarget<'a>, &'a str),
    /// A cancellation, with its reason.
    Cancel(&'a str),
}

/// Sends an event or a cancellation, with a key of this kind: one request, unless the instance has ended or the key is in use.
pub(crate) async fn send(
    store: &Store,
    instance: &str,
    sent: Sent<'_>,
    key: Option<(KeyedRequest, &str)>,
) -> Result<Raised, Failure> {
    // An id that cannot be a partition key is that of no instance.
    let Ok(pk) = &PartitionKey::new(instance) else {
        return Ok(Raised::NotFound);
    };
    let (store, usage) = super::sent(store);
    let store = &store;
    let documents = Documents::of(store, instance, sent, (key, usage))?;
    check_size("the event", instance, &documents.message)?;
    let batch = documents.batch()?;
    for _ in 0..ATTEMPTS {
        let error = match store.container.batch(pk, &batch, Retry::Idempotent).await {
            Ok(results) => {
                return match seen_in(&results)? {
                    Some(seen) => documents.judged(store, pk, &seen).await,
                    None => documents.written_before(store, pk).await,
                };
            }
            Err(error) => error,
        };
        if error.is_not_found() {
            return Ok(Raised::NotFound);
        }
        match &documents.receipt {
            _ if !error.is_conflict() => return Err(error.into()),
            Some(receipt) if error.batch_index() == Some(0) => match earlier(store, pk, receipt).await? {
                Some(Earlier::Own) => return documents.written_before(store, pk).await,
                Some(Earlier::Same) => return Ok(Raised::Repeated),
                Some(Earlier::Other) => return Ok(Raised::KeyReused),
                None => {}
            },
            // Its id is unique to this call: an attempt whose answer was lost has written it.
            _ => return documents.written_before(store, pk).await,
        }
    }
    Err(Failure::busy(pk))
}

/// The instance that the batch has read, if the service returned it.
fn seen_in(results: &[BatchResult]) -> Result<Option<Seen>, Failure> {
    let body = results.iter().find_map(|result| result.resource_body.as_ref());
    Ok(body.map(|body| serde_json::from_str(body.get())).transpose()?)
}

impl Documents {
    fn of(
        store: &Store,
        instance: &str,
        sent: Sent<'_>,
        (key, usage): (Option<(KeyedRequest, &str)>, Usage),
    ) -> Result<Documents, Failure> {
        let now = store.now();
        let to = instance.to_owned();
        let (kind, name, data) = match sent {
            Sent::Event(EventTarget::Event(name), data) => ("event", name, data),
            Sent::Event(EventTarget::Queue(name), data) => ("queue", name, data),
            Sent::Cancel(reason) => ("cancel", "", reason),
        };
        let text = serde_json::to_string(&(instance, kind, name, data))?;
        let (name, data) = (name.to_owned(), data.to_owned());
        let item = match sent {
            Sent::Event(EventTarget::Event(_), _) => WorkItem::ExternalRaised {
                instance: to,
                name,
                data,
            },
            Sent::Event(EventTarget::Queue(_), _) => WorkItem::QueueMessage {
                instance: to,
                name,
                data,
            },
            Sent::Cancel(_) => WorkItem::CancelInstance {
                instance: to,
                reason: data,
            },
        };
        let envelope = Envelope {
            id: store.ids.unique(),
            queued_at: now,
            arrival: store.sequence.next(now),
            due_at: now,
            receipt: receipt_of(key.map(|(_, key)| key)),
        };
        let message = MessageDoc::new(instance, envelope, &item)?.using(usage);
        let receipt = key.map(|(of, key)| KeyReceiptDoc::new(instance, of, key, &text, &message.id));
        Ok(Documents { receipt, message })
    }

    fn batch(&self) -> Result<Batch, Failure> {
        let mut batch = Batch::new();
        if let Some(receipt) = &self.receipt {
            batch.create(&receipt.id, receipt)?;
        }
        batch.read(InstanceDoc::ID)?;
        batch.create(&self.message.id, &self.message)?;
        Ok(batch)
    }

    /// The answer to a request whose message is written, to an instance as the batch has seen it.
    async fn judged(&self, store: &Store, pk: &PartitionKey, seen: &Seen) -> Result<Raised, Failure> {
        match seen.refuses() {
            None => {
                keep_late(store, &self.message);
                Ok(Raised::Accepted)
            }
            Some(why) => {
                self.withdraw(store, pk).await?;
                Ok(why)
            }
        }
    }

    /// The answer to a request that an earlier attempt has written, without the instance as that has seen it.
    async fn written_before(&self, store: &Store, pk: &PartitionKey) -> Result<Raised, Failure> {
        let found = store.read::<Seen>(pk, InstanceDoc::ID).await?;
        // One that was deleted since has accepted it before.
        let Some(why) = found.and_then(|found| found.doc.refuses()) else {
            return Ok(Raised::Accepted);
        };
        // Has it ended because of this message? Then a turn has taken it.
        let message = store.read::<Header>(pk, &self.message.id).await?;
        if message.is_none_or(|found| found.doc.kind != Kind::Message) {
            return Ok(Raised::Accepted);
        }
        self.withdraw(store, pk).await?;
        Ok(why)
    }

    /// Removes what was written, as far as no turn has done so.
    async fn withdraw(&self, store: &Store, pk: &PartitionKey) -> Result<(), Failure> {
        let receipt = self.receipt.as_ref().map(|receipt| receipt.id.as_str());
        let mut batch = Batch::new();
        for id in std::iter::once(self.message.id.as_str()).chain(receipt) {
            batch.delete(id, None)?;
        }
        match store.container.batch(pk, &batch, Retry::Idempotent).await {
            Ok(_) => return Ok(()),
            Err(error) if !error.is_not_found() => return Err(error.into()),
            Err(_) => {}
        }
        let Some(receipt) = receipt else { return Ok(()) };
        match store.container.delete(pk, receipt, None, Retry::Idempotent).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_instance_that_has_not_ended_takes_events() {
        let seen = |status, name: Option<&str>, start_name: Option<&str>| Seen {
            status,
            name: name.map(str::to_owned),
            start_name: start_name.map(str::to_owned),
        };
        for (seen, refused) in [
            (seen(Status::Pending, None, None), Some(Raised::NotFound)),
            (seen(Status::Pending, None, Some("Hello")), None),
            (seen(Status::Running, Some("Hello"), None), None),
            (seen(Status::ContinuedAsNew, Some("Hello"), None), None),
            (seen(Status::Completed, Some("Hello"), None), Some(Raised::Ended)),
            (seen(Status::Failed, Some("Hello"), None), Some(Raised::Ended)),
        ] {
            assert_eq!(seen.refuses(), refused, "{seen:?}");
        }
    }
}
