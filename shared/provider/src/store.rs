//! What every verb needs: the container, the time, ids, and how to ask for documents of mixed types.

use crate::clock::{Ids, Sequence};
use crate::config::Outbox;
use crate::error::Failure;
use crate::model::{Header, HistoryDoc, InstanceDoc, Kind, KvDoc, LockDoc, MessageDoc};
use cosmos::{BatchResult, Clock, Container, Etag, PartitionKey, Retry};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A document over this size is refused before anything is written. The service takes 2 MB per document and per batch;
/// the rest is for the lock document that shares the batch, and for what the service adds.
pub(crate) const MAX_DOCUMENT: usize = cosmos::MAX_ITEM_BYTES - 64 * 1024;

/// How often, and how long apart, to look for the newest version of a lock.
const SETTLING: u32 = 20;
const SETTLING_PAUSE: Duration = Duration::from_millis(25);

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
}

impl Store {
    pub(crate) fn now(&self) -> u64 {
        self.clock.now_ms()
    }

    /// When something that is begun now becomes everybody's business.
    pub(crate) fn repair_due(&self) -> u64 {
        self.now().saturating_add(millis(self.repair_after))
    }

    /// The end of a lock, by this machine's steady clock.
    pub(crate) fn expiry(&self, until_ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(until_ms.saturating_sub(self.now()))
    }

    /// The lock document with its ETag.
    pub(crate) async fn lock(&self, pk: &PartitionKey) -> Result<Option<Locked>, Failure> {
        let found = self.container.read::<LockDoc>(pk, LockDoc::ID).await?;
        Ok(found.map(|found| Locked {
            doc: found.doc,
            etag: found.etag,
        }))
    }

    /// The lock as it is now, not as a lagging replica shows it: writing it in the version that was seen proves that it
    /// is the newest, and deleting it in an impossible version proves that there is none.
    pub(crate) async fn settled_lock(&self, pk: &PartitionKey) -> Result<Option<Locked>, Failure> {
        for _ in 0..SETTLING {
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
            tokio::time::sleep(SETTLING_PAUSE).await;
        }
        Err(Failure::Busy(pk.as_str().to_owned()))
    }

    /// The lock that a batch has just written as its first operation.
    pub(crate) async fn written_lock(
        &self,
        pk: &PartitionKey,
        doc: LockDoc,
        results: &[BatchResult],
    ) -> Result<Locked, Failure> {
        match results.first().and_then(|result| result.etag.clone()) {
            Some(etag) => Ok(Locked { doc, etag }),
            None => self.lock(pk).await?.ok_or_else(|| Failure::LockLost {
                instance: pk.as_str().to_owned(),
            }),
        }
    }

    /// Writes the lock over the version that was seen (`None`: there was no lock). Answers `None` when somebody else
    /// was faster.
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
                // The conflict may be the echo of our own first attempt: the token in the document tells.
                let now = self.lock(pk).await?;
                Ok(now.filter(|now| now.doc.same_claim(&next)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A lock document in the version that was read or written.
#[derive(Clone, Debug)]
pub(crate) struct Locked {
    pub doc: LockDoc,
    pub etag: Etag,
}

/// A document of any type, decoded by what it says it is.
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
        #[derive(Deserialize)]
        struct Tagged {
            #[serde(rename = "_etag")]
            etag: String,
        }
        let text = raw.get();
        let header: Header = serde_json::from_str(text)?;
        Ok(match header.kind {
            Kind::Lock => {
                let Tagged { etag } = serde_json::from_str(text)?;
                Stored::Lock(Locked {
                    doc: serde_json::from_str(text)?,
                    etag: Etag::new(etag),
                })
            }
            Kind::Instance => Stored::Instance(serde_json::from_str(text)?),
            Kind::History => Stored::History(serde_json::from_str(text)?),
            Kind::Message => Stored::Message(serde_json::from_str(text)?),
            Kind::Kv => Stored::Kv(serde_json::from_str(text)?),
            Kind::Execution
            | Kind::Receipt
            | Kind::Work
            | Kind::Intent
            | Kind::Session
            | Kind::Staged
            | Kind::StagedHead
            | Kind::Deletion
            | Kind::DeadLetter
            | Kind::Maintenance
            | Kind::Unknown => Stored::Other,
        })
    }
}

/// Refuses a document that Cosmos could not hold, in words for the person who made it.
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

/// Milliseconds, without overflow.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
