//! The budgets of the design, counted at the server's listener: how many requests each operation takes, and how many of
//! them wait for each other.
//!
//! While an operation is billed the listener is slow, so that requests which are sent together are also seen together:
//! a chain of `n` requests of which none overlaps is `n` round trips, however fast the machine is.

use cosmos_emulator::{Counts, Faults, Listener, RequestKind, ServerOptions, sequential_round_trips};
use duroxide::providers::{
    ExecutionMetadata, Provider, ProviderAdmin, ScheduledActivityIdentifier, TagFilter, WorkItem,
};
use duroxide::{Client, Event, EventKind, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID};
use duroxide_cosmos::{ClaimedWork, CosmosProvider, Fetched, TurnItem};
use futures::StreamExt as _;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tests::{World, connect};

/// Longer than any test.
const LOCK: Duration = Duration::from_secs(3_600);
const PARTITIONS: u32 = 4;
/// Long enough that requests of one moment overlap on a busy machine.
const SLOW: Duration = Duration::from_millis(500);

/// What an operation cost.
#[derive(Debug)]
struct Bill {
    counts: Counts,
    kinds: Vec<RequestKind>,
    rounds: usize,
}

impl Bill {
    /// Fails unless the cost is exactly this.
    #[track_caller]
    fn is(&self, requests: u64, rounds: usize) {
        assert_eq!(
            (self.counts.requests, self.rounds),
            (requests, rounds),
            "requests and rounds: {:?}",
            self.kinds
        );
        assert_eq!(
            self.counts.cross_partition_queries, 0,
            "no directed call asks all partitions: {:?}",
            self.kinds
        );
    }

    /// Fails when the cost is over this.
    #[track_caller]
    fn is_within(&self, requests: u64, rounds: usize) {
        let within = self.counts.requests <= requests && self.rounds <= rounds;
        assert!(
            within,
            "over {requests} requests or {rounds} rounds: {} in {}, {:?}",
            self.counts.requests, self.rounds, self.kinds
        );
        assert_eq!(
            self.counts.cross_partition_queries, 0,
            "no directed call asks all partitions: {:?}",
            self.kinds
        );
    }
}

async fn bill<T>(listener: &Listener, operation: impl Future<Output = T>) -> (T, Bill) {
    listener.set_faults(Faults {
        delay: Some(SLOW),
        ..Faults::default()
    });
    listener.reset();
    let answer = operation.await;
    let (counts, log) = (listener.counts(), listener.log());
    listener.clear_faults();
    let kinds = log.iter().map(|record| record.kind).collect();
    (
        answer,
        Bill {
            counts,
            kinds,
            rounds: sequential_round_trips(&log),
        },
    )
}

async fn world() -> World {
    World::local(ServerOptions {
        partitions: PARTITIONS,
        ..ServerOptions::default()
    })
    .await
}

#[track_caller]
fn ready<T: std::fmt::Debug>(fetched: Fetched<T>) -> T {
    match fetched {
        Fetched::Ready(item) => item,
        other => panic!("the fetch claims something, but found {other:?}"),
    }
}

fn start_of(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Budget".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: INITIAL_EXECUTION_ID,
    }
}

fn event(instance: &str, id: u64, source: Option<u64>, kind: EventKind) -> Event {
    Event::with_event_id(id, instance, INITIAL_EXECUTION_ID, source, kind)
}

