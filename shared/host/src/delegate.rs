//! Providers that are another one in all but a few verbs: the rest is delegated, and spelled out here once.

/// Implements duroxide's `Provider` for a type: the verbs that are given, and those of a list by the same call of a
/// field. Together they must be all that the trait has: one that is in neither is a compile error, or the trait's default.
///
/// ```
/// use duroxide::providers::{Provider, ProviderError, WorkItem};
/// use std::sync::Arc;
///
/// struct Counting {
///     inner: Arc<dyn Provider>,
///     queued: std::sync::atomic::AtomicUsize,
/// }
///
/// duroxide_lambda::delegate_provider! {
///     impl Provider for Counting {
///         async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
///             self.queued.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///             self.inner.enqueue_for_worker(item).await
///         }
///     }
///     inner: name version fetch_orchestration_item ack_orchestration_item abandon_orchestration_item
///         renew_orchestration_item_lock read read_with_execution append_with_execution enqueue_for_orchestrator
///         fetch_work_item ack_work_item renew_work_item_lock abandon_work_item renew_session_lock
///         cleanup_orphaned_sessions as_management_capability get_custom_status get_kv_value get_kv_all_values
///         get_instance_stats
/// }
/// ```
#[macro_export]
macro_rules! delegate_provider {
    (impl Provider for $type:ty { $($own:tt)* } $inner:ident: $($verb:ident)*) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($own)* }}
    };
    (@ $type:ty, $inner:ident [] { $($done:tt)* }) => {
        #[$crate::async_trait]
        impl duroxide::providers::Provider for $type { $($done)* }
    };
    (@ $type:ty, $inner:ident [name $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            fn name(&self) -> &str {
                self.$inner.name()
            }
        }}
    };
    (@ $type:ty, $inner:ident [version $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            fn version(&self) -> &str {
                self.$inner.version()
            }
        }}
    };
    (@ $type:ty, $inner:ident [as_management_capability $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            fn as_management_capability(&self) -> Option<&dyn duroxide::providers::ProviderAdmin> {
                self.$inner.as_management_capability()
            }
        }}
    };
    (@ $type:ty, $inner:ident [fetch_orchestration_item $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn fetch_orchestration_item(
                &self,
                lock_timeout: std::time::Duration,
                poll_timeout: std::time::Duration,
                filter: Option<&duroxide::providers::DispatcherCapabilityFilter>,
            ) -> Result<Option<(duroxide::providers::OrchestrationItem, String, u32)>, duroxide::providers::ProviderError> {
                self.$inner.fetch_orchestration_item(lock_timeout, poll_timeout, filter).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [ack_orchestration_item $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn ack_orchestration_item(
                &self,
                lock_token: &str,
                execution_id: u64,
                history_delta: Vec<duroxide::Event>,
                worker_items: Vec<duroxide::providers::WorkItem>,
                orchestrator_items: Vec<duroxide::providers::WorkItem>,
                metadata: duroxide::providers::ExecutionMetadata,
                cancelled_activities: Vec<duroxide::providers::ScheduledActivityIdentifier>,
            ) -> Result<(), duroxide::providers::ProviderError> {
                self.$inner
                    .ack_orchestration_item(
                        lock_token,
                        execution_id,
                        history_delta,
                        worker_items,
                        orchestrator_items,
                        metadata,
                        cancelled_activities,
                    )
                    .await
            }
        }}
    };
    (@ $type:ty, $inner:ident [abandon_orchestration_item $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn abandon_orchestration_item(
                &self,
                lock_token: &str,
                delay: Option<std::time::Duration>,
                ignore_attempt: bool,
            ) -> Result<(), duroxide::providers::ProviderError> {
                self.$inner.abandon_orchestration_item(lock_token, delay, ignore_attempt).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [renew_orchestration_item_lock $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn renew_orchestration_item_lock(
                &self,
                token: &str,
                extend_for: std::time::Duration,
            ) -> Result<(), duroxide::providers::ProviderError> {
                self.$inner.renew_orchestration_item_lock(token, extend_for).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [read $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn read(&self, instance: &str) -> Result<Vec<duroxide::Event>, duroxide::providers::ProviderError> {
                self.$inner.read(instance).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [read_with_execution $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn read_with_execution(
                &self,
                instance: &str,
                execution_id: u64,
            ) -> Result<Vec<duroxide::Event>, duroxide::providers::ProviderError> {
                self.$inner.read_with_execution(instance, execution_id).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [append_with_execution $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn append_with_execution(
                &self,
                instance: &str,
                execution_id: u64,
                new_events: Vec<duroxide::Event>,
            ) -> Result<(), duroxide::providers::ProviderError> {
                self.$inner.append_with_execution(instance, execution_id, new_events).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [enqueue_for_orchestrator $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn enqueue_for_orchestrator(
                &self,
                item: duroxide::providers::WorkItem,
                delay: Option<std::time::Duration>,
            ) -> Result<(), duroxide::providers::ProviderError> {
                self.$inner.enqueue_for_orchestrator(item, delay).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [enqueue_for_worker $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn enqueue_for_worker(
                &self,
                item: duroxide::providers::WorkItem,
            ) -> Result<(), duroxide::providers::ProviderError> {
                self.$inner.enqueue_for_worker(item).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [fetch_work_item $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn fetch_work_item(
                &self,
                lock_timeout: std::time::Duration,
                poll_timeout: std::time::Duration,
                session: Option<&duroxide::providers::SessionFetchConfig>,
                tag_filter: &duroxide::providers::TagFilter,
            ) -> Result<Option<(duroxide::providers::WorkItem, String, u32)>, duroxide::providers::ProviderError> {
                self.$inner.fetch_work_item(lock_timeout, poll_timeout, session, tag_filter).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [ack_work_item $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn ack_work_item(
                &self,
                token: &str,
                completion: Option<duroxide::providers::WorkItem>,
            ) -> Result<(), duroxide::providers::ProviderError> {
                self.$inner.ack_work_item(token, completion).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [renew_work_item_lock $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn renew_work_item_lock(
                &self,
                token: &str,
                extend_for: std::time::Duration,
            ) -> Result<(), duroxide::providers::ProviderError> {
                self.$inner.renew_work_item_lock(token, extend_for).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [abandon_work_item $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn abandon_work_item(
                &self,
                token: &str,
                delay: Option<std::time::Duration>,
                ignore_attempt: bool,
            ) -> Result<(), duroxide::providers::ProviderError> {
                self.$inner.abandon_work_item(token, delay, ignore_attempt).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [renew_session_lock $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn renew_session_lock(
                &self,
                owner_ids: &[&str],
                extend_for: std::time::Duration,
                idle_timeout: std::time::Duration,
            ) -> Result<usize, duroxide::providers::ProviderError> {
                self.$inner.renew_session_lock(owner_ids, extend_for, idle_timeout).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [cleanup_orphaned_sessions $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn cleanup_orphaned_sessions(
                &self,
                idle_timeout: std::time::Duration,
            ) -> Result<usize, duroxide::providers::ProviderError> {
                self.$inner.cleanup_orphaned_sessions(idle_timeout).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [get_custom_status $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn get_custom_status(
                &self,
                instance: &str,
                last_seen_version: u64,
            ) -> Result<Option<(Option<String>, u64)>, duroxide::providers::ProviderError> {
                self.$inner.get_custom_status(instance, last_seen_version).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [get_kv_value $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn get_kv_value(
                &self,
                instance: &str,
                key: &str,
            ) -> Result<Option<String>, duroxide::providers::ProviderError> {
                self.$inner.get_kv_value(instance, key).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [get_kv_all_values $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn get_kv_all_values(
                &self,
                instance: &str,
            ) -> Result<std::collections::HashMap<String, String>, duroxide::providers::ProviderError> {
                self.$inner.get_kv_all_values(instance).await
            }
        }}
    };
    (@ $type:ty, $inner:ident [get_instance_stats $($verb:ident)*] { $($done:tt)* }) => {
        $crate::delegate_provider!{@ $type, $inner [$($verb)*] { $($done)*
            async fn get_instance_stats(
                &self,
                instance: &str,
            ) -> Result<Option<duroxide::SystemStats>, duroxide::providers::ProviderError> {
                self.$inner.get_instance_stats(instance).await
            }
        }}
    };
}
