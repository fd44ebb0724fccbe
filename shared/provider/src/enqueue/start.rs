//! Starting an instance for a client of our API: one batch with the message, the pending instance and, if the request has a key, its
//! receipt. Unlike duroxide's own start, it is refused when the id is in use.
//!
//! ```text
//!   [receipt of the key] message  instance ──> all created: Accepted
//!            │              │        └─ exists: it is only the fence ──> the same with a replaced fence; else Taken
//!            │              └─ exists: an own attempt whose answer was lost ──> Accepted
//!            └─ exists: an own attempt ──> Accepted; same request ──> Repeated; other request ──> KeyReused
//! ```
//!
//! The operations are checked in this order, so a repeated request is recognised whatever became of the instance: pending, ended, or
//! deleted. The key counts in the partition of the instance. A request with a key and without an id derives its id from the key
//! ([`instance_id_of_key`]), so there all requests with one key meet.

use super::keyed::{Earlier, earlier};
use super::{keep_late, sent};
use crate::error::Failure;
use crate::model::{Envelope, InstanceDoc, KeyReceiptDoc, KeyedRequest, MessageDoc, Receipt, Tags, Usage, digest};
use crate::store::{Fence, Store, check_fence, check_size};
use cosmos::{Batch, PartitionKey, Retry};
use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::WorkItem;

/// How often a start is tried while others change the document that fences its partition.
const ATTEMPTS: u32 = 20;
/// How many digits of a digest an id has that is derived from a key.
const ID_DIGITS: usize = 32;

/// What to start.
#[derive(Clone, Copy, Debug)]
pub struct StartRequest<'a> {
    /// The id of the new instance.
    pub instance: &'a str,
    /// The name of its orchestration.
    pub orchestration: &'a str,
    /// The version; `None`: the newest.
    pub version: Option<&'a str>,
    /// The input, as the orchestration takes it.
    pub input: &'a str,
    /// Its tags.
    pub tags: &'a Tags,
    /// The idempotency key.
    pub key: Option<&'a str>,
}

/// What became of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// The instance is pending.
    Accepted,
    /// The same request was accepted before, with the same key. The instance may have ended or been deleted since.
    Repeated,
    /// Another instance has the id.
    Taken,
    /// Another request was accepted with the same key.
    KeyReused,
}

/// The id of an instance that is started with a key and without an id.
pub fn instance_id_of_key(key: &str) -> String {
    format!("key-{}", &digest(key)[..ID_DIGITS])
}

/// What a start writes beside the instance, in the order in which the service checks it.
struct Documents {
    receipt: Option<KeyReceiptDoc>,
    message: MessageDoc,
}

/// Which operation of the batch was refused.
enum Refused {
    Receipt,
    Message,
    Instance,
}

/// Where a new instance has its input from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// The instance that it repeats, which its document names.
    pub instance: &'a str,
    /// The request, which its key is compared with: what was read of the other instance may have changed since.
    pub request: &'a str,
}

/// Starts an instance: one request, unless the id or the key is in use.
pub(crate) async fn start(store: &Store, request: &StartRequest<'_>) -> Result<Started, Failure> {
    start_from(store, request, None).await
}

