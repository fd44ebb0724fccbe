//! A provider that wakes the functions for what it queues: what a `duroxide::Client` needs where nobody polls.
//!
//! Only the two `enqueue_*`, `start`, `raise`, `pause`, `resume`, `rewind`, the restarts and those of batches send wakeups. For what the runtime commits, the invocation that ran it sends them. Requests for
//! one instance at the same moment share a wakeup (`notifier/coalesce.rs`).

use crate::delegate_provider;
use crate::due::Schedule;
use crate::notifier::{BoundedNotifier, Coalescer, UnderWay};
use crate::wakeup::recent_consistency_token;
use cosmos::Clock;
use duroxide::providers::{Provider, ProviderError, WorkItem};
use duroxide_cosmos::{
    BatchCancelled, BatchRequest, BatchStarted, CosmosProvider, Due, EventRequest, PauseResult, Raised, RestartRequest,
    Restarted, RewindRequest, RewindResult, StartRequest, Started, Target,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// See the module.
pub struct NotifyingProvider {
    store: Arc<CosmosProvider>,
    wakeups: Arc<Coalescer>,
    clock: Arc<dyn Clock>,
    reach: Duration,
}

impl fmt::Debug for NotifyingProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifyingProvider")
            .field("store", &self.store.name())
            .finish_non_exhaustive()
    }
}

impl NotifyingProvider {
    /// Wakes the functions for what is queued in `store`, as far ahead as `reach`.
    pub fn new(
        store: Arc<CosmosProvider>,
        notifier: BoundedNotifier,
        clock: Arc<dyn Clock>,
        reach: Duration,
    ) -> NotifyingProvider {
        NotifyingProvider {
            store,
            wakeups: Coalescer::new(notifier),
            clock,
            reach,
        }
    }

    /// Starts an instance and wakes the functions. A repetition wakes them again: the wakeup of the first may have been lost with its
    /// answer.
    pub async fn start(&self, request: StartRequest<'_>) -> Result<Started, ProviderError> {
        let under_way = self.wakeups.enter();
        let started = self.store.start(request).await?;
        if matches!(started, Started::Accepted | Started::Repeated) {
            self.notify(under_way, Some(turn_of(request.instance))).await;
        }
        Ok(started)
    }

    /// Raises an event and wakes the functions, likewise.
    pub async fn raise(&self, request: EventRequest<'_>) -> Result<Raised, ProviderError> {
        let under_way = self.wakeups.enter();
        let raised = self.store.raise(request).await?;
        if matches!(raised, Raised::Accepted | Raised::Repeated) {
            self.notify(under_way, Some(turn_of(request.instance))).await;
        }
        Ok(raised)
    }

    /// Pauses an instance. The starts of its children that it still owed are delivered, and woken.
    pub async fn pause(
        &self,
        instance: &str,
        reason: Option<&str>,
        children: bool,
    ) -> Result<PauseResult, ProviderError> {
        let under_way = self.wakeups.enter();
        let paused = self.store.pause(instance, reason, children).await?;
        self.notify(under_way, paused.due.clone()).await;
        Ok(paused)
    }

    /// Resumes an instance and wakes everything that waits, again if it is repeated.
    pub async fn resume(&self, instance: &str, children: bool) -> Result<PauseResult, ProviderError> {
        let under_way = self.wakeups.enter();
        let resumed = self.store.resume(instance, children).await?;
        self.notify(under_way, resumed.due.clone()).await;
        Ok(resumed)
    }

    /// Starts a new instance with the input of another one, and wakes the functions, again if it is repeated.
    pub async fn restart_as_new(&self, request: RestartRequest<'_>, new_id: &str) -> Result<Restarted, ProviderError> {
        let under_way = self.wakeups.enter();
        let restarted = self.store.restart_as_new(request, new_id).await?;
        if matches!(restarted, Restarted::Accepted { .. } | Restarted::Repeated) {
            self.notify(under_way, Some(turn_of(new_id))).await;
        }
        Ok(restarted)
    }

    /// Begins the next execution of an instance that has ended, and wakes the functions, again if it is repeated.
    pub async fn restart_in_place(&self, request: RestartRequest<'_>, alone: bool) -> Result<Restarted, ProviderError> {
        let under_way = self.wakeups.enter();
        let restarted = self.store.restart_in_place(request, alone).await?;
        if matches!(restarted, Restarted::Accepted { .. } | Restarted::Repeated) {
            self.notify(under_way, Some(turn_of(request.instance))).await;
        }
        Ok(restarted)
    }

    /// Begins a batch and wakes its first step, again if it is repeated.
    pub async fn start_batch(&self, id: &str, request: &BatchRequest) -> Result<BatchStarted, ProviderError> {
        let under_way = self.wakeups.enter();
        let started = self.store.start_batch(id, request).await?;
        if started != BatchStarted::KeyReused {
            self.notify(under_way, Some(Due::batch(id, None))).await;
        }
        Ok(started)
    }

    /// Cancels a batch and wakes the step that ends it, again if it is repeated.
    pub async fn cancel_batch(&self, id: &str) -> Result<BatchCancelled, ProviderError> {
        let under_way = self.wakeups.enter();
        let cancelled = self.store.cancel_batch(id).await?;
        if matches!(cancelled, BatchCancelled::Accepted(_)) {
            self.notify(under_way, Some(Due::batch(id, None))).await;
        }
        Ok(cancelled)
    }

    /// Rewinds an instance, and wakes what runs again.
    pub async fn rewind(&self, request: &RewindRequest<'_>) -> Result<RewindResult, ProviderError> {
        let under_way = self.wakeups.enter();
        let rewound = self.store.rewind(request).await?;
        self.notify(under_way, rewound.due.clone()).await;
        Ok(rewound)
    }

    /// Sends wakeups. The caller's request was stored, so a wakeup that cannot be sent is no error of the request:
    /// maintenance finds its target.
    async fn notify(&self, request: UnderWay, due: impl IntoIterator<Item = Due>) {
        let schedule = Schedule {
            written_ms: self.clock.now_ms(),
            reach: self.reach,
            consistency_token: recent_consistency_token(&self.store),
        };
        let wakeups = schedule.wakeups(due.into_iter().collect());
        request.notify(Duration::MAX, wakeups).await;
    }
}

/// The next turn of an instance, at once.
fn turn_of(instance: &str) -> Due {
    Due {
        target: Target::Turn {
            instance: instance.to_owned(),
        },
        at_ms: None,
        execution: None,
    }
}

delegate_provider! {
    impl Provider for NotifyingProvider {
        async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
            let now_ms = self.clock.now_ms();
            let visible_ms = delay.map(|delay| now_ms.saturating_add(delay.as_millis() as u64));
            let due = Due::enqueued(&item, visible_ms);
            let request = self.wakeups.enter();
            self.store.enqueue_for_orchestrator(item, delay).await?;
            self.notify(request, due).await;
            Ok(())
        }

        async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
            let due = Due::activity(&item);
            let request = self.wakeups.enter();
            self.store.enqueue_for_worker(item).await?;
            self.notify(request, due).await;
            Ok(())
        }
    }
    store: name version fetch_orchestration_item ack_orchestration_item abandon_orchestration_item
        renew_orchestration_item_lock read read_with_execution append_with_execution fetch_work_item ack_work_item
        renew_work_item_lock abandon_work_item renew_session_lock cleanup_orphaned_sessions as_management_capability
        get_custom_status get_kv_value get_kv_all_values get_instance_stats
}
