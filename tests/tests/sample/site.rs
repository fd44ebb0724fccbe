//! A shop's site: one test's Cosmos DB, and a runtime on it that can be stopped and started again.

use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{ObservabilityConfig, Runtime, RuntimeOptions};
use duroxide::{Client, OrchestrationStatus};
use duroxide_cosmos::CosmosProvider;
use std::sync::Arc;
use std::time::Duration;
use tests::{PATIENCE, World, until};
use workflows::progress::Stage;
use workflows::shop::Shop;
use workflows::{APPROVAL, Decision, FULFIL_ORDER, Line, Order, Outcome, Parcel};

/// A container with at most one runtime on it.
pub struct Site {
    pub client: Client,
    /// How long after its worker was killed an activity is given to another.
    pub worker_lock: Duration,
    pub store: Arc<CosmosProvider>,
    runtime: Option<Arc<Runtime>>,
    _world: World,
}

impl Site {
    /// Without a runtime.
    pub async fn idle() -> Site {
        let world = World::start().await;
        let store = world.provider().await;
        Site {
            client: Client::new(Arc::clone(&store) as Arc<dyn Provider>),
            worker_lock: Duration::from_secs(30),
            store,
            runtime: None,
            _world: world,
        }
    }

    /// With a runtime whose activities work on this shop.
    pub async fn with(shop: impl Shop) -> Site {
        Site::of(workflows::activities_on(shop)).await
    }

    /// With a runtime of these activities.
    pub async fn of(activities: ActivityRegistry) -> Site {
        let mut site = Site::idle().await;
        site.start(activities).await;
        site
    }

    /// Starts a runtime.
    pub async fn start(&mut self, activities: ActivityRegistry) {
        let options = RuntimeOptions {
            dispatcher_min_poll_interval: Duration::from_millis(20),
            worker_concurrency: 4,
            worker_lock_timeout: self.worker_lock,
            // Most of what is tested here is worth a warning.
            observability: ObservabilityConfig {
                log_level: "error".to_owned(),
                ..ObservabilityConfig::default()
            },
            ..RuntimeOptions::default()
        };
        let store = Arc::clone(&self.store) as Arc<dyn Provider>;
        let orchestrations = workflows::orchestrations();
        self.runtime = Some(Runtime::start_with_options(store, activities, orchestrations, options).await);
    }

    /// Ends the runtime; `grace` of zero kills it.
    pub async fn stop(&mut self, grace: Duration) {
        let grace = u64::try_from(grace.as_millis()).expect("a short grace");
        self.runtime
            .take()
            .expect("a runtime to stop")
            .shutdown(Some(grace))
            .await;
    }

    /// Starts an order as the instance of its id.
    pub async fn place(&self, order: &Order) {
        let started = self
            .client
            .start_orchestration_typed(&order.id, FULFIL_ORDER, order)
            .await;
        started.expect("the order is taken");
    }

    /// Places an order, and waits for its end.
    pub async fn fulfil(&self, order: &Order) -> Result<Outcome, String> {
        self.place(order).await;
        self.outcome(&order.id).await
    }

    /// Sends a decision.
    pub async fn decide(&self, instance: &str, approved: bool) {
        let by = "grace".to_owned();
        let sent = self
            .client
            .enqueue_event_typed(instance, APPROVAL, &Decision { approved, by })
            .await;
        sent.expect("the decision is taken");
    }

    /// How an order ended; `Err` is the error of a failed instance.
    pub async fn outcome(&self, instance: &str) -> Result<Outcome, String> {
        match self
            .client
            .wait_for_orchestration(instance, PATIENCE)
            .await
            .expect("the order ends")
        {
            OrchestrationStatus::Completed { output, .. } => {
                Ok(serde_json::from_str(&output).expect("the output is an outcome"))
            }
            OrchestrationStatus::Failed { details, .. } => Err(details.display_message()),
            other => panic!("{instance} did not end: {other:?}"),
        }
    }

    /// Waits until an order is at this stage.
    pub async fn reaches(&self, instance: &str, stage: Stage) {
        until(&format!("{instance} reaches {stage:?}"), async || {
            self.custom_status(instance).await.as_deref() == Some(stage.name())
        })
        .await;
    }

    /// The custom status of an instance, running or not.
    pub async fn custom_status(&self, instance: &str) -> Option<String> {
        match self
            .client
            .get_orchestration_status(instance)
            .await
            .expect("the status can be read")
        {
            OrchestrationStatus::NotFound => None,
            OrchestrationStatus::Running { custom_status, .. }
            | OrchestrationStatus::Completed { custom_status, .. }
            | OrchestrationStatus::Failed { custom_status, .. } => custom_status,
        }
    }
}

/// An order that nothing happens to, and that waits for nothing.
pub fn order(id: &str) -> Order {
    Order {
        id: id.to_owned(),
        customer: "ada".to_owned(),
        total_cents: 4200,
        lines: vec![Line {
            sku: "teapot".to_owned(),
            quantity: 1,
        }],
        parcels: vec![to("12 Mill Lane")],
        cooling_off_ms: Some(1),
        approval_timeout_ms: Some(3_600_000),
        retry_delay_ms: Some(1),
    }
}

/// An order that needs an approval.
pub fn large_order(id: &str) -> Order {
    Order {
        total_cents: workflows::order::APPROVAL_FROM_CENTS,
        ..order(id)
    }
}

/// A parcel.
pub fn to(address: &str) -> Parcel {
    Parcel {
        address: address.to_owned(),
    }
}
