//! A store with instances by hand, and what must hold of a paused one.

use cosmos_emulator::{CrashPoint, Listener, ServerOptions};
use duroxide::providers::{TagFilter, WorkItem};
use duroxide_cosmos::{CosmosProvider, Fetched, InstanceStatus, PauseOutcome};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World, connect};

pub const BOTH: [CrashPoint; 2] = [CrashPoint::BeforeApplied, CrashPoint::AfterApplied];
pub const INSTANCE: &str = "order";
/// The due time of what is parked.
pub const PARKED: u64 = 253_402_300_799_000;

pub struct Scene {
    pub world: World,
    pub clock: Arc<ManualClock>,
    pub provider: Arc<CosmosProvider>,
}

impl Scene {
    pub async fn new() -> Scene {
        Scene::on(ServerOptions::default()).await
    }

    pub async fn on(options: ServerOptions) -> Scene {
        let world = World::local(options).await;
        let clock = Arc::new(ManualClock::default());
        let provider = world.provider_at(&clock).await;
        Scene { world, clock, provider }
    }

    /// One more process, whose requests may be paused for long, or which crashes.
    pub async fn process(&self, time: Duration) -> (Listener, Arc<CosmosProvider>) {
        let listener = self.world.open_listener().await;
        let clock: Arc<dyn cosmos::Clock> = Arc::clone(&self.clock) as Arc<dyn cosmos::Clock>;
        let config = self.world.builder_through(&listener).clock(clock);
        let provider = connect(config.request_timeout(time).operation_timeout(time)).await;
        (listener, provider)
    }

    pub async fn status(&self, instance: &str) -> Option<InstanceStatus> {
        let summary = self.provider.instance_summary(instance).await;
        summary.expect("the store answers").map(|summary| summary.status)
    }

    pub async fn pause(&self) -> PauseOutcome {
        let paused = self.provider.pause(INSTANCE, Some("why"), false).await;
        paused.expect("the store answers").outcome
    }

    pub async fn resume(&self) -> PauseOutcome {
        let resumed = self.provider.resume(INSTANCE, false).await;
        resumed.expect("the store answers").outcome
    }

    /// The queued documents of an instance, and the instance itself.
    pub async fn queued(&self, instance: &str) -> (Option<Value>, Vec<Value>) {
        let documents = self.world.documents().await;
        let own = documents.into_iter().filter(|doc| doc["pk"] == instance);
        let (instances, rest): (Vec<Value>, Vec<Value>) = own.partition(|doc| doc["type"] == "instance");
        let queued = rest
            .into_iter()
            .filter(|doc| ["turn", "work"].iter().any(|queue| doc["queue"] == *queue));
        (instances.into_iter().next(), queued.collect())
    }

    /// Fails unless everything of the instance is parked and guarded from older releases, or (`is_paused` is false) nothing is.
    pub async fn assert_consistent(&self, is_paused: bool, context: &str) {
        let (instance, queued) = self.queued(INSTANCE).await;
        let instance = instance.unwrap_or_else(|| panic!("{context}: there is an instance"));
        assert_eq!(instance["paused"]["listed"] == true, is_paused, "{context}: {instance}");
        assert_eq!(instance["v"], if is_paused { 2 } else { 1 }, "{context}: {instance}");
        assert!(
            instance["dueAt"].is_null(),
            "{context}: nothing is left to recover: {instance}"
        );
        if is_paused {
            assert_eq!(instance["paused"]["phase"], "parked", "{context}: {instance}");
        }
        for doc in queued {
            let is_claimed = !doc["holder"].is_null();
            let is_cancellation = doc["item"].to_string().contains("CancelInstance");
            if !is_claimed && !is_cancellation {
                assert_eq!(doc["dueAt"] == PARKED, is_paused, "{context}: {doc}");
            }
            if doc["type"] == "work" {
                assert_eq!(doc["paused"] == true, is_paused, "{context}: {doc}");
                assert_eq!(doc["v"], if is_paused { 2 } else { 1 }, "{context}: {doc}");
            }
        }
    }

    /// Fails unless no turn and no activity begins.
    pub async fn assert_held(&self, context: &str) {
        let turn = fetch_turn(&self.provider, INSTANCE).await;
        assert!(matches!(turn, Fetched::Paused { .. }), "{context}: {turn:?}");
        let (_, queued) = self.queued(INSTANCE).await;
        // Some will do: all are parked.
        for doc in queued.iter().filter(|doc| doc["type"] == "work").take(8) {
            let id = doc["id"]
                .as_str()
                .and_then(|id| id.rsplit(':').next()?.parse().ok())
                .expect("an activity");
            let fetched = fetch_work(&self.provider, id).await;
            let is_held = matches!(fetched, Fetched::Paused { .. } | Fetched::Busy { .. });
            assert!(is_held, "{context}: {fetched:?}");
        }
    }
}

pub async fn fetch_work(provider: &CosmosProvider, id: u64) -> Fetched<duroxide_cosmos::ClaimedWork> {
    let activity = activity_id(INSTANCE, id);
    let fetched = provider
        .fetch_work(&activity, LOCK, None, &TagFilter::DefaultOnly)
        .await;
    fetched.expect("the store answers")
}

/// A timer of [`INSTANCE`].
pub fn timer(id: u64, fire_at_ms: u64) -> WorkItem {
    WorkItem::TimerFired {
        instance: INSTANCE.to_owned(),
        execution_id: 1,
        id,
        fire_at_ms,
    }
}

pub fn cancel(instance: &str) -> WorkItem {
    WorkItem::CancelInstance {
        instance: instance.to_owned(),
        reason: "enough".to_owned(),
    }
}

/// The data of the events that a turn takes, in its order.
pub fn events_of(messages: &[WorkItem]) -> Vec<&str> {
    let events = messages.iter().filter_map(|message| match message {
        WorkItem::ExternalRaised { data, .. } => Some(data.as_str()),
        _ => None,
    });
    events.collect()
}

/// A process that has committed the first turn of [`INSTANCE`], in which it schedules so many activities that it is staged, and died
/// before it published them.
pub async fn leave_unfinished(scene: &Scene, activities: u64) {
    let (listener, maker) = scene.process(Duration::from_secs(2)).await;
    enqueue(&scene.provider, start_of(INSTANCE)).await;
    let turn = turn(&maker, INSTANCE).await;
    listener.reset();
    listener.crash_at_write(crash_of_publication(activities), CrashPoint::BeforeApplied);
    let committed = commit(&maker, &turn.lock_token, Decision::first(INSTANCE, activities)).await;
    committed.expect("the commit has happened");
    assert!(listener.crashed(), "it died in the middle");
    let (instance, _) = scene.queued(INSTANCE).await;
    assert!(
        instance.is_some_and(|instance| !instance["unfinished"].is_null()),
        "the commit is unfinished"
    );
}

/// The write that is the first publication: what is staged goes before, in batches of its own, and then the decision.
fn crash_of_publication(activities: u64) -> u64 {
    match activities {
        200..=400 => 3,
        _ => panic!("say how many writes the staging of {activities} activities takes"),
    }
}
