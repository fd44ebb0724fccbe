//! The public face: connecting, and the directed calls of functions. `impl Provider` is in `verbs`.

mod verbs;

use crate::config::CosmosConfig;
use crate::due::{Due, Target, TurnDecision};
use crate::error::{ConnectError, Failure};
use crate::hints::{Hints, WorkHint};
use crate::model::WorkDoc;
use crate::repair::Repaired;
use crate::schema::container_spec;
use crate::session::SessionClaim;
use crate::store::Store;
use crate::token::Token;
use crate::turn::{Commit, Committed, HeldTurn, HeldTurns, TurnRequest};
use crate::work::{HeldWorks, WorkRequest};
use async_trait::async_trait;
use cosmos::{ClientConfig, CosmosClient, Key, KeySource, PartitionKey};
use duroxide::providers::{
    DispatcherCapabilityFilter, OrchestrationItem, ProviderError, ScheduledActivityIdentifier, SessionFetchConfig,
    TagFilter, WorkItem,
};
use std::fmt;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A duroxide provider on one Cosmos DB container. See the crate's documentation.
#[derive(Debug)]
pub struct CosmosProvider {
    pub(crate) store: Store,
    pub(crate) turns: HeldTurns,
    pub(crate) works: HeldWorks,
    pub(crate) turn_hints: Hints<String>,
    pub(crate) work_hints: Hints<WorkHint>,
    pub(crate) sweep_interval: Duration,
    pub(crate) slots: RangeInclusive<u8>,
}

/// What a directed fetch found.
#[derive(Clone, Debug)]
pub enum Fetched<T> {
    /// Claimed: the caller holds the lock.
    Ready(T),
    /// Nothing is due, or not for a caller of these tags. The wakeup was stale and may be forgotten, provided that the reader
    /// knows the writer's consistency token (see [`CosmosProvider::absorb_consistency_token`]); else a lagging replica may have answered, and
    /// the sweep finds later what it did not show.
    Nothing,
    /// Somebody holds the lock, or was faster. The wakeup must be tried again: the holder may have fetched before the
    /// message arrived.
    Busy {
        /// Until when the lock lasts, unless it is released earlier (Unix ms).
        until_ms: u64,
    },
    /// Something is due, and this build cannot run it: another must, so the wakeup must not be forgotten.
    Foreign {
        /// What is in the way, and what to do.
        why: String,
    },
}

/// A claimed turn.
#[derive(Clone, Debug)]
pub struct TurnItem {
    /// What duroxide runs.
    pub item: OrchestrationItem,
    /// The token for ack, abandon and renew.
    pub lock_token: String,
    /// How often the most tried message of the turn has been fetched, this time included.
    pub attempt: u32,
    /// Which turn of its execution it is, counting from 1 those that left something in the history.
    pub turn: u64,
    /// More messages are due than one turn takes: after this turn there is another, which nobody else announces.
    pub more: bool,
}

/// A claimed work item.
#[derive(Clone, Debug)]
pub struct ClaimedWork {
    /// What duroxide runs.
    pub item: WorkItem,
    /// The token for ack, abandon and renew.
    pub lock_token: String,
    /// How often the item has been fetched, this time included.
    pub attempt: u32,
}

/// A commit that is about to be written.
pub struct PendingCommit<'a> {
    /// Who has something to do once it is written. It is known before, because the outcome may never be: wake them unless
    /// it is certain that nothing was written.
    pub due: Vec<Due>,
    /// Writes it; nothing happens before this is awaited.
    pub done: Pin<Box<dyn Future<Output = Result<(), ProviderError>> + Send + 'a>>,
}

impl fmt::Debug for PendingCommit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCommit")
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}

/// The configured key source, shared with the client.
#[derive(Debug)]
struct SharedKey(Arc<dyn KeySource>);

#[async_trait]
impl KeySource for SharedKey {
    async fn key(&self) -> Result<Key, cosmos::Error> {
        self.0.key().await
    }

