//! The public face. This file connects; `directed` has the calls of functions, `verbs` is `impl Provider`, `admin` is
//! `impl ProviderAdmin`, `maintenance` has the passes of the scheduled function, `summary` shows instances, `pause` pauses
//! them, `bulk` restarts them and has the batches. All of them only delegate.

mod admin;
mod bulk;
mod directed;
mod maintenance;
mod pause;
mod rewind;
mod summary;
mod verbs;

use crate::config::CosmosConfig;
use crate::error::{ConnectError, Failure};
use crate::model::LateUsage;
use crate::polling::{Candidates, Contexts, WorkCandidate};
use crate::schema::container_spec;
use crate::store::Store;
use crate::turn::ClaimedTurns;
use crate::work::ClaimedWorks;
use async_trait::async_trait;
use cosmos::{ClientConfig, CosmosClient, Credential, CredentialSource, PartitionKey};
use duroxide::providers::ProviderError;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How much longer than a dead letter a receipt is kept: an intent is tried for some hours before it becomes a dead letter,
/// and for as long as an outage lasts.
const OUTAGE: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A duroxide provider on one Cosmos DB container. See the crate's documentation.
#[derive(Debug)]
pub struct CosmosProvider {
    store: Arc<Store>,
    turns: Arc<ClaimedTurns>,
    works: Arc<ClaimedWorks>,
    turn_candidates: Arc<Candidates<String>>,
    work_candidates: Arc<Candidates<WorkCandidate>>,
    contexts: Contexts,
}

/// The configured source of keys or tokens, shared with the client.
#[derive(Debug)]
struct SharedSource(Arc<dyn CredentialSource>);

#[async_trait]
impl CredentialSource for SharedSource {
    async fn credential(&self) -> Result<Credential, cosmos::Error> {
        self.0.credential().await
    }

    async fn refresh(&self, refused: &Credential) -> Result<Credential, cosmos::Error> {
        self.0.refresh(refused).await
    }

    fn warm(&self) {
        self.0.warm();
    }
}

impl CosmosProvider {
    /// A provider for the configured container. It starts no task, and sends requests only when the configuration asks
    /// for the container to be created.
    ///
    /// # Errors
    /// When the endpoint or key is malformed; when creating, also when the service refuses.
    pub async fn connect(config: CosmosConfig) -> Result<CosmosProvider, ConnectError> {
        let mut client = ClientConfig::new(&config.endpoint, SharedSource(Arc::clone(&config.credential)))?
            .clock(config.signing_clock)
            .operation_timeout(config.operation_timeout)
            .request_timeout(config.request_timeout);
        if let Some(observer) = config.observer {
            client = client.observer(observer);
        }
        let client = CosmosClient::new(client);
        if let Some(throughput) = config.throughput {
            client.ensure_database(&config.database, None).await?;
            client
                .ensure_container(&config.database, &container_spec(&config.container, throughput))
                .await?;
        }
        Ok(CosmosProvider {
            store: Arc::new(Store {
                container: client.container(&config.database, &config.container),
                clock: config.clock,
                ids: config.ids,
                sequence: Default::default(),
                repair_after: config.repair_after,
                outbox: config.outbox,
                dead_letter_ttl: ttl_of(config.dead_letter_ttl),
                receipt_ttl: ttl_of(config.dead_letter_ttl.saturating_add(OUTAGE)),
                orphan_grace: config.orphan_grace,
                prune_time: config.prune_time,
                history_limit: config.history_limit,
                build: Arc::new(OnceLock::new()),
                wakeup_reach: Arc::default(),
                spending: Default::default(),
                spent: Arc::default(),
            }),
            turns: Arc::new(ClaimedTurns::new(config.history_cache)),
            works: Arc::default(),
            turn_candidates: Arc::new(Candidates::new(config.sweep_interval)),
            work_candidates: Arc::new(Candidates::new(config.sweep_interval)),
            contexts: Contexts::default(),
        })
    }

    /// Prepares for the first request, without sending any. It blocks for some milliseconds, which the first request
    /// would otherwise take.
    pub fn warm(&self) {
        if let Err(error) = self.store.container.warm() {
            // The first request fails with the same error, and reports it.
            tracing::debug!(%error, "the HTTP client is not ready yet");
        }
    }

    /// What this process has seen of the store, in at most `most` bytes: the newest part, which includes what was just
    /// written. The next reader absorbs it ([`Self::absorb_consistency_token`]).
    pub fn recent_consistency_token(&self, most: usize) -> Option<String> {
        self.store.container.recent_consistency_token(most)
    }

    /// Declares that the host sends wakeups for what this process writes, so far ahead. They are counted from then on.
    pub fn wakes_within(&self, reach: Duration) {
        if self.store.wakeup_reach.set(reach).is_err() {
            tracing::debug!("the reach of wakeups is known already");
        }
    }

    /// What this process has spent on an instance and no commit has counted yet, as far as a wakeup for it carries that.
    pub fn late_usage(&self, instance: &str) -> Vec<LateUsage> {
        self.store.spent.carried(instance)
    }

    /// Keeps what a wakeup has carried. The next commit of the instance counts it, unless another one has.
    pub fn absorb_late_usage(&self, instance: &str, late: &[LateUsage]) {
        self.store.spent.keep(instance, late.iter().cloned());
    }

    /// Makes reads at least as new as the writes that this token stands for.
    pub fn absorb_consistency_token(&self, token: &str) {
        self.store.container.absorb_consistency_token(token);
    }
}

/// A time to live as the service takes it, in seconds.
fn ttl_of(time: Duration) -> u32 {
    u32::try_from(time.as_secs())
        .unwrap_or(u32::MAX)
        .clamp(1, i32::MAX as u32)
}

/// The partition of an instance. An id that cannot be a partition key is that of no instance.
fn pk_of(instance: &str) -> Result<PartitionKey, Failure> {
    PartitionKey::new(instance).map_err(|_| Failure::NoInstance(instance.to_owned()))
}

/// Names the operation in an error.
trait Operation<T> {
    fn of(self, operation: &'static str) -> Result<T, ProviderError>;
}

impl<T> Operation<T> for Result<T, Failure> {
    fn of(self, operation: &'static str) -> Result<T, ProviderError> {
        self.map_err(|failure| failure.of(operation))
    }
}
