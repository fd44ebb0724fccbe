//! A store with instances by hand, and batches that are stepped by hand.

use crate::pause::support::Scene;
use cosmos::Clock as _;
use duroxide::EventKind;
use duroxide_cosmos::{
    Batch, BatchAction, BatchRequest, BatchStarted, BatchState, BatchStep, CosmosProvider, InstanceFilter,
    InstanceStatus, StepContext,
};
use std::time::Duration;
use tests::turns::*;
use tokio::time::Instant;

/// Longer than any pause between two steps.
pub const AFTER_ANY_PAUSE: Duration = Duration::from_secs(60);

pub fn request(action: BatchAction, filter: InstanceFilter) -> BatchRequest {
    BatchRequest {
        filter,
        action,
        dry_run: false,
        rate: 4,
        by: Some("ops".to_owned()),
    }
}

pub fn all() -> InstanceFilter {
    InstanceFilter::default()
}

pub fn of_status(status: InstanceStatus) -> InstanceFilter {
    InstanceFilter {
        status: Some(status),
        ..all()
    }
}

pub fn cancel() -> BatchAction {
    BatchAction::Cancel {
        reason: "enough".to_owned(),
    }
}

pub fn pause() -> BatchAction {
    BatchAction::Pause {
        reason: Some("why".to_owned()),
        children: false,
    }
}

pub fn resume() -> BatchAction {
    BatchAction::Resume { children: false }
}

pub fn raise() -> BatchAction {
    BatchAction::Raise {
        event: "go".to_owned(),
        data: "1".to_owned(),
    }
}

pub fn delete() -> BatchAction {
    BatchAction::Delete { force: false }
}

pub fn rewind() -> BatchAction {
    BatchAction::Rewind {
        reason: Some("fixed".to_owned()),
        alone: false,
        discard_results: false,
    }
}

pub fn restart(in_place: bool) -> BatchAction {
    BatchAction::Restart {
        in_place,
        alone: false,
        version: None,
    }
}

/// A step that is on time and was not throttled.
pub async fn step(provider: &CosmosProvider, id: &str) -> BatchStep {
    step_with(provider, id, 0, false).await
}

pub async fn step_with(provider: &CosmosProvider, id: &str, late_ms: u64, is_throttled: bool) -> BatchStep {
    let context = StepContext {
        deadline: Instant::now() + Duration::from_secs(60),
        late_ms,
        is_throttled: &|| is_throttled,
    };
    provider.batch_step(id, context).await.expect("the store answers")
}

pub async fn start(scene: &Scene, id: &str, request: &BatchRequest) {
    let started = scene.provider.start_batch(id, request).await;
    assert_eq!(started.expect("the store answers"), BatchStarted::Accepted);
    // Instances of the same millisecond are a part of it.
    scene.clock.advance(Duration::from_millis(10));
}

pub async fn batch(scene: &Scene, id: &str) -> Batch {
    let found = scene.provider.batch(id).await.expect("the store answers");
    found.expect("it is there")
}

/// Steps until the batch has ended.
pub async fn finish(scene: &Scene, provider: &CosmosProvider, id: &str) -> Batch {
    for _ in 0..1_000 {
        let now = batch(scene, id).await;
        if now.state.has_ended() {
            return now;
        }
        step(provider, id).await;
        scene.clock.advance(AFTER_ANY_PAUSE);
    }
    panic!("the batch does not end: {:?}", batch(scene, id).await);
}

/// Begins a batch and steps until it has ended.
pub async fn run_batch(scene: &Scene, id: &str, request: &BatchRequest) -> Batch {
    start(scene, id, request).await;
    finish(scene, &scene.provider, id).await
}

/// So many running instances `i-0`, `i-1`, ..., each accepted at a moment of its own.
pub async fn running(scene: &Scene, count: usize) {
    for n in 0..count {
        begin(&scene.provider, &format!("i-{n}")).await;
        scene.clock.advance(Duration::from_millis(1));
    }
}

/// The same, failed with an activity.
pub async fn failed(scene: &Scene, count: usize) {
    for n in 0..count {
        fail(&scene.provider, &format!("i-{n}")).await;
        scene.clock.advance(Duration::from_millis(1));
    }
}

/// An instance that has failed with an activity.
pub async fn fail(provider: &CosmosProvider, instance: &str) {
    enqueue(provider, start_of(instance)).await;
    let turn = turn(provider, instance).await;
    let details = duroxide::ErrorDetails::Application {
        kind: duroxide::AppErrorKind::ActivityFailed,
        message: "out of stock".to_owned(),
        retryable: false,
    };
    let mut failed = event(
        instance,
        1,
        3,
        EventKind::ActivityFailed {
            details: details.clone(),
        },
    );
    failed.source_event_id = Some(2);
    let end = event(instance, 1, 4, EventKind::OrchestrationFailed { details });
    let decision = Decision {
        metadata: ended("Failed", "out of stock"),
        ..Decision::of(vec![started(instance, 1), scheduled(instance, 2), failed, end])
    };
    commit(provider, &turn.lock_token, decision).await.expect("it fails");
}

pub async fn status(scene: &Scene, instance: &str) -> Option<InstanceStatus> {
    scene.status(instance).await
}

/// How many messages each instance has, of those whose item contains a text.
pub async fn messages(scene: &Scene, text: &str) -> Vec<(String, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for doc in scene.world.documents().await {
        if doc["type"] == "message" && doc["item"].to_string().contains(text) {
            *counts.entry(doc["pk"].as_str().expect("a pk").to_owned()).or_default() += 1;
        }
    }
    counts.into_iter().collect()
}

pub fn counts(batch: &Batch) -> [u64; 5] {
    let counts = batch.counts;
    [
        counts.examined,
        counts.changed,
        counts.unchanged,
        counts.gone,
        counts.failed,
    ]
}

pub fn is_completed(batch: &Batch) {
    assert_eq!(batch.state, BatchState::Completed, "{batch:?}");
}

pub fn now(scene: &Scene) -> u64 {
    scene.clock.now_ms()
}
