//! The provider between duroxide's runtime and the [`MemoryStore`]: what a simulation adds to a store.
//!
//! | on | it does |
//! |---|---|
//! | fetching a turn | blocks an instance whose orchestration nobody registers, as the functions do; ends it if it is cancelled |
//! | committing a turn | puts it on the virtual clock; loses it where a crash is planned; blocks it if its code has a defect; answers `utc_now` and `new_guid`; sends what waits for a subscription |
//! | fetching an activity | blocks it if nobody registers it; loses it where a crash is planned; gives it up after too many crashes |
//! | committing an activity | loses its result where a crash is planned |
//!
//! To lose a commit is to answer the runtime `Ok` and to give the step back to the store: duroxide keeps nothing between steps.
//! Each fetch lets other tasks run first, so that duroxide's cooperative budget never ends within a step: the order of steps would
//! otherwise depend on how often a turn had to be repeated for its timers.

mod script;

use super::clock::{Delay, Timers, on_virtual_time};
use super::store::{Commit, MemoryStore};
use crate::config::Limits;
use crate::gate::{cancelled, defect, is_over, killed, unknown, unknown_activity};
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, ProviderError, ScheduledActivityIdentifier,
    SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind, OrchestrationRegistry};
use duroxide_cosmos::TurnDecision;
pub(super) use script::{Script, Sent};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const UTC_NOW: &str = "__duroxide_syscall:utc_now_ms";
const NEW_GUID: &str = "__duroxide_syscall:new_guid";
/// How often a turn is repeated until the delays of its timers are known exactly.
const MOST_REPEATS: u32 = 100;
/// An invocation of Lambda ends after this time.
const LONGEST_ACTIVITY: Duration = Duration::from_secs(15 * 60);

/// See the module.
pub(super) struct Stage {
    pub store: Arc<MemoryStore>,
    pub timers: Arc<Timers>,
    orchestrations: OrchestrationRegistry,
    activities: ActivityRegistry,
    limits: Limits,
    script: Arc<Mutex<Script>>,
    /// What ends the instance of the open turn if a message cancels it: committed if the turn is blocked. One turn is open at a time.
    ending: Mutex<Option<TurnDecision>>,
}

