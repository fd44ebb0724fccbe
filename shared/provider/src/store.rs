//! What every operation needs: the container, the clock, ids, the instance's fence, and decoding of mixed documents.

mod spent;

pub(crate) use spent::{Spending, Spent};

use crate::build::Build;
use crate::clock::{Ids, Sequence};
use crate::config::Outbox;
use crate::error::Failure;
use crate::model::{Header, HistoryDoc, InstanceDoc, Kind, KvDoc, LateUsage, Listed, MessageDoc, Usage, WorkDoc};
use cosmos::{BatchResult, Clock, Container, Etag, Found, PartitionKey, Query, Retry};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// A larger document is refused before anything is written. The service takes 2 MB per document and per batch; the rest
/// is for the instance document in the same batch, and for what the service adds.
pub(crate) const MAX_DOCUMENT: usize = cosmos::MAX_ITEM_BYTES - 64 * 1024;

/// The limit of the instance document after a turn, which is in the batch with everything else.
const MAX_FENCE: usize = 64 * 1024;

/// How often, and how long apart, [`Store::newest_fence`] tries.
const NEWEST_ATTEMPTS: u32 = 20;
const NEWEST_PAUSE: Duration = Duration::from_millis(25);

/// The instance document in the version that was read or written. Whoever replaces it in that version knows that nothing
/// else was committed since.
pub(crate) type Fence = Found<InstanceDoc>;

/// See the module. A copy is cheap: each step has its own, which counts the requests of the step ([`Store::step`]).
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub container: Container,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub sequence: Arc<Sequence>,
    pub repair_after: Duration,
    pub outbox: Outbox,
    /// How long dead letters are kept, in seconds.
    pub dead_letter_ttl: u32,
    /// How long receipts of messages from other instances are kept, in seconds: longer than those can be redriven.
    pub receipt_ttl: u32,
    /// How long messages of an instance that does not exist wait for its start.
    pub orphan_grace: Duration,
    /// How long a call that prunes may take.
    pub prune_time: Duration,
    /// How many bytes of history a turn may load.
    pub history_limit: u64,
    /// The build that serves turns here. Without one nothing is blocked.
    pub build: Arc<OnceLock<Build>>,
    /// How far ahead wakeups are sent for what this process writes. Without it none are sent.
    pub wakeup_reach: Arc<OnceLock<Duration>>,
    /// What this step has spent.
    pub spending: Arc<Spending>,
    /// What steps of this process have spent and nobody has counted.
    pub spent: Arc<Spent>,
}

impl Store {
    pub(crate) fn now(&self) -> u64 {
        self.clock.now_ms()
    }

    /// The same for one step, which begins now with what earlier ones have left.
    pub(crate) fn step(&self, before: Usage) -> Store {
        self.resumed(&Arc::new(Spending {
            began_ms: self.now(),
            before,
            ..Spending::default()
        }))
    }

    /// The same for a step that goes on.
    pub(crate) fn resumed(&self, spending: &Arc<Spending>) -> Store {
        Store {
            container: self.container.tallied(&spending.tally),
            spending: Arc::clone(spending),
            ..self.clone()
        }
    }

    /// Ends a step of this instance that has written nothing which counts it: another one may.
    pub(crate) fn spare_step(&self, instance: &str) {
        self.spent.spare(instance, self.spending.total());
    }

    /// Keeps what this step has spent beyond what was counted in the document of that name.
    pub(crate) fn keep_late(&self, instance: &str, name: &str, used: Usage, counted: Usage) {
        let late = LateUsage::of(name, used.less(counted));
        self.spent.keep(instance, [late]);
    }

    /// What it takes to bring a message that this process writes: the wakeup.
    pub(crate) fn announced(&self) -> Usage {
        Usage::of_wakeups(u64::from(self.wakeup_reach.get().is_some()))
    }

    /// The build that this process runs.
    pub(crate) fn build_name(&self) -> Result<&str, Failure> {
        let build = self.build.get();
        build
            .map(Build::name)
            .ok_or_else(|| Failure::Refused("this process has not named its build".to_owned()))
    }

