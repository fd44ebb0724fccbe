//! Turns made by hand: work items, events and commits without duroxide's runtime; and a runtime for whole orchestrations.
//!
//! Tests move time with a [`crate::ManualClock`], so a lock expires without waiting.

use crate::World;
use duroxide::providers::{
    ExecutionMetadata, Provider, ProviderError, ScheduledActivityIdentifier, TagFilter, WorkItem,
};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Event, EventKind, OrchestrationRegistry};
use duroxide_cosmos::{ClaimedWork, CosmosProvider, Fetched, Target, TurnDecision, TurnItem, WorkTarget};
use std::sync::Arc;
use std::time::Duration;

/// How long locks last.
pub const LOCK: Duration = Duration::from_secs(30);
/// Longer than any lock.
pub const LATER: Duration = Duration::from_secs(31);
/// Longer than the age from which on any process may repair.
pub const REPAIRABLE: Duration = Duration::from_secs(60);
/// A timeout for clients whose requests are paused for long.
pub const PATIENT: Duration = Duration::from_secs(300);

/// What a hand-made turn decides, by default in the first execution.
pub struct Decision {
    /// The execution.
    pub execution: u64,
    /// The events that are appended to the history.
    pub events: Vec<Event>,
    /// The activities that are scheduled.
    pub work: Vec<WorkItem>,
    /// The messages for this and other instances.
    pub messages: Vec<WorkItem>,
    /// Name, status and output.
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

impl Decision {
    /// A turn that only appends events.
    pub fn of(events: Vec<Event>) -> Decision {
        Decision {
            events,
            ..Decision::default()
        }
    }

    /// The first turn of an instance, which schedules so many activities, numbered from 2.
    pub fn first(instance: &str, activities: u64) -> Decision {
        let ids = 2..2 + activities;
        let scheduled = ids.clone().map(|id| scheduled(instance, id));
        Decision {
            events: std::iter::once(started(instance, 1)).chain(scheduled).collect(),
            work: ids.map(|id| activity(instance, id)).collect(),
            ..Decision::default()
        }
    }
}

/// The metadata of a turn that goes on.
pub fn named() -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Sample".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    }
}

/// The metadata of a turn that ends its execution.
pub fn ended(status: &str, output: &str) -> ExecutionMetadata {
    ExecutionMetadata {
        status: Some(status.to_owned()),
        output: Some(output.to_owned()),
        ..named()
    }
}

/// The start of an instance.
pub fn start_of(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Sample".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

/// An external event for an instance.
pub fn raised(instance: &str, data: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: "go".to_owned(),
        data: data.to_owned(),
    }
}

/// An activity to run.
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

/// The completion of an activity.
pub fn done(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        result: "out".to_owned(),
    }
}

/// Any event without a source.
pub fn event(instance: &str, execution: u64, id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, instance, execution, None, kind)
}

/// The first event of an execution.
pub fn started(instance: &str, execution: u64) -> Event {
    let kind = EventKind::OrchestrationStarted {
        name: "Sample".to_owned(),
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

/// The event that schedules [`activity`].
pub fn scheduled(instance: &str, id: u64) -> Event {
    let kind = EventKind::ActivityScheduled {
        name: "Act".to_owned(),
        input: "in".to_owned(),
        session_id: None,
        tag: None,
    };
    event(instance, 1, id, kind)
}

/// The event that records [`raised`].
pub fn heard(instance: &str, execution: u64, id: u64) -> Event {
    let kind = EventKind::ExternalEvent {
        name: "go".to_owned(),
        data: String::new(),
    };
    event(instance, execution, id, kind)
}

/// Queues a message, which must succeed.
pub async fn enqueue(provider: &CosmosProvider, item: WorkItem) {
    provider
        .enqueue_for_orchestrator(item, None)
        .await
        .expect("the message is queued");
}

/// Claims the instance's turn, which must be there.
pub async fn turn(provider: &CosmosProvider, instance: &str) -> TurnItem {
    ready(fetch_turn(provider, instance).await)
}

/// Fetches the instance's turn, again after a commit that the fetch had to complete.
pub async fn fetch_turn(provider: &CosmosProvider, instance: &str) -> Fetched<TurnItem> {
    loop {
        let fetched = provider.fetch_turn(instance, LOCK, None).await;
        match fetched.expect("the fetch succeeds") {
            Fetched::RolledForward { .. } => {}
            fetched => return fetched,
        }
    }
}

/// What a fetch claimed, which must be something.
#[track_caller]
pub fn ready<T: std::fmt::Debug>(fetched: Fetched<T>) -> T {
    match fetched {
        Fetched::Ready(item) => item,
        other => panic!("the fetch claims something, but found {other:?}"),
    }
}

/// Commits a turn.
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

/// Starts an instance and commits its first turn. Answers its activities as their wakeups would name them.
pub async fn written_work(provider: &CosmosProvider, instance: &str, decision: Decision) -> Vec<WorkTarget> {
    enqueue(provider, start_of(instance)).await;
    let turn = turn(provider, instance).await;
    let decision = TurnDecision {
        execution: decision.execution,
        events: decision.events,
        work: decision.work,
        messages: decision.messages,
        metadata: decision.metadata,
        ..TurnDecision::default()
    };
    let commit = provider.commit_turn(&turn.lock_token, decision);
    commit.done.await.expect("the first turn commits");
    let due = commit.decided.with_versions(commit.due);
    due.into_iter()
        .filter_map(|due| match due.target {
            Target::Work(work) => Some(work),
            Target::Turn { .. } | Target::Batch { .. } => None,
        })
        .collect()
}

/// Starts an instance and commits its first turn, with `activities` numbered from 2.
pub async fn begin_with(provider: &CosmosProvider, instance: &str, activities: u64, metadata: ExecutionMetadata) {
    enqueue(provider, start_of(instance)).await;
    let turn = turn(provider, instance).await;
    let decision = Decision {
        metadata,
        ..Decision::first(instance, activities)
    };
    commit(provider, &turn.lock_token, decision)
        .await
        .expect("the first turn commits");
}

/// Starts an instance and commits its first turn.
pub async fn begin(provider: &CosmosProvider, instance: &str) {
    begin_with(provider, instance, 0, named()).await;
}

/// The identity of an activity in the first execution.
pub fn activity_id(instance: &str, activity_id: u64) -> ScheduledActivityIdentifier {
    ScheduledActivityIdentifier {
        instance: instance.to_owned(),
        execution_id: 1,
        activity_id,
    }
}

/// Claims an activity, which must be there.
pub async fn work(provider: &CosmosProvider, instance: &str, id: u64) -> ClaimedWork {
    let fetched = provider
        .fetch_work(&activity_id(instance, id), LOCK, None, &TagFilter::DefaultOnly)
        .await;
    ready(fetched.expect("the fetch succeeds"))
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
        // On a busy machine a turn of many megabytes takes long; it must not count as given up.
        orchestrator_lock_timeout: Duration::from_secs(60),
        // A session is kept while it is not idle: each instance of a test may have one.
        max_sessions_per_runtime: 100,
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(store, activities, orchestrations, options).await
}
