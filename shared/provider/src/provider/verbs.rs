//! `impl Provider`: it only delegates, and names the operation in each error.

use super::CosmosProvider;
use crate::due::TurnDecision;
use crate::error::Failure;
use crate::hints::WorkHint;
use crate::store::millis;
use crate::token::Token;
use crate::turn::{Commit, TurnRequest};
use crate::work::WorkRequest;
use async_trait::async_trait;
use cosmos::PartitionKey;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use std::collections::HashMap;
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
        let found = self.next_turn(TurnRequest { lock_timeout, filter }, poll_timeout).await;
        let found = found.map_err(|failure| failure.of("fetch_orchestration_item"))?;
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
            let turn = self.held_turn(lock_token).await?;
            self.store.release_turn(&turn, delay, ignore_attempt).await?;
            self.turns.forget(&turn.nonce);
            let (now, instance) = (self.store.now(), turn.pk.as_str().to_owned());
            self.turn_hints.wake(&instance);
            self.turn_hints
                .push_at(now.saturating_add(delay.map_or(0, millis)), now, instance);
            Ok(())
        };
        released
            .await
            .map_err(|failure: Failure| failure.of("abandon_orchestration_item"))
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        let renewed = async {
            let (token, pk) = Token::decode_turn(token)?;
            self.store.renew_turn(&pk, &token.nonce, &self.turns, extend_for).await
        };
        renewed
            .await
            .map_err(|failure: Failure| failure.of("renew_orchestration_item_lock"))
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(Vec::new());
        };
        self.store
            .latest_history(&pk)
            .await
            .map_err(|failure| failure.of("read"))
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>, ProviderError> {
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(Vec::new());
        };
        self.store
            .history_of(&pk, execution_id)
            .await
            .map_err(|failure| failure.of("read_with_execution"))
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        let appended = async {
            let turn = self.store.hold(&PartitionKey::new(instance)?).await?;
            let decision = TurnDecision {
                execution: execution_id,
                events: new_events,
                ..TurnDecision::default()
            };
            let done = Commit::of(&self.store, &self.turns, &turn)?.run(decision).await;
            if done.is_err() {
                self.store.release_turn(&turn, None, true).await?;
            }
            done.map(|_| ())
        };
        appended
            .await
            .map_err(|failure: Failure| failure.of("append_with_execution"))
    }

    async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
        let queued = self.store.enqueue_message(&item, delay).await;
        let (instance, due_at) = queued.map_err(|failure| failure.of("enqueue_for_orchestrator"))?;
        self.turn_hints.push_at(due_at, self.store.now(), instance);
        Ok(())
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        let queued = self
            .store
            .enqueue_work(&item)
            .await
            .map_err(|failure| failure.of("enqueue_for_worker"))?;
        self.work_hints.push(WorkHint::of(&queued));
        Ok(())
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        let request = WorkRequest {
            lock_timeout,
            session,
            tags: tag_filter,
        };
        let found = self
            .next_work(request, poll_timeout)
            .await
            .map_err(|failure| failure.of("fetch_work_item"))?;
        Ok(found.map(|work| (work.item, work.lock_token, work.attempt)))
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.complete_work(token, completion).done.await
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        let renewed = self.store.renew_work(token, extend_for, &self.works).await;
        renewed.map_err(|failure| failure.of("renew_work_item_lock"))
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let released = self.store.release_work(token, delay, ignore_attempt, &self.works).await;
        let work = released.map_err(|failure| failure.of("abandon_work_item"))?;
        self.work_hints
            .push_at(work.due_at, self.store.now(), WorkHint::of(&work));
        Ok(())
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        let renewed = self.store.renew_sessions(owner_ids, extend_for, idle_timeout).await;
        renewed.map_err(|failure| failure.of("renew_session_lock"))
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        let removed = self.store.remove_orphaned_sessions().await;
        removed.map_err(|failure| failure.of("cleanup_orphaned_sessions"))
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(None);
        };
        self.store
            .custom_status(&pk, last_seen_version)
            .await
            .map_err(|failure| failure.of("get_custom_status"))
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(None);
        };
        self.store
            .key_value(&pk, key)
            .await
            .map_err(|failure| failure.of("get_kv_value"))
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(HashMap::new());
        };
        self.store
            .key_values(&pk)
            .await
            .map_err(|failure| failure.of("get_kv_all_values"))
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(None);
        };
        self.store
            .stats(&pk)
            .await
            .map_err(|failure| failure.of("get_instance_stats"))
    }
}
