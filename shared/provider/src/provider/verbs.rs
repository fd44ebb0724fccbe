//! `impl Provider`: it only delegates, and names the operation in each error.

use super::{CosmosProvider, Operation as _, pk_of};
use crate::due::TurnDecision;
use crate::enqueue;
use crate::maintain;
use crate::model::{AttemptEnd, SessionDoc};
use crate::polling::{self, Turns, WorkCandidate, Works};
use crate::read;
use crate::session;
use crate::store::millis;
use crate::token::{TurnToken, WorkToken};
use crate::turn::{self, Commit, TurnRequest};
use crate::work::{self, WorkRequest};
use async_trait::async_trait;
use cosmos::PartitionKey;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

#[async_trait]
impl Provider for CosmosProvider {
    fn name(&self) -> &str {
        "duroxide-cosmos"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        if filter.is_some_and(|filter| filter.supported_duroxide_versions.is_empty()) {
            return Ok(None);
        }
        let source = Turns {
            store: &self.store,
            claimed: &self.turns,
            candidates: &self.turn_candidates,
            request: TurnRequest {
                lock_timeout,
                filter,
                execution: None,
                claims: true,
            },
        };
        let found = polling::poll(&source, poll_timeout).await;
        let found = found.of("fetch_orchestration_item")?;
        Ok(found.map(|turn| (turn.item, turn.lock_token, turn.attempt)))
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        let decision = TurnDecision {
            execution: execution_id,
            events: history_delta,
            work: worker_items,
            messages: orchestrator_items,
            metadata,
            cancelled: cancelled_activities,
            given_up: None,
        };
        self.commit_turn(lock_token, decision).done.await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let released = async {
            let turn = self.claimed_turn(&TurnToken::decode(lock_token)?).await?;
            let store = self.store.resumed(&turn.spending);
            turn::release(&store, &turn, delay, ignore_attempt).await?;
            store.spare_step(turn.pk.as_str());
            self.turns.forget(&turn.nonce);
            let (now, instance) = (self.store.now(), turn.pk.as_str().to_owned());
            let due_at = now.saturating_add(delay.map_or(0, millis));
            // Given back first: what waits for the end of this turn is then left to others as well.
            self.turn_candidates
                .give_back(instance.clone(), due_at, now, ignore_attempt);
            self.turn_candidates.wake(&instance);
            Ok(())
        };
        released.await.of("abandon_orchestration_item")
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        let renewed = async {
            let TurnToken { nonce, pk } = TurnToken::decode(token)?;
            let spending = self.turns.get(&nonce).map(|turn| Arc::clone(&turn.spending));
            let store = self.store.resumed(&spending.unwrap_or_default());
            turn::renew(&store, &pk, &nonce, &self.turns, extend_for).await
        };
        renewed.await.of("renew_orchestration_item_lock")
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        if let Some(history) = self.contexts.answer(instance, &self.turns.known) {
            return Ok(history);
        }
        let Ok(pk) = pk_of(instance) else { return Ok(Vec::new()) };
        read::latest_history(&self.store, &pk).await.of("read")
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>, ProviderError> {
        let Ok(pk) = pk_of(instance) else { return Ok(Vec::new()) };
        read::history_of(&self.store, &pk, execution_id)
            .await
            .of("read_with_execution")
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        let appended = async {
            let store = self.store.step(self.store.spent.take_spare(instance));
            let turn = turn::claim_idle(&store, &PartitionKey::new(instance)?).await?;
            let decision = TurnDecision {
                execution: execution_id,
                events: new_events,
                ..TurnDecision::default()
            };
            let done = Commit::of(&store, &self.turns, &turn)?.run(decision).await;
            match &done {
                Ok(committed) => turn::settle(&store, committed),
                Err(_) => turn::release(&store, &turn, None, true).await?,
            }
            done.map(|_| ())
        };
        appended.await.of("append_with_execution")
    }

    async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
        let queued = enqueue::message(&self.store, &item, delay).await;
        let (instance, due_at) = queued.of("enqueue_for_orchestrator")?;
        self.turn_candidates.push_at(due_at, self.store.now(), instance);
        Ok(())
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        let queued = enqueue::work(&self.store, &item).await.of("enqueue_for_worker")?;
        self.work_candidates.push(WorkCandidate::of(&queued));
        Ok(())
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        if matches!(tag_filter, TagFilter::None) {
            return Ok(None);
        }
        if let Some(session) = session {
            self.works.owners.is_here(&session.owner_id);
        }
        let source = Works {
            store: &self.store,
            claimed: &self.works,
            candidates: &self.work_candidates,
            request: WorkRequest {
                lock_timeout,
                session,
                tags: tag_filter,
            },
        };
        let found = polling::poll(&source, poll_timeout).await.of("fetch_work_item")?;
        if let Some(work) = &found {
            self.contexts.fetched(&work.item);
        }
        Ok(found.map(|work| (work.item, work.lock_token, work.attempt)))
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.complete_work(token, completion).done.await
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        let renewed = async { work::renew(&self.store, &WorkToken::decode(token)?, extend_for, &self.works).await };
        renewed.await.of("renew_work_item_lock")
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let end = (!ignore_attempt).then_some(AttemptEnd::Released);
        self.release_claimed(token, delay, end).await
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        let note = |session: &SessionDoc| {
            let owners = &self.works.owners;
            owners.renewed(&session.pk, &session.owner, session.until, self.store.now());
        };
        let renewed = session::renew_all(&self.store, owner_ids, extend_for, idle_timeout, note).await;
        renewed.of("renew_session_lock")
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        let removed = maintain::remove_orphaned_sessions(&self.store).await;
        removed.of("cleanup_orphaned_sessions")
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let Ok(pk) = pk_of(instance) else { return Ok(None) };
        read::custom_status(&self.store, &pk, last_seen_version)
            .await
            .of("get_custom_status")
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        let Ok(pk) = pk_of(instance) else { return Ok(None) };
        read::key_value(&self.store, &pk, key).await.of("get_kv_value")
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        let Ok(pk) = pk_of(instance) else {
            return Ok(HashMap::new());
        };
        read::key_values(&self.store, &pk).await.of("get_kv_all_values")
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        let Ok(pk) = pk_of(instance) else { return Ok(None) };
        read::stats(&self.store, &pk).await.of("get_instance_stats")
    }
}
