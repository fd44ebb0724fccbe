//! What every operation needs: the container, the clock, ids, the instance's lock, and decoding of mixed documents.

use crate::clock::{Ids, Sequence};
use crate::config::Outbox;
use crate::error::Failure;
use crate::model::{Header, HistoryDoc, InstanceDoc, Kind, KvDoc, LockDoc, MessageDoc, WorkDoc};
use cosmos::{BatchResult, Clock, Container, Etag, Found, PartitionKey, Query, Retry};
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A larger document is refused before anything is written. The service takes 2 MB per document and per batch; the rest
/// is for the lock document in the same batch, and for what the service adds.
pub(crate) const MAX_DOCUMENT: usize = cosmos::MAX_ITEM_BYTES - 64 * 1024;

/// How often, and how long apart, [`Store::newest_lock`] tries.
const NEWEST_ATTEMPTS: u32 = 20;
const NEWEST_PAUSE: Duration = Duration::from_millis(25);

/// A lock document in the version that was read or written.
pub(crate) type Locked = Found<LockDoc>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Store {
    pub container: Container,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub sequence: Sequence,
    pub repair_after: Duration,
    pub outbox: Outbox,
    /// How long dead letters are kept, in seconds.
    pub dead_letter_ttl: u32,
    /// How long receipts of messages from other instances are kept, in seconds: longer than those can be redriven.
    pub receipt_ttl: u32,
    /// How long messages of an instance that does not exist wait for its start.
    pub orphan_grace: Duration,
    /// How many bytes of history a turn may load.
    pub history_limit: u64,
}

impl Store {
    pub(crate) fn now(&self) -> u64 {
        self.clock.now_ms()
    }

    /// From when on any process may recover what begins now.
    pub(crate) fn repair_due(&self) -> u64 {
        self.now().saturating_add(millis(self.repair_after))
    }

    /// When a claim expires, by this machine's monotonic clock.
    pub(crate) fn expiry(&self, until_ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(until_ms.saturating_sub(self.now()))
    }

    /// The lock document with its ETag.
    pub(crate) async fn lock(&self, pk: &PartitionKey) -> Result<Option<Locked>, Failure> {
        Ok(self.container.read::<LockDoc>(pk, LockDoc::ID).await?)
    }

    /// The lock in its newest version, even if the replica that answers lags: replacing the version that was read proves
    /// that it is the newest, and deleting an impossible version proves that there is none.
    pub(crate) async fn newest_lock(&self, pk: &PartitionKey) -> Result<Option<Locked>, Failure> {
        for _ in 0..NEWEST_ATTEMPTS {
            match self.lock(pk).await? {
                Some(seen) => {
                    let same = seen.doc.clone();
                    if let Some(lock) = self.swap_lock(pk, Some(&seen.etag), same).await? {
                        return Ok(Some(lock));
                    }
                }
                None => {
                    let impossible = Etag::new("\"no such version\"");
                    match self
                        .container
                        .delete(pk, LockDoc::ID, Some(&impossible), Retry::Idempotent)
                        .await
                    {
                        Err(error) if error.is_not_found() => return Ok(None),
                        Err(error) if error.is_precondition_failed() => {}
                        Err(error) => return Err(error.into()),
                        Ok(()) => return Ok(None),
                    }
                }
            }
            tokio::time::sleep(NEWEST_PAUSE).await;
        }
        Err(Failure::busy(pk))
    }

    /// The lock that a batch wrote as its first operation.
    pub(crate) async fn written_lock(
        &self,
        pk: &PartitionKey,
        doc: LockDoc,
        results: &[BatchResult],
    ) -> Result<Locked, Failure> {
        match results.first().and_then(|result| result.etag.clone()) {
            Some(etag) => Ok(Locked { doc, etag }),
            None => self.lock(pk).await?.ok_or_else(|| Failure::lock_lost(pk)),
        }
    }

    /// Replaces the lock in the version that was seen (`None`: creates it). Returns `None` when another writer was faster.
    pub(crate) async fn swap_lock(
        &self,
        pk: &PartitionKey,
        seen: Option<&Etag>,
        next: LockDoc,
    ) -> Result<Option<Locked>, Failure> {
        let written = match seen {
            Some(etag) => {
                self.container
                    .replace(pk, LockDoc::ID, &next, Some(etag), Retry::Idempotent)
                    .await
            }
            None => self.container.create(pk, &next, Retry::Idempotent).await,
        };
        match written {
            Ok(etag) => Ok(Some(Locked { doc: next, etag })),
            Err(error) if error.is_conflict() || error.is_precondition_failed() || error.is_not_found() => {
                if !error.after_ambiguity() {
                    return Ok(None);
                }
                // The conflict may come from our own first attempt: then the document has our token.
                let now = self.lock(pk).await?;
                Ok(now.filter(|now| now.doc.same_claim(&next)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The sum of an aggregate over all physical ranges.
    pub(crate) async fn sum(&self, query: Query) -> Result<usize, Failure> {
        let parts = self.container.scan::<Option<f64>>(&query).await?;
        Ok(parts.into_iter().flatten().sum::<f64>() as usize)
    }
}

/// A document of any type, decoded by its `type`.
#[derive(Debug)]
pub(crate) enum Stored {
    Lock(Locked),
    Instance(InstanceDoc),
    History(HistoryDoc),
    Message(MessageDoc),
    Kv(KvDoc),
    Other,
}

impl Stored {
    pub(crate) fn decode(raw: &RawValue) -> Result<Stored, serde_json::Error> {
        #[derive(serde::Deserialize)]
        struct Tagged {
            #[serde(rename = "_etag")]
            etag: String,
        }
        let text = raw.get();
        let header: Header = serde_json::from_str(text)?;
        Ok(match header.kind {
            Kind::Lock => Stored::Lock(Locked {
                doc: serde_json::from_str(text)?,
                etag: Etag::new(serde_json::from_str::<Tagged>(text)?.etag),
            }),
            Kind::Instance => Stored::Instance(serde_json::from_str(text)?),
            Kind::History => Stored::History(serde_json::from_str(text)?),
            Kind::Message => Stored::Message(serde_json::from_str(text)?),
            Kind::Kv => Stored::Kv(serde_json::from_str(text)?),
            _ => Stored::Other,
        })
    }
}

/// Refuses a document that Cosmos DB cannot store. `what` names it for its author.
pub(crate) fn check_size(what: &str, instance: &str, doc: &impl Serialize) -> Result<(), Failure> {
    let bytes = serde_json::to_string(doc)?.len();
    if bytes > MAX_DOCUMENT {
        return Err(Failure::TooLarge {
            what: what.to_owned(),
            instance: instance.to_owned(),
            bytes,
            limit: MAX_DOCUMENT,
        });
    }
    Ok(())
}

/// Refuses an activity whose affinity session cannot be a partition key, while the turn can still fail with it: no
/// worker could claim the session later.
pub(crate) fn check_session(work: &WorkDoc) -> Result<(), Failure> {
    if let Some(session) = &work.session {
        PartitionKey::new(session).map_err(|error| {
            Failure::Refused(format!(
                "the session of activity {} of instance '{}' cannot be used: {error}",
                work.id, work.pk
            ))
        })?;
    }
    Ok(())
}

/// Milliseconds, without overflow.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
