//! Builds of one orchestration, in one cloud.

use cosmos::Clock;
use duroxide::runtime::OrchestrationStatus;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::{Limits, Wakeup};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
pub use tests::ShiftedClock;
pub use tests::cloud::{Cloud, CloudOptions, Function};

/// What the activities did: how often each ran, by name and input.
#[derive(Clone, Debug, Default)]
pub struct Effects(Arc<Mutex<BTreeMap<String, u32>>>);

impl Effects {
    pub fn all(&self) -> BTreeMap<String, u32> {
        self.0.lock().expect("the lock").clone()
    }

    /// The activities with these names.
    pub fn activities(&self, names: &[&str]) -> ActivityRegistry {
        names
            .iter()
            .fold(ActivityRegistry::builder(), |activities, name| {
                let (effects, effect) = (self.clone(), (*name).to_owned());
                activities.register(*name, move |_: ActivityContext, input: String| {
                    let (effects, effect) = (effects.clone(), effect.clone());
                    async move {
                        *effects.0.lock().expect("the lock").entry(effect.clone()).or_default() += 1;
                        Ok(format!("{effect}({input})"))
                    }
                })
            })
            .build()
    }
}

/// The first build: charges, waits for a delivery, ships.
pub fn first_build() -> OrchestrationRegistry {
    let order = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_activity("Charge", "").await?;
        let delivery = ctx.schedule_wait("delivery").await;
        ctx.schedule_activity("Ship", delivery).await
    };
    OrchestrationRegistry::builder().register("Order", order).build()
}

/// The second build has one activity more before the wait, without care for running instances.
pub fn careless_build() -> OrchestrationRegistry {
    let order = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_activity("Check", "").await?;
        ctx.schedule_activity("Charge", "").await?;
        let delivery = ctx.schedule_wait("delivery").await;
        ctx.schedule_activity("Ship", delivery).await
    };
    OrchestrationRegistry::builder().register("Order", order).build()
}

/// The activities of both builds.
pub const NAMES: [&str; 3] = ["Charge", "Check", "Ship"];

/// An order of the first build that has charged, and waits for its delivery.
pub async fn waiting_order() -> (Cloud, Arc<ShiftedClock>, Effects) {
    let effects = Effects::default();
    let (cloud, clock) = cloud(first_build(), effects.activities(&NAMES)).await;
    serve(&cloud.orchestrator, &start(&cloud, "order", "Order").await).await;
    cloud.drain().await;
    cloud.orchestrator.counted();
    (cloud, clock, effects)
}

/// Limits of a build with that name.
pub fn limits(build: &str) -> Limits {
    Limits {
        build: Some(build.to_owned()),
        max_attempts: 3,
        ..Limits::default()
    }
}

/// A cloud of the build `one`, and its clock.
pub async fn cloud(orchestrations: OrchestrationRegistry, activities: ActivityRegistry) -> (Cloud, Arc<ShiftedClock>) {
    cloud_with(limits("one"), orchestrations, activities).await
}

pub async fn cloud_with(
    limits: Limits,
    orchestrations: OrchestrationRegistry,
    activities: ActivityRegistry,
) -> (Cloud, Arc<ShiftedClock>) {
    let clock = Arc::new(ShiftedClock::default());
    let options = CloudOptions {
        limits,
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..CloudOptions::default()
    };
    (Cloud::with(options, orchestrations, activities).await, clock)
}

/// Starts an orchestration, and answers the wakeup.
pub async fn start(cloud: &Cloud, instance: &str, orchestration: &str) -> Wakeup {
    let started = cloud.client.start_orchestration(instance, orchestration, "").await;
    started.expect("it starts");
    only(cloud)
}

/// Raises an event, and answers the wakeup.
pub async fn raise(cloud: &Cloud, instance: &str, data: &str) -> Wakeup {
    let raised = cloud.client.raise_event(instance, "delivery", data).await;
    raised.expect("it is raised");
    only(cloud)
}

/// The one wakeup that was sent.
#[track_caller]
pub fn only(cloud: &Cloud) -> Wakeup {
    only_delayed(cloud).0
}

/// The one wakeup that was sent, and its delay.
#[track_caller]
pub fn only_delayed(cloud: &Cloud) -> (Wakeup, Duration) {
    let sent = cloud.queue.take();
    assert_eq!(sent.len(), 1, "one wakeup is sent: {sent:#?}");
    let sent = sent.into_iter().next().expect("it is there");
    (sent.wakeup, sent.delay)
}

/// One invocation that serves all of its records.
pub async fn serve(function: &Function, wakeup: &Wakeup) {
    let response = function.invoke(std::slice::from_ref(wakeup)).await;
    assert!(
        response.batch_item_failures.is_empty(),
        "{wakeup:?} is served: {response:?}"
    );
}

/// What the instance document says about the block.
pub async fn block_of(cloud: &Cloud, instance: &str) -> Value {
    let document = cloud.world.document(instance, "instance").await;
    document.expect("the instance has a document")["blocked"].clone()
}

/// How the instance stands for duroxide's clients.
pub async fn status(cloud: &Cloud, instance: &str) -> OrchestrationStatus {
    cloud.client.get_orchestration_status(instance).await.expect("a status")
}

/// The instance completes with that output once all wakeups are served.
pub async fn completes(cloud: &Cloud, instance: &str, expected: &str) {
    cloud.drain().await;
    match status(cloud, instance).await {
        OrchestrationStatus::Completed { output, .. } => assert_eq!(output, expected),
        other => panic!("{instance} did not complete: {other:?}"),
    }
}
