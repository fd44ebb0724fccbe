//! A provider that wakeups for what it queues: what a `duroxide::Client` needs in a world where nobody polls.
//!
//! Only the two `enqueue_*` wakeup. What the runtime commits is notified for by the invocation that ran it.

use crate::delegate_provider;
use crate::directed::Directed;
use crate::notifier::BoundedNotifier;
use crate::plan::Planner;
use cosmos::Clock;
use duroxide::providers::{Provider, ProviderError, WorkItem};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// See the module.
pub struct NotifyingProvider {
    inner: Arc<dyn Provider>,
    directed: Arc<dyn Directed>,
    notifier: BoundedNotifier,
    clock: Arc<dyn Clock>,
    reach: Duration,
}

impl fmt::Debug for NotifyingProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifyingProvider")
            .field("inner", &self.inner.name())
            .finish_non_exhaustive()
    }
}

impl NotifyingProvider {
    /// Wakeups for what is queued in `inner`, as far as a notifier reaches into the future.
    pub fn new(
        inner: Arc<dyn Provider>,
        directed: Arc<dyn Directed>,
        notifier: BoundedNotifier,
        clock: Arc<dyn Clock>,
        reach: Duration,
    ) -> NotifyingProvider {
        NotifyingProvider {
            inner,
            directed,
            notifier,
            clock,
            reach,
        }
    }

    /// Wakeups. Who is not reached by a wakeup is found by the sweep, so a failure is not the caller's.
    async fn notify(&self, plan: impl FnOnce(&mut Planner)) {
        let mut planner = Planner::new(self.clock.now_ms(), self.reach);
        plan(&mut planner);
        let wakeups = planner.finish(self.clock.now_ms(), self.directed.consistency_token());
        self.notifier.notify(wakeups).await;
    }
}

delegate_provider! {
    impl Provider for NotifyingProvider {
        async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
            self.inner.enqueue_for_orchestrator(item.clone(), delay).await?;
            self.notify(|planner| planner.message(&item, delay)).await;
            Ok(())
        }

        async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
            self.inner.enqueue_for_worker(item.clone()).await?;
            self.notify(|planner| planner.work(&item, None)).await;
            Ok(())
        }
    }
    inner: name version fetch_orchestration_item ack_orchestration_item abandon_orchestration_item
        renew_orchestration_item_lock read read_with_execution append_with_execution fetch_work_item ack_work_item
        renew_work_item_lock abandon_work_item renew_session_lock cleanup_orphaned_sessions as_management_capability
        get_custom_status get_kv_value get_kv_all_values get_instance_stats
}