/// The same for an instance that repeats another one.
pub(crate) async fn start_from(
    store: &Store,
    request: &StartRequest<'_>,
    origin: Option<Origin<'_>>,
) -> Result<Started, Failure> {
    let pk = &PartitionKey::new(request.instance)?;
    let (store, usage) = sent(store);
    let store = &store;
    let documents = Documents::of(store, request, origin, usage)?;
    check_size("the input", request.instance, &documents.message)?;
    let new = InstanceDoc::absent(request.instance, store.now());
    let mut fence: Option<Fence> = None;
    for _ in 0..ATTEMPTS {
        let doc = fence.as_ref().map_or(&new, |fence| &fence.doc);
        let mut pending = doc.accepted(request.orchestration, request.tags, store.now());
        pending.restarted_from = origin.map(|origin| origin.instance.to_owned());
        check_fence(&pending)?;
        let batch = documents.batch(&pending, fence.as_ref())?;
        let error = match store.container.batch(pk, &batch, Retry::Idempotent).await {
            Ok(_) => {
                keep_late(store, &documents.message);
                return Ok(Started::Accepted);
            }
            Err(error) => error,
        };
        let refused = documents.refused(&error);
        match (refused, &documents.receipt) {
            (None, _) => return Err(error.into()),
            (Some(Refused::Receipt), Some(receipt)) => match earlier(store, pk, receipt).await? {
                Some(Earlier::Own) => return Ok(Started::Accepted),
                Some(Earlier::Same) => return Ok(Started::Repeated),
                Some(Earlier::Other) => return Ok(Started::KeyReused),
                None => continue,
            },
            // Its id is unique to this call: an attempt whose answer was lost has written it.
            (Some(Refused::Message), _) => return Ok(Started::Accepted),
            (Some(_), _) => {}
        }
        fence = store.fence(pk).await?;
        match &fence {
            Some(fence) if fence.doc.is_taken() => return Ok(Started::Taken),
            // What is written now could be erased with the rest.
            Some(fence) if fence.doc.lock.deleting.is_some() => return Err(Failure::busy(pk)),
            _ => {}
        }
    }
    Err(Failure::busy(pk))
}

impl Documents {
    fn of(
        store: &Store,
        request: &StartRequest<'_>,
        origin: Option<Origin<'_>>,
        usage: Usage,
    ) -> Result<Documents, Failure> {
        let now = store.now();
        let item = WorkItem::StartOrchestration {
            instance: request.instance.to_owned(),
            orchestration: request.orchestration.to_owned(),
            input: request.input.to_owned(),
            version: request.version.map(str::to_owned),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: INITIAL_EXECUTION_ID,
        };
        let envelope = Envelope {
            id: store.ids.unique(),
            queued_at: now,
            arrival: store.sequence.next(now),
            due_at: now,
            receipt: receipt_of(request.key),
        };
        let message = MessageDoc::new(request.instance, envelope, &item)?.using(usage);
        let receipt = request.key.map(|key| -> Result<_, Failure> {
            let StartRequest {
                instance,
                orchestration,
                version,
                input,
                tags,
                ..
            } = *request;
            let text = match origin {
                Some(origin) => origin.request.to_owned(),
                None => serde_json::to_string(&(instance, orchestration, version, input, tags))?,
            };
            let of = KeyedRequest::Start;
            Ok(KeyReceiptDoc::new(instance, of, key, &text, &message.id))
        });
        Ok(Documents {
            receipt: receipt.transpose()?,
            message,
        })
    }

    fn batch(&self, pending: &InstanceDoc, seen: Option<&Fence>) -> Result<Batch, Failure> {
        let mut batch = Batch::new();
        if let Some(receipt) = &self.receipt {
            batch.create(&receipt.id, receipt)?;
        }
        batch.create(&self.message.id, &self.message)?;
        match seen {
            Some(fence) => batch.replace(InstanceDoc::ID, pending, Some(fence.etag.clone()))?,
            None => batch.create(InstanceDoc::ID, pending)?,
        };
        Ok(batch)
    }

    /// What was there already, or has changed; `None` when the batch failed for another reason.
    fn refused(&self, error: &cosmos::Error) -> Option<Refused> {
        let is_refused = error.is_conflict() || error.is_precondition_failed() || error.is_not_found();
        let index = error.batch_index().filter(|_| is_refused)?;
        Some(match index + usize::from(self.receipt.is_none()) {
            0 => Refused::Receipt,
            1 => Refused::Message,
            _ => Refused::Instance,
        })
    }
}

/// What the message leaves: without a key, what recognises a lost answer; with one, the receipt of the key does.
pub(super) fn receipt_of(key: Option<&str>) -> Receipt {
    match key {
        Some(_) => Receipt::None,
        None => Receipt::Brief,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_makes_the_same_id_every_time_and_another_key_another_one() {
        assert_eq!(instance_id_of_key("k"), instance_id_of_key("k"));
        assert_ne!(instance_id_of_key("k"), instance_id_of_key("l"));
        assert!(PartitionKey::new(&instance_id_of_key(&"k".repeat(5_000))).is_ok());
    }
}