fn started(instance: &str) -> Event {
    let kind = EventKind::OrchestrationStarted {
        name: "Budget".to_owned(),
        version: "1.0.0".to_owned(),
        input: "{}".to_owned(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    event(instance, INITIAL_EVENT_ID, None, kind)
}

fn named() -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Budget".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    }
}

/// What a turn decided.
#[derive(Default)]
struct Turn {
    events: Vec<Event>,
    work: Vec<WorkItem>,
    messages: Vec<WorkItem>,
    metadata: ExecutionMetadata,
}

impl Turn {
    /// The first turn of an instance, which schedules so many activities: events 2, 3, ...
    fn first(instance: &str, activities: u64) -> Turn {
        let mut turn = Turn {
            events: vec![started(instance)],
            metadata: named(),
            ..Turn::default()
        };
        for id in INITIAL_EVENT_ID + 1..=INITIAL_EVENT_ID + activities {
            let (name, input) = ("Greet".to_owned(), format!("city {id}"));
            let scheduled = EventKind::ActivityScheduled {
                name: name.clone(),
                input: input.clone(),
                session_id: None,
                tag: None,
            };
            turn.events.push(event(instance, id, None, scheduled));
            turn.work.push(WorkItem::ActivityExecute {
                instance: instance.to_owned(),
                execution_id: INITIAL_EXECUTION_ID,
                id,
                name,
                input,
                session_id: None,
                tag: None,
            });
        }
        turn
    }

    /// The turn that takes the result of activity 2 and completes.
    fn last(instance: &str) -> Turn {
        let result = EventKind::ActivityCompleted {
            result: "Hello".to_owned(),
        };
        let completed = EventKind::OrchestrationCompleted {
            output: "Hello".to_owned(),
        };
        Turn {
            events: vec![event(instance, 3, Some(2), result), event(instance, 4, None, completed)],
            metadata: ExecutionMetadata {
                status: Some("Completed".to_owned()),
                output: Some("Hello".to_owned()),
                ..ExecutionMetadata::default()
            },
            ..Turn::default()
        }
    }
}

async fn enqueue(provider: &CosmosProvider, item: WorkItem) {
    provider
        .enqueue_for_orchestrator(item, None)
        .await
        .expect("a message can be queued");
}

async fn fetch(provider: &CosmosProvider, instance: &str) -> Fetched<TurnItem> {
    provider
        .fetch_turn(instance, LOCK, None)
        .await
        .expect("the store can be asked")
}

async fn commit(provider: &CosmosProvider, token: &str, turn: Turn) {
    let Turn {
        events,
        work,
        messages,
        metadata,
    } = turn;
    provider
        .ack_orchestration_item(
            token,
            INITIAL_EXECUTION_ID,
            events,
            work,
            messages,
            metadata,
            Vec::new(),
        )
        .await
        .expect("the turn commits");
}

/// An instance that has had its first turn.
async fn begun(provider: &CosmosProvider, instance: &str, activities: u64) {
    enqueue(provider, start_of(instance)).await;
    let turn = ready(fetch(provider, instance).await);
    commit(provider, &turn.lock_token, Turn::first(instance, activities)).await;
}

fn activity(instance: &str, id: u64) -> ScheduledActivityIdentifier {
    ScheduledActivityIdentifier {
        instance: instance.to_owned(),
        execution_id: INITIAL_EXECUTION_ID,
        activity_id: id,
    }
}

async fn fetch_work(provider: &CosmosProvider, instance: &str, id: u64) -> Fetched<ClaimedWork> {
    let fetched = provider
        .fetch_work(&activity(instance, id), LOCK, None, &TagFilter::Any)
        .await;
    fetched.expect("the store can be asked")
}

fn result_of(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.to_owned(),
        execution_id: INITIAL_EXECUTION_ID,
        id,
        result: "Hello".to_owned(),
    }
}

fn raised(instance: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: "Go".to_owned(),
        data: "1".to_owned(),
    }
}

#[tokio::test]
async fn making_a_provider_sends_nothing() {
    let world = world().await;
    world.listener().reset();
    let provider = world.provider().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.listener().counts(), Counts::default());
    enqueue(&provider, start_of("i")).await;
    assert_eq!(world.listener().counts().requests, 1, "the counter does count");
}