impl Stage {
    pub fn new(
        store: Arc<MemoryStore>,
        timers: Arc<Timers>,
        script: Arc<Mutex<Script>>,
        (orchestrations, activities): (OrchestrationRegistry, ActivityRegistry),
    ) -> Stage {
        Stage {
            store,
            timers,
            orchestrations,
            activities,
            limits: Limits::default(),
            script,
            ending: Mutex::default(),
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ending(&self) -> MutexGuard<'_, Option<TurnDecision>> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks the instance of a turn, or ends it if it is cancelled: the functions decide the same.
    fn block(&self, token: &str, instance: &str, reason: String) -> Result<(), ProviderError> {
        let ending = self.ending().take();
        self.store.change(|state, now| {
            if let Some(mut ending) = ending {
                on_virtual_time(now, &[], &mut ending.events, &mut ending.messages);
                let commit = Commit {
                    execution: ending.execution,
                    events: ending.events,
                    work: ending.work,
                    messages: ending.messages,
                    metadata: ending.metadata,
                    cancelled: ending.cancelled,
                };
                return state.commit_turn(now, token, commit);
            }
            state.abandon_turn(now, token, None, true)?;
            state.blocked.insert(instance.to_owned(), reason);
            Ok(())
        })
    }

    /// Why a fetched turn must not run.
    fn obstacle(&self, item: &OrchestrationItem, attempts: u32) -> Option<String> {
        if attempts > self.limits.max_attempts && !item.history.iter().any(is_over) {
            let reason = format!(
                "its turn was begun {} times and never committed: each time a crash was injected",
                self.limits.max_attempts
            );
            return Some(reason);
        }
        unknown(item, &self.orchestrations).map(|block| block.reason)
    }

    /// Why a turn must not be committed now: repeats it, loses it or blocks its instance.
    fn intervene(
        &self,
        token: &str,
        instance: &str,
        events: &[Event],
        delays: &[Delay],
    ) -> Option<Result<(), ProviderError>> {
        let mut script = self.script();
        let is_known = delays.iter().all(|delay| matches!(delay, Delay::Exact(_)));
        if !is_known && script.repeats < MOST_REPEATS {
            script.repeats += 1;
            script.is_repeated = true;
            return Some(
                self.store
                    .change(|state, now| state.abandon_turn(now, token, None, true)),
            );
        }
        script.repeats = 0;
        if let Some(block) = defect(events, &self.limits) {
            return Some(self.block(token, instance, block.reason));
        }
        if let Some(delay) = script.loses_turn() {
            return Some(
                self.store
                    .change(|state, now| state.abandon_turn(now, token, Some(delay), false)),
            );
        }
        script.turns += 1;
        None
    }

    /// Answers what duroxide's built-in activities would read from the machine.
    fn answer(&self, now: u64, work: Vec<WorkItem>, messages: &mut Vec<WorkItem>) -> Vec<WorkItem> {
        let mut left = Vec::new();
        for item in work {
            let (instance, execution_id, id, result) = match &item {
                WorkItem::ActivityExecute {
                    instance,
                    execution_id,
                    id,
                    name,
                    ..
                } if name == UTC_NOW => (instance.clone(), *execution_id, *id, now.to_string()),
                WorkItem::ActivityExecute {
                    instance,
                    execution_id,
                    id,
                    name,
                    ..
                } if name == NEW_GUID => (instance.clone(), *execution_id, *id, self.script().guid()),
                _ => {
                    left.push(item);
                    continue;
                }
            };
            messages.push(WorkItem::ActivityCompleted {
                instance,
                execution_id,
                id,
                result,
            });
        }
        left
    }

    /// What is sent to the instance because it waits for it now.
    fn for_subscriptions(&self, instance: &str, events: &[Event]) -> Vec<WorkItem> {
        let mut script = self.script();
        let subscribed = events.iter().filter_map(|event| match &event.kind {
            EventKind::ExternalSubscribed { name } => Some((false, name)),
            EventKind::QueueSubscribed { name } => Some((true, name)),
            _ => None,
        });
        subscribed
            .filter_map(|(is_queued, name)| Some(script.for_subscription(is_queued, name)?.to(instance.to_owned())))
            .collect()
    }

    /// The messages that the turn takes and that are to be delivered once more.
    fn copies(&self, token: &str) -> Vec<WorkItem> {
        let script = self.script();
        if !script.twice {
            return Vec::new();
        }
        let state = self.store.state();
        let taken = state
            .messages
            .iter()
            .filter(|message| message.token.as_deref() == Some(token));
        let is_completion = |item: &WorkItem| {
            matches!(
                item,
                WorkItem::ActivityCompleted { .. }
                    | WorkItem::ActivityFailed { .. }
                    | WorkItem::TimerFired { .. }
                    | WorkItem::SubOrchCompleted { .. }
                    | WorkItem::SubOrchFailed { .. }
            )
        };
        taken
            .filter(|message| is_completion(&message.item) && !script.copies.contains(&message.order.1))
            .map(|message| message.item.clone())
            .collect()
    }

    /// Delivers messages once more.
    fn send_copies(&self, copies: Vec<WorkItem>) -> Result<(), ProviderError> {
        for copy in copies {
            let number = self.store.change(|state, now| {
                state.send(now, copy, Some(Duration::ZERO))?;
                Ok::<_, ProviderError>(state.messages.last().map(|message| message.order.1))
            })?;
            self.script().copies.extend(number);
        }
        Ok(())
    }
}

crate::delegate_provider! {
    impl Provider for Stage {
        async fn fetch_orchestration_item(
            &self,
            lock_timeout: Duration,
            poll_timeout: Duration,
            filter: Option<&DispatcherCapabilityFilter>,
        ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
            let is_repeated = std::mem::take(&mut self.script().is_repeated);
            if !is_repeated {
                tokio::task::yield_now().await;
            }
            loop {
                let fetched = self.store.fetch_orchestration_item(lock_timeout, poll_timeout, filter).await?;
                let Some((item, token, attempts)) = fetched else {
                    return Ok(None);
                };
                *self.ending() = cancelled(&item);
                match self.obstacle(&item, attempts) {
                    Some(reason) => self.block(&token, &item.instance, reason)?,
                    None => return Ok(Some((item, token, attempts))),
                }
            }
        }

        async fn ack_orchestration_item(
            &self,
            lock_token: &str,
            execution_id: u64,
            mut history_delta: Vec<Event>,
            worker_items: Vec<WorkItem>,
            mut orchestrator_items: Vec<WorkItem>,
            metadata: ExecutionMetadata,
            cancelled_activities: Vec<ScheduledActivityIdentifier>,
        ) -> Result<(), ProviderError> {
            let instance = self.store.state().turn_of(lock_token);
            let instance = instance.unwrap_or_default();
            let due: Vec<u64> = history_delta
                .iter()
                .filter_map(|event| match &event.kind {
                    EventKind::TimerCreated { fire_at_ms } => Some(*fire_at_ms),
                    _ => None,
                })
                .collect();
            let delays = self.timers.delays(&instance, &due);
            if let Some(done) = self.intervene(lock_token, &instance, &history_delta, &delays) {
                return done;
            }
            let now = self.store.clock.now_ms();
            on_virtual_time(now, &delays, &mut history_delta, &mut orchestrator_items);
            let worker_items = self.answer(now, worker_items, &mut orchestrator_items);
            if metadata.status.is_none() {
                orchestrator_items.extend(self.for_subscriptions(&instance, &history_delta));
            }
            let copies = self.copies(lock_token);
            self.store
                .ack_orchestration_item(
                    lock_token,
                    execution_id,
                    history_delta,
                    worker_items,
                    orchestrator_items,
                    metadata,
                    cancelled_activities,
                )
                .await?;
            self.send_copies(copies)
        }

        async fn fetch_work_item(
            &self,
            lock_timeout: Duration,
            poll_timeout: Duration,
            session: Option<&SessionFetchConfig>,
            tag_filter: &TagFilter,
        ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
            tokio::task::yield_now().await;
            loop {
                let fetched = self.store.fetch_work_item(lock_timeout, poll_timeout, session, tag_filter).await?;
                let Some((item, token, attempts)) = fetched else {
                    return Ok(None);
                };
                let WorkItem::ActivityExecute { instance, execution_id, id, name, .. } = &item else {
                    return Ok(Some((item, token, attempts)));
                };
                if let Some(block) = unknown_activity(&self.activities, name) {
                    self.store.change(|state, _| state.block_work(&token, block.reason));
                    continue;
                }
                if attempts > self.limits.max_attempts {
                    let failed = WorkItem::ActivityFailed {
                        instance: instance.clone(),
                        execution_id: *execution_id,
                        id: *id,
                        details: ErrorDetails::Application {
                            kind: AppErrorKind::ActivityFailed,
                            message: killed(name, attempts - 1),
                            retryable: false,
                        },
                    };
                    self.store.ack_work_item(&token, Some(failed)).await?;
                    continue;
                }
                let lost = self.script().deliver(&token, name);
                match lost {
                    Some(delay) => self.store.abandon_work_item(&token, Some(delay), false).await?,
                    None => return Ok(Some((item, token, attempts))),
                }
            }
        }

        async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
            let (lost, is_repeated) = {
                let mut script = self.script();
                (script.loses_result(token), script.twice)
            };
            if let Some(delay) = lost {
                return self.store.abandon_work_item(token, Some(delay), false).await;
            }
            let work = self.store.state().work_of(token).map(|work| (work.number, work.item.clone()));
            let is_copy = work.as_ref().is_some_and(|(number, _)| self.script().copies.contains(number));
            if is_copy {
                return self.store.ack_work_item(token, None).await;
            }
            self.store.ack_work_item(token, completion).await?;
            if let Some((_, item)) = work.filter(|_| is_repeated) {
                let number = self.store.change(|state, now| {
                    state.schedule(now, item);
                    state.work.last().map(|work| work.number)
                });
                self.script().copies.extend(number);
            }
            Ok(())
        }

        async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
            let now = self.store.clock.now_ms();
            let late = {
                let state = self.store.state();
                let work = state.work_of(token).filter(|work| work.since + LONGEST_ACTIVITY.as_millis() as u64 <= now);
                work.map(|work| work.item.clone())
            };
            if let Some(WorkItem::ActivityExecute { name, .. }) = late {
                self.script().hangs.get_or_insert(name);
            }
            self.store.renew_work_item_lock(token, extend_for).await
        }
    }
    store: name version abandon_orchestration_item renew_orchestration_item_lock read read_with_execution
        append_with_execution enqueue_for_orchestrator enqueue_for_worker abandon_work_item renew_session_lock
        cleanup_orphaned_sessions as_management_capability get_custom_status get_kv_value get_kv_all_values
        get_instance_stats
}