    async fn refresh(&self) -> Result<Key, cosmos::Error> {
        self.0.refresh().await
    }
}

impl CosmosProvider {
    /// A provider for the configured container. It starts no task. Requests are sent only when the configuration asks
    /// for the container to be created.
    ///
    /// # Errors
    /// When the endpoint or key is malformed; when creating, also when the service refuses.
    pub async fn connect(config: CosmosConfig) -> Result<CosmosProvider, ConnectError> {
        let mut client = ClientConfig::new(&config.endpoint, SharedKey(Arc::clone(&config.key)))?
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
        let store = Store {
            container: client.container(&config.database, &config.container),
            clock: config.clock,
            ids: config.ids,
            sequence: Default::default(),
            repair_after: config.repair_after,
            outbox: config.outbox,
            dead_letter_ttl: u32::try_from(config.dead_letter_ttl.as_secs())
                .unwrap_or(u32::MAX)
                .clamp(1, i32::MAX as u32),
        };
        Ok(CosmosProvider {
            store,
            turns: HeldTurns::default(),
            works: HeldWorks::default(),
            turn_hints: Hints::default(),
            work_hints: Hints::default(),
            sweep_interval: config.sweep_interval,
            slots: config.slots,
        })
    }

    /// Gets ready for the first request, without sending any. It blocks for some milliseconds; who does not call it
    /// waits for that with the first request.
    pub fn warm(&self) {
        if let Err(error) = self.store.container.warm() {
            // The first request meets the same trouble, and has somebody to tell.
            tracing::debug!(%error, "the HTTP client is not ready yet");
        }
    }