#[tokio::test]
async fn nothing_is_sent_while_nobody_calls() {
    let world = world().await;
    let provider = connect(world.builder().sweep_interval(Duration::from_millis(20))).await;
    begun(&provider, "i", 2).await;
    let claimed = ready(fetch_work(&provider, "i", 2).await);
    provider
        .ack_work_item(&claimed.lock_token, Some(result_of("i", 2)))
        .await
        .expect("the activity completes");
    let waited = provider
        .fetch_orchestration_item(LOCK, Duration::from_millis(100), None)
        .await;
    assert!(
        waited.expect("the store can be asked").is_some(),
        "there is a turn to hold"
    );
    world.listener().reset();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.listener().counts(), Counts::default());
}

#[tokio::test]
async fn every_way_of_queueing_is_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
    let listener = world.listener();

    let (done, cost) = bill(listener, client.start_orchestration("i", "Budget", "{}")).await;
    done.expect("it starts");
    cost.is(1, 1);
    let (done, cost) = bill(listener, client.raise_event("i", "Go", "1")).await;
    done.expect("the event is raised");
    cost.is(1, 1);
    let (done, cost) = bill(listener, client.enqueue_event("i", "inbox", "1")).await;
    done.expect("the event is queued");
    cost.is(1, 1);
    let (done, cost) = bill(listener, client.cancel_instance("i", "enough")).await;
    done.expect("the cancellation is queued");
    cost.is(1, 1);
    let (_, cost) = bill(listener, enqueue(&provider, raised("i"))).await;
    cost.is(1, 1);
    let work = Turn::first("i", 1).work.remove(0);
    let (done, cost) = bill(listener, provider.enqueue_for_worker(work)).await;
    done.expect("the activity is queued");
    cost.is(1, 1);
}

#[tokio::test]
async fn the_first_turn_is_fetched_with_two_requests() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let (turn, cost) = bill(world.listener(), fetch(&provider, "i")).await;
    assert_eq!(ready(turn).item.messages.len(), 1);
    cost.is(2, 2);
}

#[tokio::test]
async fn a_later_turn_is_fetched_with_three_requests_in_two_rounds() {
    let world = world().await;
    let provider = world.provider().await;
    begun(&provider, "i", 5).await;
    enqueue(&provider, raised("i")).await;
    let (turn, cost) = bill(world.listener(), fetch(&provider, "i")).await;
    assert_eq!(ready(turn).item.history.len(), 6);
    cost.is_within(3, 2);
}

#[tokio::test]
async fn a_process_that_never_saw_the_instance_fetches_as_cheaply() {
    let world = world().await;
    let (first, second) = (world.provider().await, world.provider().await);
    begun(&first, "i", 5).await;
    enqueue(&first, raised("i")).await;
    let (turn, cost) = bill(world.listener(), fetch(&second, "i")).await;
    assert_eq!(ready(turn).item.history.len(), 6);
    cost.is_within(3, 2);
}

#[tokio::test]
async fn a_turn_that_takes_fifty_messages_costs_as_much_as_one_that_takes_one() {
    let world = world().await;
    let provider = world.provider().await;
    begun(&provider, "i", 0).await;
    for _ in 0..50 {
        enqueue(&provider, raised("i")).await;
    }
    let (turn, cost) = bill(world.listener(), fetch(&provider, "i")).await;
    let turn = ready(turn);
    assert_eq!(turn.item.messages.len(), 50);
    cost.is_within(3, 2);
    let taken = event(
        "i",
        2,
        None,
        EventKind::ExternalEvent {
            name: "Go".to_owned(),
            data: "1".to_owned(),
        },
    );
    let decision = Turn {
        events: vec![taken],
        ..Turn::default()
    };
    let ((), cost) = bill(world.listener(), commit(&provider, &turn.lock_token, decision)).await;
    cost.is(1, 1);
    assert!(world.documents_of("message").await.is_empty(), "all fifty are consumed");
}

