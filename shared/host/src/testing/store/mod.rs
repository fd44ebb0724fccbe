//! An in-memory implementation of duroxide's `Provider`, on a [`VirtualClock`].
//!
//! It keeps duroxide's contract and adds nothing: the contract's own suite runs on it. What a simulation adds is in `stage`, which
//! wraps it. Everything is in one [`State`] behind a mutex that is never held across an `await`, so each verb is atomic, and
//! a turn runs from its fetch to its commit without a pause.
//!
//! | file | verbs |
//! |---|---|
//! | `state` | what is kept |
//! | `turns` | messages of instances, turns and their commits |
//! | `work` | activities and affinity sessions |
//!
//! It cannot list, delete or prune (`ProviderAdmin`): no workflow needs that.

mod state;
mod turns;
mod work;

use super::clock::VirtualClock;
use async_trait::async_trait;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
pub(super) use state::{Execution, State};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
pub(super) use turns::Commit;

/// See the module.
#[derive(Debug)]
pub struct MemoryStore {
    pub(super) clock: VirtualClock,
    state: Mutex<State>,
    /// Something is there for a turn, or for a worker.
    turns: Notify,
    work: Notify,
    /// Anything has changed.
    pub(super) changed: Notify,
    changes: AtomicU64,
}

impl MemoryStore {
    /// An empty store whose clock shows this time (Unix ms). To be called within a tokio runtime.
    pub fn starting_at(now_ms: u64) -> MemoryStore {
        MemoryStore {
            clock: VirtualClock::starting_at(now_ms),
            state: Mutex::default(),
            turns: Notify::new(),
            work: Notify::new(),
            changed: Notify::new(),
            changes: AtomicU64::new(0),
        }
    }

    /// How many changes there were.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes who may find something new.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State, u64) -> T) -> T {
        let now = self.clock.now_ms();
        let (changed, turns, work) = {
            let mut state = self.state();
            let changed = change(&mut state, now);
            let (turns, work) = state.take_news();
            (changed, turns, work)
        };
        for _ in 0..turns {
            self.turns.notify_one();
        }
        for _ in 0..work {
            self.work.notify_one();
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_waiters();
        changed
    }

    /// Waits for the first that `find` finds, or for the end of `patience`. `due` is when it may find something without news.
    async fn wait_for<T>(
        &self,
        news: &Notify,
        patience: Duration,
        find: impl Fn(&mut State, u64) -> Option<T>,
        due: impl Fn(&State, u64) -> Option<u64>,
    ) -> Option<T> {
        let until = Instant::now().checked_add(patience);
        loop {
            let mut notified = std::pin::pin!(news.notified());
            notified.as_mut().enable();
            let now = self.clock.now_ms();
            let due = {
                let mut state = self.state();
                if let Some(found) = find(&mut state, now) {
                    return Some(found);
                }
                due(&state, now).map(|due| self.clock.instant(due))
            };
            if until.is_some_and(|until| until <= Instant::now()) {
                return None;
            }
            match due.into_iter().chain(until).min() {
                Some(next) => drop(tokio::time::timeout_at(next, notified).await),
                None => notified.await,
            }
        }
    }
}

#[async_trait]
impl Provider for MemoryStore {
    fn name(&self) -> &str {
        "memory"
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
        let find = |state: &mut State, now| state.claim_turn(now, lock_timeout, filter);
        Ok(self
            .wait_for(&self.turns, poll_timeout, find, State::next_turn_due)
            .await)
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
        let commit = Commit {
            execution: execution_id,
            events: history_delta,
            work: worker_items,
            messages: orchestrator_items,
            metadata,
            cancelled: cancelled_activities,
        };
        self.change(|state, now| state.commit_turn(now, lock_token, commit))
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.change(|state, now| state.abandon_turn(now, lock_token, delay, ignore_attempt))
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.change(|state, now| state.renew_turn(now, token, extend_for))
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        Ok(self.state().history(instance, None))
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>, ProviderError> {
        Ok(self.state().history(instance, Some(execution_id)))
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        self.change(|state, _| state.append(instance, execution_id, new_events))
    }

    async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
        self.change(|state, now| state.send(now, item, delay))
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.change(|state, now| state.schedule(now, item));
        Ok(())
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        let find = |state: &mut State, now| state.claim_work(now, lock_timeout, session, tag_filter);
        Ok(self
            .wait_for(&self.work, poll_timeout, find, State::next_work_due)
            .await)
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.change(|state, now| state.commit_work(now, token, completion))
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.change(|state, now| state.renew_work(now, token, extend_for))
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.change(|state, now| state.abandon_work(now, token, delay, ignore_attempt))
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        Ok(self.change(|state, now| state.renew_sessions(now, owner_ids, extend_for, idle_timeout)))
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        Ok(self.change(|state, now| state.drop_unused_sessions(now)))
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let state = self.state();
        let record = state.instances.get(instance);
        let newer = record.filter(|record| record.status_version > last_seen_version);
        Ok(newer.map(|record| (record.custom_status.clone(), record.status_version)))
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        let state = self.state();
        Ok(state
            .instances
            .get(instance)
            .and_then(|record| record.keys().remove(key)))
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        let state = self.state();
        let record = state.instances.get(instance);
        Ok(record
            .map(|record| record.keys().into_iter().collect())
            .unwrap_or_default())
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        self.state().stats(instance)
    }
}