    /// From when on any process may recover what begins now.
    pub(crate) fn repair_due(&self) -> u64 {
        self.now().saturating_add(millis(self.repair_after))
    }

    /// When a claim expires, by this machine's monotonic clock.
    pub(crate) fn expiry(&self, until_ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(until_ms.saturating_sub(self.now()))
    }

    /// One document. One that this build cannot decode is a failure that names it.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        pk: &PartitionKey,
        id: &str,
    ) -> Result<Option<Found<T>>, Failure> {
        match self.container.read::<Listed<T>>(pk, id).await? {
            None => Ok(None),
            Some(Found { doc, etag }) => match doc {
                Listed::Known(doc) => Ok(Some(Found { doc, etag })),
                Listed::Foreign(foreign) => Err(foreign.in_partition(pk)),
            },
        }
    }

    /// The instance document with its ETag, whether the instance exists or not.
    pub(crate) async fn fence(&self, pk: &PartitionKey) -> Result<Option<Fence>, Failure> {
        self.read::<InstanceDoc>(pk, InstanceDoc::ID).await
    }

    /// The fence in its newest version, even if the replica that answers lags: replacing the version that was read proves
    /// that it is the newest, and deleting an impossible version proves that there is none.
    pub(crate) async fn newest_fence(&self, pk: &PartitionKey) -> Result<Option<Fence>, Failure> {
        for _ in 0..NEWEST_ATTEMPTS {
            match self.fence(pk).await? {
                Some(seen) => {
                    let same = seen.doc.clone();
                    if let Some(fence) = self.swap_fence(pk, Some(&seen.etag), same).await? {
                        return Ok(Some(fence));
                    }
                }
                None => {
                    let impossible = Etag::new("\"no such version\"");
                    match self
                        .container
                        .delete(pk, InstanceDoc::ID, Some(&impossible), Retry::Idempotent)
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

    /// The fence that a batch wrote as its first operation.
    pub(crate) async fn written_fence(
        &self,
        pk: &PartitionKey,
        doc: InstanceDoc,
        results: &[BatchResult],
    ) -> Result<Fence, Failure> {
        match results.first().and_then(|result| result.etag.clone()) {
            Some(etag) => Ok(Fence { doc, etag }),
            None => self.fence(pk).await?.ok_or_else(|| Failure::lock_lost(pk)),
        }
    }

    /// Replaces the fence in the version that was seen (`None`: creates it). Returns `None` when another writer was faster.
    pub(crate) async fn swap_fence(
        &self,
        pk: &PartitionKey,
        seen: Option<&Etag>,
        next: InstanceDoc,
    ) -> Result<Option<Fence>, Failure> {
        let written = match seen {
            Some(etag) => {
                self.container
                    .replace(pk, InstanceDoc::ID, &next, Some(etag), Retry::Idempotent)
                    .await
            }
            None => self.container.create(pk, &next, Retry::Idempotent).await,
        };
        match written {
            Ok(etag) => Ok(Some(Fence { doc: next, etag })),
            Err(error) if error.is_conflict() || error.is_precondition_failed() || error.is_not_found() => {
                if !error.after_ambiguity() {
                    return Ok(None);
                }
                // The conflict may come from our own first attempt: then the document has our token.
                let now = self.fence(pk).await?;
                Ok(now.filter(|now| now.doc.lock.same_claim(&next.lock)))
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
    Instance(Box<Fence>),
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
            Kind::Instance => Stored::Instance(Box::new(Fence {
                doc: serde_json::from_str(text)?,
                etag: Etag::new(serde_json::from_str::<Tagged>(text)?.etag),
            })),
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

/// Refuses an instance document that would not leave room for the rest of a batch: its names are too long.
pub(crate) fn check_fence(instance: &InstanceDoc) -> Result<(), Failure> {
    let bytes = serde_json::to_string(instance)?.len();
    if bytes > MAX_FENCE {
        return Err(Failure::TooLarge {
            what: "the instance document (the names of the orchestration, its version and its parent)".to_owned(),
            instance: instance.pk.clone(),
            bytes,
            limit: MAX_FENCE,
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