#[tokio::test]
async fn a_commit_of_eighty_activities_is_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let turn = ready(fetch(&provider, "i").await);
    let ((), cost) = bill(
        world.listener(),
        commit(&provider, &turn.lock_token, Turn::first("i", 80)),
    )
    .await;
    cost.is(1, 1);
    assert_eq!((cost.counts.batches, world.documents_of("work").await.len()), (1, 80));
}

#[tokio::test]
async fn a_commit_of_ninety_documents_is_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let turn = ready(fetch(&provider, "i").await);
    // With the lock, the instance, its history and the consumed start: 94 operations.
    let ((), cost) = bill(
        world.listener(),
        commit(&provider, &turn.lock_token, Turn::first("i", 90)),
    )
    .await;
    cost.is(1, 1);
    assert_eq!(cost.counts.batch_operations, 94);
}

#[tokio::test]
async fn a_fan_out_to_a_thousand_activities_commits_in_few_requests() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let turn = ready(fetch(&provider, "i").await);
    world.listener().reset();
    commit(&provider, &turn.lock_token, Turn::first("i", 1_000)).await;
    let counts = world.listener().counts();
    // 1 look at the consumed message, 1 batch that stages, 1 that decides, 10 publications.
    assert!(
        counts.batches <= 12,
        "batches of a commit of 1,000 activities: {counts:?}"
    );
    assert!(
        counts.requests <= FAN_OUT_REQUESTS,
        "requests of a commit of 1,000 activities: {counts:?}"
    );
    assert_eq!(counts.cross_partition_queries, 0);
    assert_eq!(world.documents_of("work").await.len(), 1_000);
    assert_eq!(
        world.documents_of("staged").await.len() + world.documents_of("staged-head").await.len(),
        0
    );
}

/// The batches, and the look at the consumed message.
const FAN_OUT_REQUESTS: u64 = 13;

#[tokio::test]
async fn a_wakeup_that_finds_nothing_costs_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    let (nothing, cost) = bill(world.listener(), fetch(&provider, "unknown")).await;
    assert!(matches!(nothing, Fetched::Nothing), "{nothing:?}");
    cost.is(1, 1);

    begun(&provider, "i", 1).await;
    let (nothing, cost) = bill(world.listener(), fetch(&provider, "i")).await;
    assert!(matches!(nothing, Fetched::Nothing), "{nothing:?}");
    cost.is(1, 1);

    let (nothing, cost) = bill(world.listener(), fetch_work(&provider, "i", 99)).await;
    assert!(matches!(nothing, Fetched::Nothing), "{nothing:?}");
    cost.is(1, 1);
}

#[tokio::test]
async fn a_wakeup_that_meets_a_held_lock_costs_one_request() {
    let world = world().await;
    let (holder, other) = (world.provider().await, world.provider().await);
    begun(&holder, "i", 1).await;
    enqueue(&holder, raised("i")).await;
    ready(fetch(&holder, "i").await);
    for provider in [&holder, &other] {
        let (busy, cost) = bill(world.listener(), fetch(provider, "i")).await;
        assert!(matches!(busy, Fetched::Busy { .. }), "{busy:?}");
        cost.is(1, 1);
    }
    ready(fetch_work(&holder, "i", 2).await);
    for provider in [&holder, &other] {
        let (busy, cost) = bill(world.listener(), fetch_work(provider, "i", 2)).await;
        assert!(matches!(busy, Fetched::Busy { .. }), "{busy:?}");
        cost.is(1, 1);
    }
}

#[tokio::test]
async fn an_activity_is_fetched_and_completed_with_three_requests() {
    let world = world().await;
    let (orchestrator, worker) = (world.provider().await, world.provider().await);
    begun(&orchestrator, "i", 1).await;
    let (done, cost) = bill(world.listener(), async {
        let claimed = ready(fetch_work(&worker, "i", 2).await);
        worker.ack_work_item(&claimed.lock_token, Some(result_of("i", 2))).await
    })
    .await;
    done.expect("the activity completes");
    cost.is_within(3, 3);
    assert_eq!(world.documents_of("message").await.len(), 1, "its result is queued");
}

