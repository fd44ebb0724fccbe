//! A process that is killed at the n-th write, and the one that continues its work.

use cosmos_emulator::{CrashPoint, Listener};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationRegistry, Runtime, RuntimeOptions};
use duroxide_cosmos::CosmosProvider;
use std::sync::Arc;
use std::time::Duration;
use tests::{ShiftedClock, World, connect, recover};

/// Longer than any lock, and than the age from which on any process may repair.
pub const AFTERWARDS: Duration = Duration::from_secs(120);

pub const BOTH: [CrashPoint; 2] = [CrashPoint::BeforeApplied, CrashPoint::AfterApplied];

/// What a process runs.
pub type Registries = fn() -> (ActivityRegistry, OrchestrationRegistry);

/// A runtime on threads of its own, so that it can be killed at any moment.
pub struct Process {
    threads: Option<tokio::runtime::Runtime>,
}

impl Process {
    /// Starts one dispatcher of each kind, so that the order of writes is much the same in each run.
    pub async fn start(provider: Arc<CosmosProvider>, registries: Registries) -> Process {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads can be started");
        let (activities, orchestrations) = registries();
        let options = RuntimeOptions {
            orchestration_concurrency: 1,
            worker_concurrency: 2,
            orchestrator_lock_timeout: Duration::from_secs(30),
            worker_lock_timeout: Duration::from_secs(30),
            dispatcher_min_poll_interval: Duration::from_millis(5),
            dispatcher_long_poll_timeout: Duration::from_millis(500),
            activity_cancellation_grace_period: Duration::from_millis(50),
            ..RuntimeOptions::default()
        };
        threads
            .spawn(async move { Runtime::start_with_options(provider, activities, orchestrations, options).await })
            .await
            .expect("the runtime starts");
        Process { threads: Some(threads) }
    }

    /// Like `kill -9`: no lock is released.
    pub fn kill(mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

/// A provider through a listener, as the processes of these tests have it.
pub async fn provider_through(world: &World, listener: &Listener, clock: &Arc<ShiftedClock>) -> Arc<CosmosProvider> {
    let clock = Arc::clone(clock);
    let config = world.builder_through(listener).clock(clock);
    connect(config.sweep_interval(Duration::from_millis(20))).await
}

/// Recovers until nothing is left to recover, then looks for anything that a crash left behind.
pub async fn nothing_is_left_behind(world: &World, provider: &CosmosProvider, clock: &ShiftedClock, context: &str) {
    for _ in 0..10 {
        clock.advance(AFTERWARDS);
        let recovered = recover(provider).await;
        assert_eq!(recovered.failed, 0, "{context}: {recovered:?}");
        if recovered.is_idle() {
            break;
        }
    }
    for doc in world.documents().await {
        let kind = doc["type"].as_str().unwrap_or_default();
        assert!(
            !matches!(kind, "staged" | "staged-head" | "intent" | "deletion"),
            "{context}: a {kind} document stays: {doc}"
        );
        if kind == "instance" {
            assert!(
                doc["unfinished"].is_null() && doc["deleting"].is_null(),
                "{context}: unfinished: {doc}"
            );
        }
    }
}
