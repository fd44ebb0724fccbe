//! Turns by hand, and a runtime for whole lives.

use duroxide::providers::{
    ExecutionMetadata, Provider, ProviderError, ScheduledActivityIdentifier, TagFilter, WorkItem,
};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Event, EventKind, OrchestrationRegistry};
use duroxide_cosmos::{ClaimedWork, CosmosProvider, Fetched, TurnItem};
use std::sync::Arc;
use std::time::Duration;
use tests::World;

/// How long locks last.
pub const HOLD: Duration = Duration::from_secs(30);
/// Longer than any lock.
pub const LATER: Duration = Duration::from_secs(31);
/// Longer than what a repair waits for.
pub const REPAIRABLE: Duration = Duration::from_secs(60);

/// A request that is held for long is not given up by its client.
pub const PATIENT: Duration = Duration::from_secs(300);

/// What a hand-made turn decides; the execution is the first unless told.
pub struct Decision {
    pub execution: u64,
    pub events: Vec<Event>,
    pub work: Vec<WorkItem>,
    pub messages: Vec<WorkItem>,
    pub metadata: ExecutionMetadata,
}

impl Default for Decision {
    fn default() -> Self {
        Decision {
            execution: 1,
            events: Vec::new(),
            work: Vec::new(),
            messages: Vec::new(),
            metadata: named(),
        }
    }
}

pub fn named() -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Edge".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    }
}

pub fn ended(status: &str, output: &str) -> ExecutionMetadata {
    ExecutionMetadata {
        status: Some(status.to_owned()),
        output: Some(output.to_owned()),
        ..named()
    }
}

pub fn start_of(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Edge".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

pub fn raised(instance: &str, data: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: "go".to_owned(),
        data: data.to_owned(),
    }
}

pub fn activity(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        name: "Act".to_owned(),
        input: "in".to_owned(),
        session_id: None,
        tag: None,
    }
}

pub fn done(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        result: "out".to_owned(),
    }
}

pub fn event(instance: &str, execution: u64, id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, instance, execution, None, kind)
}

pub fn started(instance: &str, execution: u64) -> Event {
    let kind = EventKind::OrchestrationStarted {
        name: "Edge".to_owned(),
        version: "1.0.0".to_owned(),
        input: "{}".to_owned(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    event(instance, execution, 1, kind)
}

pub fn scheduled(instance: &str, id: u64) -> Event {
    let (name, input) = ("Act".to_owned(), "in".to_owned());
    event(
        instance,
        1,
        id,
        EventKind::ActivityScheduled {
            name,
            input,
            session_id: None,
            tag: None,
        },
    )
}

pub fn heard(instance: &str, execution: u64, id: u64) -> Event {
    event(
        instance,
        execution,
        id,
        EventKind::ExternalEvent {
            name: "go".to_owned(),
            data: String::new(),
        },
    )
}

pub async fn enqueue(provider: &CosmosProvider, item: WorkItem) {
    provider
        .enqueue_for_orchestrator(item, None)
        .await
        .expect("the message is queued");
}

/// Claims the instance's turn, which must be there.
pub async fn turn(provider: &CosmosProvider, instance: &str) -> TurnItem {
    match provider
        .fetch_turn(instance, HOLD, None)
        .await
        .expect("the fetch succeeds")
    {
        Fetched::Ready(turn) => turn,
        other => panic!("no turn for {instance:?}: {other:?}"),
    }
}

pub async fn commit(provider: &CosmosProvider, token: &str, decision: Decision) -> Result<(), ProviderError> {
    let Decision {
        execution,
        events,
        work,
        messages,
        metadata,
    } = decision;
    provider
        .ack_orchestration_item(token, execution, events, work, messages, metadata, Vec::new())
        .await
}

/// Starts an instance and commits its first turn, with `activities` numbered from 2.
pub async fn begin_with(provider: &CosmosProvider, instance: &str, activities: u64, metadata: ExecutionMetadata) {
    enqueue(provider, start_of(instance)).await;
    let turn = turn(provider, instance).await;
    let mut events = vec![started(instance, 1)];
    events.extend((2..2 + activities).map(|id| scheduled(instance, id)));
    let work = (2..2 + activities).map(|id| activity(instance, id)).collect();
    let decision = Decision {
        events,
        work,
        metadata,
        ..Decision::default()
    };
    commit(provider, &turn.lock_token, decision)
        .await
        .expect("the first turn commits");
}

pub async fn begin(provider: &CosmosProvider, instance: &str) {
    begin_with(provider, instance, 0, named()).await;
}

/// Claims an activity, which must be there.
pub async fn work(provider: &CosmosProvider, instance: &str, activity_id: u64) -> ClaimedWork {
    let activity = ScheduledActivityIdentifier {
        instance: instance.to_owned(),
        execution_id: 1,
        activity_id,
    };
    match provider
        .fetch_work(&activity, HOLD, None, &TagFilter::DefaultOnly)
        .await
        .expect("the fetch succeeds")
    {
        Fetched::Ready(claimed) => claimed,
        other => panic!("no activity {activity_id} for {instance:?}: {other:?}"),
    }
}

/// Every document, byte for byte, in a fixed order.
pub async fn snapshot(world: &World) -> Vec<String> {
    let mut all: Vec<String> = world.documents().await.iter().map(ToString::to_string).collect();
    all.sort();
    all
}

/// A runtime that polls quickly.
pub async fn run(
    provider: &Arc<CosmosProvider>,
    activities: ActivityRegistry,
    orchestrations: OrchestrationRegistry,
) -> Arc<Runtime> {
    let store: Arc<dyn Provider> = Arc::clone(provider) as Arc<dyn Provider>;
    let options = RuntimeOptions {
        orchestration_concurrency: 4,
        worker_concurrency: 4,
        dispatcher_long_poll_timeout: Duration::from_millis(500),
        // A busy machine must not poison a turn of many megabytes.
        orchestrator_lock_timeout: Duration::from_secs(60),
        // A session is kept while it is not idle: each instance of a test may have one.
        max_sessions_per_runtime: 100,
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(store, activities, orchestrations, options).await
}