#[tokio::test]
async fn a_renewal_is_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    begun(&provider, "i", 1).await;
    enqueue(&provider, raised("i")).await;
    let turn = ready(fetch(&provider, "i").await);
    let claimed = ready(fetch_work(&provider, "i", 2).await);
    for _ in 0..2 {
        let (renewed, cost) = bill(
            world.listener(),
            provider.renew_orchestration_item_lock(&turn.lock_token, LOCK),
        )
        .await;
        renewed.expect("the turn is held longer");
        cost.is(1, 1);
        let (renewed, cost) = bill(
            world.listener(),
            provider.renew_work_item_lock(&claimed.lock_token, LOCK),
        )
        .await;
        renewed.expect("the activity is held longer");
        cost.is(1, 1);
    }
    // What was renewed commits as cheaply as ever.
    let ((), cost) = bill(world.listener(), commit(&provider, &turn.lock_token, Turn::last("i"))).await;
    cost.is(1, 1);
    let done = provider.ack_work_item(&claimed.lock_token, Some(result_of("i", 2)));
    let (done, cost) = bill(world.listener(), done).await;
    done.expect("the activity completes");
    cost.is(1, 1);
}

#[tokio::test]
async fn giving_back_is_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    begun(&provider, "i", 1).await;
    enqueue(&provider, raised("i")).await;
    let turn = ready(fetch(&provider, "i").await);
    let (done, cost) = bill(
        world.listener(),
        provider.abandon_orchestration_item(&turn.lock_token, None, false),
    )
    .await;
    done.expect("the turn is given back");
    cost.is(1, 1);
    let claimed = ready(fetch_work(&provider, "i", 2).await);
    let (done, cost) = bill(
        world.listener(),
        provider.abandon_work_item(&claimed.lock_token, None, false),
    )
    .await;
    done.expect("the activity is given back");
    cost.is(1, 1);
}

#[tokio::test]
async fn the_status_of_an_instance_is_two_requests() {
    let world = world().await;
    let provider = world.provider().await;
    begun(&provider, "i", 1).await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
    let listener = world.listener();
    // duroxide's client asks for the history and then for the custom status: one request of ours for each.
    let (status, cost) = bill(listener, client.get_orchestration_status("i")).await;
    assert!(
        matches!(status, Ok(duroxide::OrchestrationStatus::Running { .. })),
        "{status:?}"
    );
    cost.is(2, 2);
    let (history, cost) = bill(listener, provider.read("i")).await;
    assert_eq!(history.expect("the history can be read").len(), 2);
    cost.is(1, 1);
    let (info, cost) = bill(listener, provider.get_instance_info("i")).await;
    assert_eq!(info.expect("the instance is known").status, "Running");
    cost.is(1, 1);
}

#[tokio::test]
async fn keys_and_custom_status_are_one_request_each() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let turn = ready(fetch(&provider, "i").await);
    let set = |key: &str| EventKind::KeyValueSet {
        key: key.to_owned(),
        value: format!("{key}!"),
        last_updated_at_ms: 1,
    };
    let mut decision = Turn::first("i", 0);
    decision.events.push(event(
        "i",
        2,
        None,
        EventKind::CustomStatusUpdated {
            status: Some("busy".to_owned()),
        },
    ));
    decision.events.push(event("i", 3, None, set("a")));
    decision.events.push(event("i", 4, None, set("b")));
    let ((), cost) = bill(world.listener(), commit(&provider, &turn.lock_token, decision)).await;
    cost.is(1, 1);

    let (status, cost) = bill(world.listener(), provider.get_custom_status("i", 0)).await;
    assert_eq!(
        status.expect("the status can be read"),
        Some((Some("busy".to_owned()), 1))
    );
    cost.is(1, 1);
    let (value, cost) = bill(world.listener(), provider.get_kv_value("i", "a")).await;
    assert_eq!(value.expect("the key can be read").as_deref(), Some("a!"));
    cost.is(1, 1);
    let (values, cost) = bill(world.listener(), provider.get_kv_all_values("i")).await;
    assert_eq!(values.expect("the keys can be read").len(), 2);
    cost.is(1, 1);
}