    /// Fetches the turn of this instance: straight to one logical partition, no query across partitions.
    ///
    /// # Errors
    /// When the store cannot be reached, or the id cannot be an instance's.
    pub async fn fetch_turn(
        &self,
        instance: &str,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Fetched<TurnItem>, ProviderError> {
        let request = TurnRequest { lock_timeout, filter };
        let fetched = async {
            let pk = PartitionKey::new(instance)?;
            self.store.fetch_turn(&pk, request, &self.turns).await
        };
        fetched.await.map_err(|failure: Failure| failure.of("fetch_turn"))
    }

    /// Fetches this work item, named by instance, execution and activity.
    ///
    /// # Errors
    /// When the store cannot be reached, or the item cannot be decoded.
    pub async fn fetch_work(
        &self,
        activity: &ScheduledActivityIdentifier,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Fetched<ClaimedWork>, ProviderError> {
        let request = WorkRequest {
            lock_timeout,
            session,
            tags,
        };
        let fetched = async {
            let pk = PartitionKey::new(&activity.instance)?;
            self.store
                .fetch_work(&pk, &WorkDoc::id_of(activity), request, &self.works)
                .await
        };
        fetched.await.map_err(|failure: Failure| failure.of("fetch_work"))
    }

    /// Repairs some of what crashes left behind, at most ten pages of it: delivers owed messages, rolls commits forward
    /// or sweeps what they staged, finishes deletions. Bounded, idempotent, and safe to run twice at once.
    ///
    /// # Errors
    /// When the sweep itself fails; what fails to be repaired is counted instead.
    pub async fn repair(&self, most_per_range: u32) -> Result<Repaired, ProviderError> {
        self.store
            .repair_page(most_per_range)
            .await
            .map_err(|failure| failure.of("repair"))
    }

    /// Claims an affinity session for an owner, or extends it when it is the owner's already: straight to its partition.
    ///
    /// # Errors
    /// When the store cannot be reached, or the id cannot name an affinity session.
    pub async fn hold_session(&self, session: &str, claim: &SessionFetchConfig) -> Result<Fetched<()>, ProviderError> {
        match self.store.claim_session(session, claim).await {
            Ok(SessionClaim::Owned) => Ok(Fetched::Ready(())),
            Ok(SessionClaim::Closed { until_ms }) => Ok(Fetched::Busy { until_ms }),
            Err(failure) => Err(failure.of("hold_session")),
        }
    }

    /// What this process has seen of the store: the next reader absorbs it ([`Self::absorb_consistency_token`]).
    pub fn consistency_token(&self) -> Option<String> {
        self.store.container.consistency_token()
    }

    /// The same in at most `most` bytes: the newest part, which has what was just written.
    pub fn recent_consistency_token(&self, most: usize) -> Option<String> {
        self.store.container.recent_consistency_token(most)
    }

    /// Makes reads at least as new as the writes that this token stands for.
    pub fn absorb_consistency_token(&self, token: &str) {
        self.store.container.absorb_consistency_token(token);
    }

    async fn held_turn(&self, token: &str) -> Result<Arc<HeldTurn>, Failure> {
        let (token, pk) = Token::decode_turn(token)?;
        if self.turns.is_lost(&token.nonce) {
            return Err(Failure::LockLost {
                instance: token.instance,
            });
        }
        match self.turns.get(&token.nonce) {
            Some(turn) => Ok(turn),
            None => Ok(Arc::new(self.store.recall(&pk, &token.nonce).await?)),
        }
    }

    /// Commits a turn. Whoever becomes due by it is known before it is written.
    pub fn commit_turn<'a>(&'a self, lock_token: &'a str, decision: TurnDecision) -> PendingCommit<'a> {
        let claimed = Token::decode_turn(lock_token).ok();
        let claimed = claimed.and_then(|(token, _)| self.turns.get(&token.nonce));
        let due = decision.due(claimed.as_ref().and_then(|turn| turn.orchestration.as_ref()));
        PendingCommit {
            due: due.clone(),
            done: Box::pin(async move {
                let done = self.commit(lock_token, decision, due).await;
                done.map_err(|failure| failure.of("ack_orchestration_item"))
            }),
        }
    }

    /// Completes an activity: removes its work item, and queues the completion for its instance. Whoever becomes due by
    /// it is known before it is written.
    pub fn complete_work<'a>(&'a self, lock_token: &'a str, completion: Option<WorkItem>) -> PendingCommit<'a> {
        let due: Vec<Due> = completion
            .iter()
            .filter_map(|completion| Due::message(completion, None))
            .collect();
        PendingCommit {
            due: due.clone(),
            done: Box::pin(async move {
                let done = self.store.complete_work(lock_token, completion, &self.works).await;
                done.map_err(|failure| failure.of("ack_work_item"))?;
                self.add_turn_candidates(due);
                Ok(())
            }),
        }
    }

    fn add_turn_candidates(&self, due: Vec<Due>) {
        let now = self.store.now();
        for Due { target, at_ms } in due {
            if let Target::Turn { instance } = target {
                self.turn_hints.push_at(at_ms.unwrap_or(now), now, instance);
            }
        }
    }

    async fn commit(&self, token: &str, decision: TurnDecision, due: Vec<Due>) -> Result<(), Failure> {
        let turn = self.held_turn(token).await?;
        let done = Commit::of(&self.store, &self.turns, &turn)?.run(decision).await;
        // A refused plan (too large, a duplicate event) keeps the hold: the runtime then commits the failure with it.
        let instance = turn.pk.as_str().to_owned();
        match &done {
            Ok(_) => self.turns.forget(&turn.nonce),
            Err(Failure::LockLost { .. }) => self.turns.lose(&turn.nonce),
            Err(_) => {}
        }
        self.turn_hints.wake(&instance);
        let Committed { plan, more, mut etags } = done?;
        self.store.deliver(&turn.pk, &plan.intents).await;
        for work in plan.work {
            self.work_hints.push(match etags.remove(&work.id) {
                Some(etag) => WorkHint::written(work, etag),
                None => WorkHint::of(&work),
            });
        }
        self.add_turn_candidates(due);
        if more {
            self.turn_hints.push(instance);
        }
        Ok(())
    }
}
