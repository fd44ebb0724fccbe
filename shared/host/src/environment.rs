//! An execution environment: duroxide's runtime behind the gate, started once and kept warm.
//!
//! Starting it sends no request. A process has one, of one of two roles: its runtime has dispatchers for turns or for
//! activities, never both, so each function scales and fails by itself.

use crate::build::{build, registered};
use crate::canary::{self, Served};
use crate::config::Limits;
use crate::gate::{FIRST_RENEWAL, Gate, Registered};
use crate::metrics::Metrics;
use crate::notifier::{BoundedNotifier, Notifier};
use crate::notifying_provider::NotifyingProvider;
use crate::panics;
use crate::waiting::Waits;
use cosmos::Clock;
use duroxide::OrchestrationRegistry;
use duroxide::providers::{Provider, TagFilter};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide_cosmos::CosmosProvider;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How often the runtime cleans up affinity sessions. The gate ignores it: maintenance does it.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// The parts of an environment.
#[derive(Clone)]
pub struct Parts {
    /// The store.
    pub store: Arc<CosmosProvider>,
    /// How wakeups are sent.
    pub notifier: Arc<dyn Notifier>,
    /// The counters. They should also observe the store's requests.
    pub metrics: Arc<Metrics>,
    /// The clock of the store.
    pub clock: Arc<dyn Clock>,
    /// The numbers.
    pub limits: Limits,
    /// The identity of this environment, by which it owns affinity sessions.
    pub id: String,
}

impl Parts {
    /// The usual parts around a Cosmos provider.
    pub fn of(
        store: Arc<CosmosProvider>,
        notifier: Arc<dyn Notifier>,
        metrics: Arc<Metrics>,
        limits: Limits,
        id: impl Into<String>,
    ) -> Parts {
        Parts {
            store,
            notifier,
            metrics,
            clock: Arc::new(cosmos::SystemClock),
            limits,
            id: id.into(),
        }
    }

    /// A provider for clients: it wakes the functions for what it queues.
    pub fn notifying(&self) -> NotifyingProvider {
        NotifyingProvider::new(
            Arc::clone(&self.store),
            self.notifier(),
            Arc::clone(&self.clock),
            self.limits.wakeup_reach,
        )
    }

    pub(crate) fn notifier(&self) -> BoundedNotifier {
        BoundedNotifier::new(
            Arc::clone(&self.notifier),
            self.limits.notify_timeout,
            Arc::clone(&self.metrics),
        )
    }
}

/// What an environment serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Turns of orchestrations.
    Orchestrator,
    /// Activities.
    Worker,
}

/// See the module.
pub struct Environment {
    pub(crate) role: Role,
    pub(crate) gate: Arc<Gate>,
    pub(crate) store: Arc<CosmosProvider>,
    pub(crate) notifier: BoundedNotifier,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) waits: Waits,
    pub(crate) served: Arc<Served>,
    #[cfg_attr(
        not(feature = "internals"),
        expect(dead_code, reason = "it runs as long as this is kept")
    )]
    runtime: Arc<Runtime>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("role", &self.role)
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

impl Environment {
    /// An environment that runs turns of these orchestrations.
    pub async fn orchestrator(parts: Parts, orchestrations: OrchestrationRegistry) -> Environment {
        let limits = &parts.limits;
        let options = RuntimeOptions {
            orchestration_concurrency: limits.concurrency,
            worker_concurrency: 0,
            worker_tag_filter: TagFilter::None,
            orchestrator_lock_timeout: limits.turn_lock,
            orchestrator_lock_renewal_buffer: limits.turn_lock / 3,
            // The gate blocks what was begun too often.
            max_attempts: u32::MAX,
            ..common(&parts)
        };
        let activities = ActivityRegistry::builder().build();
        let orchestrations = canary::with_orchestration(&orchestrations);
        let served = Arc::new(Served::new(&parts.id));
        Self::start(Role::Orchestrator, parts, (activities, orchestrations), options, served).await
    }

    /// An environment that runs these activities, as far as they have these tags.
    pub async fn worker(parts: Parts, activities: ActivityRegistry, tags: TagFilter) -> Environment {
        let limits = &parts.limits;
        let options = RuntimeOptions {
            orchestration_concurrency: 0,
            worker_concurrency: limits.concurrency,
            worker_tag_filter: tags,
            worker_lock_timeout: limits.work_lock,
            worker_lock_renewal_buffer: limits.work_lock.saturating_sub(FIRST_RENEWAL),
            activity_cancellation_grace_period: limits.cancel_grace,
            session_lock_timeout: limits.session_lock,
            session_lock_renewal_buffer: limits.session_lock / 3,
            // At capacity the runtime would skip activities with affinity sessions, and their wakeups would be lost.
            max_sessions_per_runtime: limits.concurrency.saturating_add(1),
            worker_node_id: Some(parts.id.clone()),
            // The gate gives activities up, each after its own number of attempts.
            max_attempts: u32::MAX,
            ..common(&parts)
        };
        let orchestrations = OrchestrationRegistry::builder().build();
        let served = Arc::new(Served::new(&parts.id));
        let activities = panics::caught(&canary::with_activity(&activities, Arc::clone(&served)));
        Self::start(Role::Worker, parts, (activities, orchestrations), options, served).await
    }

    async fn start(
        role: Role,
        parts: Parts,
        (activities, orchestrations): (ActivityRegistry, OrchestrationRegistry),
        options: RuntimeOptions,
        served: Arc<Served>,
    ) -> Environment {
        let (label, names) = (
            parts.limits.build.clone(),
            registered(&orchestrations) + &registered(&activities),
        );
        parts.store.serve_as(build(label, names));
        let gate = Arc::new(Gate::new(
            Arc::clone(&parts.store),
            parts.notifying(),
            Arc::clone(&parts.clock),
            parts.limits.clone(),
            Registered {
                orchestrations: orchestrations.clone(),
                activities: activities.clone(),
            },
        ));
        let provider = Arc::clone(&gate) as Arc<dyn Provider>;
        let runtime = Runtime::start_with_options(provider, activities, orchestrations, options).await;
        Environment {
            role,
            gate,
            notifier: parts.notifier(),
            store: parts.store,
            metrics: parts.metrics,
            clock: parts.clock,
            waits: Waits::new(parts.limits.concurrency),
            served,
            runtime,
        }
    }

    /// Stops the runtime. Lambda kills its environments instead.
    #[cfg(feature = "internals")]
    pub async fn shutdown(self) {
        self.runtime.shutdown(Some(0)).await;
    }
}

fn common(parts: &Parts) -> RuntimeOptions {
    RuntimeOptions {
        max_attempts: parts.limits.max_attempts,
        session_cleanup_interval: NEVER,
        ..RuntimeOptions::default()
    }
}