#[tokio::test]
async fn a_child_start_adds_its_delivery_and_the_removal_of_the_intent() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("parent")).await;
    let turn = ready(fetch(&provider, "parent").await);
    let mut decision = Turn::first("parent", 0);
    let scheduled = EventKind::SubOrchestrationScheduled {
        name: "Budget".to_owned(),
        instance: "child".to_owned(),
        input: "{}".to_owned(),
    };
    decision.events.push(event("parent", 2, None, scheduled));
    decision.messages.push(WorkItem::StartOrchestration {
        instance: "child".to_owned(),
        orchestration: "Budget".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: Some("parent".to_owned()),
        parent_id: Some(2),
        parent_execution_id: Some(INITIAL_EXECUTION_ID),
        execution_id: INITIAL_EXECUTION_ID,
    });
    let ((), cost) = bill(world.listener(), commit(&provider, &turn.lock_token, decision)).await;
    cost.is(3, 3);
    assert!(world.documents_of("intent").await.is_empty());
    assert_eq!(world.documents_of("message").await.len(), 1, "the child can begin");
}

#[tokio::test]
async fn a_one_activity_orchestration_takes_at_most_twelve_requests_and_never_asks_all_partitions() {
    let world = world().await;
    // As in functions: each step runs in a process of its own.
    let client = world.provider().await;
    let orchestrator = world.provider().await;
    let worker = world.provider().await;
    let second_orchestrator = world.provider().await;
    let listener = world.listener();
    listener.reset();

    enqueue(&client, start_of("i")).await;
    let turn = ready(fetch(&orchestrator, "i").await);
    commit(&orchestrator, &turn.lock_token, Turn::first("i", 1)).await;
    let claimed = ready(fetch_work(&worker, "i", 2).await);
    worker
        .ack_work_item(&claimed.lock_token, Some(result_of("i", 2)))
        .await
        .expect("the activity completes");
    let turn = ready(fetch(&second_orchestrator, "i").await);
    commit(&second_orchestrator, &turn.lock_token, Turn::last("i")).await;

    let counts = listener.counts();
    assert!(counts.requests <= 12, "{counts:?}");
    assert_eq!(
        (counts.cross_partition_queries, counts.pkranges, counts.metadata),
        (0, 0, 0),
        "{counts:?}"
    );
    let info = client.get_instance_info("i").await.expect("the instance is known");
    assert_eq!(
        (info.status.as_str(), info.output.as_deref()),
        ("Completed", Some("Hello"))
    );
}

/// The cost of one undirected fetch.
async fn sweep(world: &World, provider: &CosmosProvider) -> (bool, Counts) {
    world.listener().reset();
    let found = provider
        .fetch_orchestration_item(LOCK, Duration::ZERO, None)
        .await
        .expect("the store can be asked");
    (found.is_some(), world.listener().counts())
}

#[tokio::test]
async fn an_idle_fetch_is_one_query_for_each_physical_partition() {
    let world = world().await;
    let provider = world.provider().await;
    let (found, first) = sweep(&world, &provider).await;
    assert!(!found);
    assert_eq!(
        (first.requests, first.cross_partition_queries, first.pkranges),
        (5, 4, 1),
        "the ranges are listed once"
    );
    for _ in 0..3 {
        let (_, again) = sweep(&world, &provider).await;
        assert_eq!((again.requests, again.cross_partition_queries), (4, 4), "{again:?}");
    }
    world.listener().reset();
    let work = provider
        .fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any)
        .await;
    assert!(work.expect("the store can be asked").is_none());
    let counts = world.listener().counts();
    assert_eq!((counts.requests, counts.cross_partition_queries), (4, 4), "{counts:?}");
}

