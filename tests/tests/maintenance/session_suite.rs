//! duroxide's own tests of sessions, with the maintenance function in the place of the provider's cleanup.
//!
//! The suite is handed a provider that is the real one but for two verbs: `cleanup_orphaned_sessions` is an invocation of
//! the function that names the pass `sessions`; and before each fetch the function is invoked as well, which must not
//! change what any of the tests sees.

use crate::function::{ENOUGH, maintenance, report_of};
use async_trait::async_trait;
use cosmos::SystemClock;
use duroxide::provider_validations::{ProviderFactory, sessions};
use duroxide::providers::{Provider, ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use duroxide_cosmos::CosmosProvider;
use duroxide_lambda::internals::PassName;
use duroxide_lambda::internals::{Budget, Maintenance};
use duroxide_lambda::{MaintenanceSettings, delegate_provider};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::{World, patiently};

/// A provider that leaves the cleanup to the function.
struct Maintained {
    store: Arc<CosmosProvider>,
    maintenance: Maintenance,
    cleanups: Arc<AtomicUsize>,
}

impl Maintained {
    /// How many sessions an invocation has removed.
    async fn clean(&self) -> usize {
        let payload = json!({"passes": ["sessions"]});
        let report = report_of(self.maintenance.handle(&payload, Budget::of(ENOUGH)).await);
        let pass = &report.passes[&PassName::Sessions];
        assert_eq!(
            (&pass.error, pass.failed, pass.left_over),
            (&None, 0, false),
            "{report:?}"
        );
        pass.done as usize
    }
}

delegate_provider! {
    impl Provider for Maintained {
        async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
            self.cleanups.fetch_add(1, Ordering::SeqCst);
            Ok(self.clean().await)
        }

        async fn fetch_work_item(
            &self,
            lock_timeout: Duration,
            poll_timeout: Duration,
            session: Option<&SessionFetchConfig>,
            tag_filter: &TagFilter,
        ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
            self.clean().await;
            self.store.fetch_work_item(lock_timeout, poll_timeout, session, tag_filter).await
        }
    }
    store: name version fetch_orchestration_item ack_orchestration_item abandon_orchestration_item
        renew_orchestration_item_lock read read_with_execution append_with_execution enqueue_for_orchestrator
        enqueue_for_worker ack_work_item renew_work_item_lock abandon_work_item renew_session_lock
        as_management_capability get_custom_status get_kv_value get_kv_all_values get_instance_stats
}

#[derive(Default)]
struct Factory {
    worlds: Mutex<Vec<World>>,
    cleanups: Arc<AtomicUsize>,
}

#[async_trait]
impl ProviderFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let world = World::start().await;
        let store = world.provider().await;
        // The function is another process, with a provider of its own.
        let (maintenance, _) = maintenance(
            &world.provider().await,
            &Arc::new(SystemClock),
            MaintenanceSettings::default(),
        );
        self.worlds
            .lock()
            .expect("nobody panics while holding this")
            .push(world);
        let cleanups = Arc::clone(&self.cleanups);
        Arc::new(Maintained {
            store,
            maintenance,
            cleanups,
        })
    }

    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(2)
    }
}

/// Wires functions of the suite, with how often each asks for a cleanup.
macro_rules! suite {
    ($($name:ident $cleanups:literal)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            patiently(async || {
                let factory = Factory::default();
                sessions::$name(&factory).await;
                assert_eq!(factory.cleanups.load(Ordering::SeqCst), $cleanups, "the function did the cleanup");
            })
            .await;
        })*
    };
}

suite! {
    test_abandoned_session_item_ignore_attempt 0
    test_abandoned_session_item_retryable 0
    test_ack_updates_session_last_activity 0
    test_activity_lock_expires_session_lock_valid_same_worker_refetches 0
    test_both_locks_expire_different_worker_claims 0
    test_cleanup_keeps_active_sessions 1
    test_cleanup_keeps_sessions_with_pending_items 1
    test_cleanup_removes_expired_no_items 1
    test_cleanup_then_new_item_recreates_session 1
    test_concurrent_session_claim_only_one_wins 0
    test_different_sessions_different_workers 0
    test_mixed_session_and_non_session_items 0
    test_non_session_items_fetchable_by_any_worker 0
    test_non_session_items_returned_with_session_config 0
    test_none_session_skips_session_items 0
    test_original_worker_reclaims_expired_session 0
    test_renew_session_lock_active 0
    test_renew_session_lock_after_expiry_returns_zero 0
    test_renew_session_lock_no_sessions 0
    test_renew_session_lock_skips_idle 0
    test_renew_work_item_updates_session_last_activity 0
    test_session_affinity_blocks_other_worker 0
    test_session_affinity_same_worker 0
    test_session_claimable_after_lock_expiry 0
    test_session_item_claimable_when_no_session 0
    test_session_items_processed_in_order 0
    test_session_lock_expires_activity_lock_valid_ack_succeeds 0
    test_session_lock_expires_new_owner_gets_redelivery 0
    test_session_lock_expires_same_worker_reacquires 0
    test_session_lock_renewal_extends_past_original_timeout 0
    test_session_takeover_after_lock_expiry 0
    test_shared_worker_id_any_caller_can_fetch_owned_session 0
    test_some_session_returns_all_items 0
}
