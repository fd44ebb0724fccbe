//! What the gate needs beyond duroxide's `Provider`: to fetch *this* turn and *this* activity.

use async_trait::async_trait;
use duroxide::providers::{
    DispatcherCapabilityFilter, Provider, ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter,
};
use duroxide_cosmos::{ClaimedWork, CosmosProvider, Fetched, TurnItem};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of consistency tokens that a wakeup carries: those of some sixty physical ranges.
const CONSISTENCY_TOKEN_BYTES: usize = 2_000;

/// Fetches that go straight to their target.
#[async_trait]
pub trait Directed: fmt::Debug + Send + Sync {
    /// Claims the next turn of an instance.
    async fn fetch_turn(
        &self,
        instance: &str,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Fetched<TurnItem>, ProviderError>;

    /// Claims one activity.
    async fn fetch_work(
        &self,
        activity: &ScheduledActivityIdentifier,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Fetched<ClaimedWork>, ProviderError>;

    /// Claims an affinity session, or extends it when it is the owner's already.
    async fn hold_session(&self, session: &str, claim: &SessionFetchConfig) -> Result<Fetched<()>, ProviderError>;

    /// What this process has seen of the store, for the next reader.
    fn consistency_token(&self) -> Option<String>;

    /// Makes reads see at least what another process had seen.
    fn absorb_consistency_token(&self, token: &str);
}

#[async_trait]
impl Directed for CosmosProvider {
    async fn fetch_turn(
        &self,
        instance: &str,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Fetched<TurnItem>, ProviderError> {
        CosmosProvider::fetch_turn(self, instance, lock_timeout, filter).await
    }

    async fn fetch_work(
        &self,
        activity: &ScheduledActivityIdentifier,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Fetched<ClaimedWork>, ProviderError> {
        CosmosProvider::fetch_work(self, activity, lock_timeout, session, tags).await
    }

    async fn hold_session(&self, session: &str, claim: &SessionFetchConfig) -> Result<Fetched<()>, ProviderError> {
        CosmosProvider::claim_session(self, session, claim).await
    }

    fn consistency_token(&self) -> Option<String> {
        self.recent_consistency_token(CONSISTENCY_TOKEN_BYTES)
    }

    fn absorb_consistency_token(&self, token: &str) {
        CosmosProvider::absorb_consistency_token(self, token);
    }
}

/// Any provider, whose fetches cannot be directed: a wakeup then leads to one cycle of whatever comes first.
///
/// Each message and each work item is announced by a wakeup of its own, so there are enough wakeups for all. But such a
/// provider cannot say that a target is busy: a wakeup that meets only locked instances finds nothing. It needs a sweep.
pub struct Undirected(Arc<dyn Provider>);

impl Undirected {
    /// Fetches from this provider.
    pub fn new(provider: Arc<dyn Provider>) -> Undirected {
        Undirected(provider)
    }
}

impl fmt::Debug for Undirected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Undirected").field(&self.0.name()).finish()
    }
}

#[async_trait]
impl Directed for Undirected {
    async fn fetch_turn(
        &self,
        _instance: &str,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Fetched<TurnItem>, ProviderError> {
        let found = self
            .0
            .fetch_orchestration_item(lock_timeout, Duration::ZERO, filter)
            .await?;
        Ok(found.map_or(Fetched::Nothing, |(item, lock_token, attempt)| {
            Fetched::Ready(TurnItem {
                item,
                lock_token,
                attempt,
                turn: 0,
                more: false,
            })
        }))
    }

    async fn fetch_work(
        &self,
        _activity: &ScheduledActivityIdentifier,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Fetched<ClaimedWork>, ProviderError> {
        let found = self
            .0
            .fetch_work_item(lock_timeout, Duration::ZERO, session, tags)
            .await?;
        Ok(found.map_or(Fetched::Nothing, |(item, lock_token, attempt)| {
            Fetched::Ready(ClaimedWork {
                item,
                lock_token,
                attempt,
            })
        }))
    }

    async fn hold_session(&self, _session: &str, claim: &SessionFetchConfig) -> Result<Fetched<()>, ProviderError> {
        let owners = [claim.owner_id.as_str()];
        // The owner's activity is under way, so none of its affinity sessions is idle: any idle time will do.
        self.0
            .renew_session_lock(&owners, claim.lock_timeout, Duration::from_secs(900))
            .await?;
        Ok(Fetched::Ready(()))
    }

    fn consistency_token(&self) -> Option<String> {
        None
    }

    fn absorb_consistency_token(&self, _token: &str) {}
}