#[tokio::test]
async fn an_idle_fetch_after_a_long_pause_still_sweeps_once() {
    let world = world().await;
    let provider = connect(world.builder().sweep_interval(Duration::from_millis(1))).await;
    sweep(&world, &provider).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (found, counts) = sweep(&world, &provider).await;
    assert!(!found);
    assert_eq!(
        (counts.requests, counts.cross_partition_queries),
        (4, 4),
        "turns: {counts:?}"
    );
    world.listener().reset();
    let work = provider
        .fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any)
        .await;
    assert!(work.expect("the store can be asked").is_none());
    let counts = world.listener().counts();
    assert_eq!(
        (counts.requests, counts.cross_partition_queries),
        (4, 4),
        "work: {counts:?}"
    );
}

#[tokio::test]
async fn a_sweep_asks_all_partitions_at_once() {
    let world = world().await;
    let provider = world.provider().await;
    sweep(&world, &provider).await;
    let idle = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    let (_, cost) = bill(world.listener(), idle).await;
    assert_eq!(
        (cost.counts.cross_partition_queries, cost.rounds),
        (4, 1),
        "{:?}",
        cost.kinds
    );
}

#[tokio::test]
async fn a_sweep_that_takes_longer_than_the_interval_is_not_repeated_before_its_finds_are_used() {
    let world = world().await;
    let client = world.provider().await;
    for name in ["a", "b", "c"] {
        enqueue(&client, start_of(name)).await;
    }
    let stranger = connect(world.builder().sweep_interval(SLOW / 2)).await;
    let (found, cost) = bill(
        world.listener(),
        stranger.fetch_orchestration_item(LOCK, Duration::ZERO, None),
    )
    .await;
    assert!(found.expect("the store can be asked").is_some());
    assert_eq!(
        cost.counts.cross_partition_queries,
        u64::from(PARTITIONS),
        "{:?}",
        cost.kinds
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_costs_the_same_with_ten_and_ten_thousand_queued_instances() {
    let world = world().await;
    let client = world.provider().await;
    let mut costs = Vec::new();
    let mut queued = 0;
    for backlog in [10, 1_000, 10_000] {
        let names = (queued..backlog).map(|n| format!("instance-{n:05}"));
        let starts = futures::stream::iter(names).map(|name| {
            let client = Arc::clone(&client);
            async move { enqueue(&client, start_of(&name)).await }
        });
        starts.buffer_unordered(64).collect::<Vec<()>>().await;
        queued = backlog;
        // A process without hints, whose interval does not end in the middle of the test.
        let stranger = connect(world.builder().sweep_interval(Duration::from_secs(3_600))).await;
        world.listener().reset();
        let fetched = stranger.fetch_orchestration_item(LOCK, Duration::ZERO, None).await;
        costs.push(world.listener().counts());
        let (item, token, _) = fetched.expect("the store can be asked").expect("a backlog is found");
        // Out of the way of the next sweep.
        commit(&stranger, &token, Turn::first(&item.instance, 0)).await;
    }
    let bytes: Vec<u64> = costs.iter().map(|counts| counts.response_bytes).collect();
    println!("bytes of a sweep at 10, 1,000 and 10,000: {bytes:?}");
    for counts in &costs {
        assert_eq!(
            (counts.pkranges, counts.cross_partition_queries),
            (1, u64::from(PARTITIONS)),
            "{costs:?}"
        );
        // The list of ranges, the sweep, and the directed fetch of a first turn.
        assert_eq!(counts.requests, 1 + u64::from(PARTITIONS) + 2, "{costs:?}");
    }
    // Once every partition fills its page the answer stops growing.
    assert!(
        bytes[2] * 10 <= bytes[1] * 11,
        "bytes at 10, 1,000 and 10,000: {bytes:?}"
    );
    assert!(bytes[2] < 100_000, "bytes at 10, 1,000 and 10,000: {bytes:?}");
}
