//! Turns that do not fit one batch, killed at every write of their commit: whole or not at all.
//!
//! The turns are made by hand, so that each run is exactly the turn in question. What is compared is what anybody can
//! see of the instance: its history, its queue and its activities, before the turn or after it, nothing between.

use super::kill::{AFTERWARDS, BOTH, nothing_is_left_behind, provider_through, until};
use cosmos_emulator::{CrashPoint, Listener, ServerOptions};
use duroxide::providers::{ExecutionMetadata, Provider, TagFilter, WorkItem};
use duroxide::{Event, EventKind};
use duroxide_cosmos::{CosmosProvider, Fetched, TurnItem};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tests::{ShiftedClock, World};

const INSTANCE: &str = "big";
const LOCK: Duration = Duration::from_secs(30);

/// A turn, as the runtime would decide it.
#[derive(Default)]
struct Turn {
    events: Vec<Event>,
    work: Vec<WorkItem>,
}

fn event(id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, INSTANCE, 1, None, kind)
}

fn started() -> Event {
    event(
        1,
        EventKind::OrchestrationStarted {
            name: "Big".to_owned(),
            version: "1.0.0".to_owned(),
            input: String::new(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        },
    )
}

fn activity(id: u64) -> (Event, WorkItem) {
    let scheduled = EventKind::ActivityScheduled {
        name: "Echo".to_owned(),
        input: format!("{id}"),
        session_id: None,
        tag: None,
    };
    let item = WorkItem::ActivityExecute {
        instance: INSTANCE.to_owned(),
        execution_id: 1,
        id,
        name: "Echo".to_owned(),
        input: format!("{id}"),
        session_id: None,
        tag: None,
    };
    (event(id, scheduled), item)
}

/// The first turn: schedules this many activities.
fn fan_out(count: u64) -> Turn {
    let (scheduled, work): (Vec<_>, Vec<_>) = (2..2 + count).map(activity).unzip();
    Turn {
        events: std::iter::once(started()).chain(scheduled).collect(),
        work,
    }
}

async fn enqueue_start(provider: &CosmosProvider) {
    let start = WorkItem::StartOrchestration {
        instance: INSTANCE.to_owned(),
        orchestration: "Big".to_owned(),
        input: String::new(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    provider
        .enqueue_for_orchestrator(start, None)
        .await
        .expect("it is queued");
}

async fn fetch(provider: &CosmosProvider) -> Option<TurnItem> {
    match provider
        .fetch_turn(INSTANCE, LOCK, None)
        .await
        .expect("the turn can be fetched")
    {
        Fetched::Ready(turn) => Some(turn),
        Fetched::Nothing => None,
        other => panic!("the lock is held: {other:?}"),
    }
}

/// Answers whether the commit was told to have succeeded, by the time the process died at the latest.
async fn commit_until_crash(provider: &CosmosProvider, listener: &Listener, item: &TurnItem, turn: Turn) -> bool {
    tokio::select! {
        done = commit(provider, item, turn) => done,
        () = until("crash", || async { listener.crashed() }) => false,
    }
}

async fn commit(provider: &CosmosProvider, item: &TurnItem, turn: Turn) -> bool {
    let metadata = ExecutionMetadata {
        orchestration_name: Some("Big".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    };
    let ack = provider.ack_orchestration_item(&item.lock_token, 1, turn.events, turn.work, vec![], metadata, vec![]);
    ack.await.is_ok()
}

/// A prepared store: `prepare` leaves exactly one turn to fetch.
struct Scene {
    world: World,
    clock: Arc<ShiftedClock>,
    safe: Arc<CosmosProvider>,
}

impl Scene {
    async fn new() -> Scene {
        let world = World::local(ServerOptions::default()).await;
        let clock = Arc::new(ShiftedClock::default());
        let safe = provider_through(&world, world.listener(), &clock).await;
        Scene { world, clock, safe }
    }

    /// Fetches and commits `turn` through a listener that crashes at the n-th write of the commit; then lets another process
    /// do what is left. Answers whether the crash happened.
    async fn crash(&self, n: u64, when: CrashPoint, turn: impl Fn() -> Turn) -> bool {
        let listener = self.world.server().open_listener().await.expect("a listener opens");
        let provider = provider_through(&self.world, &listener, &self.clock).await;
        let item = fetch(&provider).await.expect("there is a turn");
        listener.crash_at_write(n, when);
        let done = commit_until_crash(&provider, &listener, &item, turn()).await;
        drop(provider);
        assert!(done || listener.crashed(), "the commit failed without a crash");
        self.clock.advance(AFTERWARDS);
        if let Some(item) = fetch(&self.safe).await {
            assert!(commit(&self.safe, &item, turn()).await, "the second process commits");
        }
        listener.crashed()
    }
}

/// Every activity is there once, and can be completed once.
async fn check_activities(scene: &Scene, count: usize, context: &str) {
    let work = scene.world.documents_of("work").await;
    let ids: HashSet<&str> = work.iter().filter_map(|doc| doc["id"].as_str()).collect();
    assert_eq!((work.len(), ids.len()), (count, count), "{context}");
    let history = scene.safe.read(INSTANCE).await.expect("history can be read");
    assert_eq!(history.len(), count + 1, "{context}");
    assert!(
        history.windows(2).all(|pair| pair[0].event_id() < pair[1].event_id()),
        "{context}"
    );
}

async fn sweep_fan_out(count: u64) {
    for when in BOTH {
        let mut n = 1;
        loop {
            let context = format!("fan-out of {count}, crash at write {n} of the commit, {when:?}");
            let scene = Scene::new().await;
            enqueue_start(&scene.safe).await;
            let crashed = scene.crash(n, when, || fan_out(count)).await;
            check_activities(&scene, count as usize, &context).await;
            nothing_is_left_behind(&scene.world, &scene.safe, &scene.clock, &context).await;
            check_activities(&scene, count as usize, &context).await;
            if !crashed {
                break;
            }
            n += 1;
        }
        assert!(
            n > 3,
            "{count} activities were committed in {} writes: nothing was staged",
            n - 1
        );
        println!("fan-out of {count}: killed at each of {} writes, {when:?}", n - 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_of_a_thousand_activities_is_committed_whole_or_not_at_all() {
    sweep_fan_out(1000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_of_a_hundred_and_fifty_activities_is_committed_whole_or_not_at_all() {
    sweep_fan_out(150).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_consumes_three_hundred_messages_consumes_all_or_none() {
    const COUNT: u64 = 300;
    let consume = || Turn {
        events: (0..COUNT)
            .map(|n| {
                let kind = EventKind::ExternalEvent {
                    name: "e".to_owned(),
                    data: format!("{n}"),
                };
                event(2 + n, kind)
            })
            .collect(),
        work: vec![activity(2 + COUNT).1],
    };
    for when in BOTH {
        let mut n = 1;
        loop {
            let context = format!("consuming {COUNT}, crash at write {n}, {when:?}");
            let scene = Scene::new().await;
            enqueue_start(&scene.safe).await;
            let first = fetch(&scene.safe).await.expect("the first turn");
            assert!(commit(&scene.safe, &first, fan_out(0)).await, "{context}");
            let events = (0..COUNT).map(|n| {
                let item = WorkItem::ExternalRaised {
                    instance: INSTANCE.to_owned(),
                    name: "e".to_owned(),
                    data: format!("{n}"),
                };
                scene.safe.enqueue_for_orchestrator(item, None)
            });
            futures::future::try_join_all(events)
                .await
                .expect("the events are queued");
            let crashed = scene.crash(n, when, consume).await;
            assert_eq!(scene.world.documents_of("message").await.len(), 0, "{context}");
            assert_eq!(scene.world.documents_of("work").await.len(), 1, "{context}");
            assert_eq!(
                scene.safe.read(INSTANCE).await.expect("history").len() as u64,
                COUNT + 1,
                "{context}"
            );
            nothing_is_left_behind(&scene.world, &scene.safe, &scene.clock, &context).await;
            if !crashed {
                break;
            }
            n += 1;
        }
        assert!(
            n > 3,
            "{COUNT} messages were consumed in {} writes: nothing was staged",
            n - 1
        );
        println!("consuming {COUNT}: killed at each of {} writes, {when:?}", n - 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_whose_events_exceed_two_megabytes_is_committed_whole_or_not_at_all() {
    const EVENTS: u64 = 8;
    let large = || {
        let data = "x".repeat(600 * 1024);
        let events = (0..EVENTS).map(|n| {
            event(
                2 + n,
                EventKind::ExternalEvent {
                    name: format!("{n}"),
                    data: data.clone(),
                },
            )
        });
        Turn {
            events: std::iter::once(started()).chain(events).collect(),
            work: vec![activity(2 + EVENTS).1],
        }
    };
    for when in BOTH {
        let mut n = 1;
        loop {
            let context = format!("{EVENTS} large events, crash at write {n}, {when:?}");
            let scene = Scene::new().await;
            enqueue_start(&scene.safe).await;
            let crashed = scene.crash(n, when, large).await;
            assert_eq!(
                scene.safe.read(INSTANCE).await.expect("history").len() as u64,
                EVENTS + 1,
                "{context}"
            );
            assert_eq!(scene.world.documents_of("work").await.len(), 1, "{context}");
            nothing_is_left_behind(&scene.world, &scene.safe, &scene.clock, &context).await;
            let history = scene.world.documents_of("history").await;
            let stored: usize = history
                .iter()
                .filter_map(|doc| doc["events"].as_array())
                .map(Vec::len)
                .sum();
            assert_eq!(stored as u64, EVENTS + 1, "{context}: orphaned history stays");
            if !crashed {
                break;
            }
            n += 1;
        }
        assert!(n > 3, "4.7 MB were committed in {} writes", n - 1);
        println!("large events: killed at each of {} writes, {when:?}", n - 1);
    }
}

/// The reader never sees half a turn: while a commit of 1,000 activities runs, the history has one event more than
/// nothing, or all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_a_large_turn_whole_or_not_at_all() {
    let scene = Scene::new().await;
    enqueue_start(&scene.safe).await;
    let item = fetch(&scene.safe).await.expect("there is a turn");
    let committing = {
        let provider = Arc::clone(&scene.safe);
        tokio::spawn(async move { commit(&provider, &item, fan_out(1000)).await })
    };
    let mut seen = HashSet::new();
    while !committing.is_finished() {
        seen.insert(scene.safe.read(INSTANCE).await.expect("history can be read").len());
    }
    assert!(committing.await.expect("no panic"), "the commit succeeds");
    seen.insert(scene.safe.read(INSTANCE).await.expect("history can be read").len());
    assert!(seen.iter().all(|events| [0, 1001].contains(events)), "{seen:?}");
    let work = scene
        .safe
        .fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any)
        .await;
    assert!(work.expect("work can be fetched").is_some());
}
