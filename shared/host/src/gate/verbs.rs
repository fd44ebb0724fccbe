//! `impl Provider` for the gate: it only delegates.

use super::Gate;
use crate::delegate_provider;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, EventKind};
use duroxide_cosmos::TurnDecision;
use std::time::Duration;

delegate_provider! {
    impl Provider for Gate {
        async fn fetch_orchestration_item(
            &self,
            lock_timeout: Duration,
            _poll_timeout: Duration,
            filter: Option<&DispatcherCapabilityFilter>,
        ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
            Ok(Some(self.next_turn(lock_timeout, filter).await))
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
            self.commit_turn(lock_token, decision).await
        }

        async fn abandon_orchestration_item(
            &self,
            lock_token: &str,
            delay: Option<Duration>,
            ignore_attempt: bool,
        ) -> Result<(), ProviderError> {
            self.abandon_turn(lock_token, delay, ignore_attempt).await
        }

        async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
            self.renew_turn(token, extend_for).await
        }

        /// The runtime reads a whole history before each activity, only for the orchestration's name and version. Both
        /// are in the work item. Reads of user code run on other tasks, and go to the store.
        async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
            let Some(claim) = self.open.of_this_dispatcher() else {
                return self.store.read(instance).await;
            };
            let of = claim.orchestration.filter(|_| claim.instance == instance);
            let Some(of) = of else {
                return Self::within(claim.budget, "read", self.store.read(instance)).await;
            };
            let started = EventKind::OrchestrationStarted {
                name: of.name,
                version: of.version,
                input: String::new(),
                parent_instance: None,
                parent_id: None,
                parent_execution_id: None,
                carry_forward_events: None,
                initial_custom_status: None,
            };
            Ok(vec![Event::with_event_id(1, instance, claim.execution, None, started)])
        }

        async fn fetch_work_item(
            &self,
            lock_timeout: Duration,
            _poll_timeout: Duration,
            session: Option<&SessionFetchConfig>,
            tag_filter: &TagFilter,
        ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
            Ok(Some(self.next_work(lock_timeout, session, tag_filter).await))
        }

        async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
            self.complete_work(token, completion).await
        }

        async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
            self.keep_work(token, extend_for).await
        }

        async fn abandon_work_item(
            &self,
            token: &str,
            delay: Option<Duration>,
            ignore_attempt: bool,
        ) -> Result<(), ProviderError> {
            self.abandon_work(token, delay, ignore_attempt).await
        }

        async fn renew_session_lock(
            &self,
            owner_ids: &[&str],
            extend_for: Duration,
            _idle_timeout: Duration,
        ) -> Result<usize, ProviderError> {
            match owner_ids.first() {
                Some(owner) => self.keep_sessions(owner, extend_for).await,
                None => Ok(0),
            }
        }

        /// The maintenance function does it.
        async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
            Ok(0)
        }

        /// None, because the runtime would count all instances at every cold start.
        fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
            None
        }
    }
    client: name version read_with_execution append_with_execution enqueue_for_orchestrator enqueue_for_worker
        get_custom_status get_kv_value get_kv_all_values get_instance_stats
}
