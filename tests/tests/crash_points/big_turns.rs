//! Turns that do not fit one batch, killed at every write of their commit: whole or not at all.
//!
//! The turns are made by hand, so that each run is exactly the turn in question. What is compared is what anybody can
//! see of the instance: its history, its queue and its activities, before the turn or after it, nothing between.

use super::kill::{AFTERWARDS, BOTH, nothing_is_left_behind, provider_through};
use cosmos_emulator::{CrashPoint, ServerOptions};
use duroxide::providers::{Provider, TagFilter, WorkItem};
use duroxide::{Event, EventKind};
use duroxide_cosmos::{Clock as _, CosmosProvider, Fetched, TurnItem};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ShiftedClock, World, until_crash};

const INSTANCE: &str = "big";

/// An instance whose next turn is the one in question.
struct Scene {
    world: World,
    clock: Arc<ShiftedClock>,
    /// A process that does not crash.
    safe: Arc<CosmosProvider>,
}

impl Scene {
    async fn new() -> Scene {
        let world = World::local(ServerOptions::default()).await;
        let clock = Arc::new(ShiftedClock::default());
        let safe = provider_through(&world, world.listener(), &clock).await;
        enqueue(&safe, start_of(INSTANCE)).await;
        Scene { world, clock, safe }
    }

    /// Commits `turn` in a process that crashes at the n-th write of the commit; then another process does what is left.
    /// Answers whether the crash happened.
    async fn crash(&self, n: u64, when: CrashPoint, turn: impl Fn() -> Decision) -> bool {
        let listener = self.world.open_listener().await;
        let provider = provider_through(&self.world, &listener, &self.clock).await;
        let item = fetch(&provider).await.expect("there is a turn");
        listener.crash_at_write(n, when);
        let committed = until_crash(&listener, commit(&provider, &item.lock_token, turn())).await;
        drop(provider);
        if let Some(committed) = committed {
            committed.expect("a commit without a crash succeeds");
        }
        self.clock.advance(AFTERWARDS);
        if let Some(item) = fetch(&self.safe).await {
            let committed = commit(&self.safe, &item.lock_token, turn()).await;
            committed.expect("the second process commits");
        }
        listener.crashed()
    }

    async fn count(&self, kind: &str) -> usize {
        self.world.documents_of(kind).await.len()
    }

    async fn history(&self) -> Vec<Event> {
        self.safe.read(INSTANCE).await.expect("the history can be read")
    }
}

async fn fetch(provider: &CosmosProvider) -> Option<TurnItem> {
    match fetch_turn(provider, INSTANCE).await {
        Fetched::Ready(turn) => Some(turn),
        Fetched::Nothing => None,
        other => panic!("the instance is locked: {other:?}"),
    }
}

/// Kills the commit of `turn` before and after each of its writes. `check` sees the instance after another process went on.
async fn sweep(
    name: &str,
    prepare: impl AsyncFn(&Scene),
    turn: impl Fn() -> Decision,
    check: impl AsyncFn(&Scene, &str),
) {
    for when in BOTH {
        for n in 1.. {
            let context = format!("{name}, crash at write {n} of the commit, {when:?}");
            let scene = Scene::new().await;
            prepare(&scene).await;
            let crashed = scene.crash(n, when, &turn).await;
            check(&scene, &context).await;
            nothing_is_left_behind(&scene.world, &scene.safe, &scene.clock, &context).await;
            check(&scene, &context).await;
            let stored: usize = scene
                .world
                .documents_of("history")
                .await
                .iter()
                .filter_map(|doc| doc["events"].as_array())
                .map(Vec::len)
                .sum();
            assert_eq!(
                stored,
                scene.history().await.len(),
                "{context}: history that nobody reads is left"
            );
            if !crashed {
                assert!(n > 3, "{name}: only {} writes, so nothing was staged", n - 1);
                println!("{name}: killed at each of {} writes, {when:?}", n - 1);
                break;
            }
        }
    }
}

async fn sweep_fan_out(count: u64) {
    let check = async |scene: &Scene, context: &str| {
        let work = scene.world.documents_of("work").await;
        let ids: HashSet<&str> = work.iter().filter_map(|doc| doc["id"].as_str()).collect();
        assert_eq!((work.len() as u64, ids.len() as u64), (count, count), "{context}");
        let history = scene.history().await;
        assert_eq!(history.len() as u64, count + 1, "{context}");
        let is_ordered = history.windows(2).all(|pair| pair[0].event_id() < pair[1].event_id());
        assert!(is_ordered, "{context}");
    };
    let name = format!("fan-out of {count}");
    sweep(&name, async |_| (), || Decision::first(INSTANCE, count), check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_of_a_hundred_and_fifty_activities_is_committed_whole_or_not_at_all() {
    sweep_fan_out(150).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 1,000 activities for each write"]
async fn a_turn_of_a_thousand_activities_is_committed_whole_or_not_at_all() {
    sweep_fan_out(1000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 300 messages for each write"]
async fn a_turn_that_consumes_three_hundred_messages_consumes_all_or_none() {
    const COUNT: u64 = 300;
    let prepare = async |scene: &Scene| {
        let first = fetch(&scene.safe).await.expect("the first turn");
        let committed = commit(&scene.safe, &first.lock_token, Decision::first(INSTANCE, 0)).await;
        committed.expect("the first turn commits");
        let events = (0..COUNT).map(|n| enqueue(&scene.safe, raised(INSTANCE, &n.to_string())));
        futures::future::join_all(events).await;
    };
    let consume = || Decision {
        work: vec![activity(INSTANCE, 2 + COUNT)],
        ..Decision::of((2..2 + COUNT).map(|id| heard(INSTANCE, 1, id)).collect())
    };
    let check = async |scene: &Scene, context: &str| {
        assert_eq!(
            (scene.count("message").await, scene.count("work").await),
            (0, 1),
            "{context}"
        );
        assert_eq!(scene.history().await.len() as u64, COUNT + 1, "{context}");
    };
    sweep("consuming 300 messages", prepare, consume, check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 4.7 MB for each write"]
async fn a_turn_whose_events_exceed_two_megabytes_is_committed_whole_or_not_at_all() {
    const EVENTS: u64 = 8;
    let large = || {
        let data = "x".repeat(600 * 1024);
        let events = (2..2 + EVENTS).map(|id| {
            let (name, data) = (id.to_string(), data.clone());
            event(INSTANCE, 1, id, EventKind::ExternalEvent { name, data })
        });
        Decision {
            work: vec![activity(INSTANCE, 2 + EVENTS)],
            ..Decision::of(std::iter::once(started(INSTANCE, 1)).chain(events).collect())
        }
    };
    let check = async |scene: &Scene, context: &str| {
        assert_eq!(scene.history().await.len() as u64, EVENTS + 1, "{context}");
        assert_eq!(scene.count("work").await, 1, "{context}");
    };
    sweep("8 large events", async |_| (), large, check).await;
}

/// The last turn of an execution with 150 open timers: a timer is there as long as its execution runs, and gone with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_turn_removes_all_open_timers_or_does_not_happen() {
    const TIMERS: u64 = 150;
    const HOUR_MS: u64 = 3_600_000;
    let prepare = async |scene: &Scene| {
        let first = fetch(&scene.safe).await.expect("the first turn");
        let fire_at_ms = scene.clock.now_ms() + HOUR_MS;
        let created = |id| event(INSTANCE, 1, id, EventKind::TimerCreated { fire_at_ms });
        let fires = |id| WorkItem::TimerFired {
            instance: INSTANCE.to_owned(),
            execution_id: 1,
            id,
            fire_at_ms,
        };
        let timers = 2..2 + TIMERS;
        let decision = Decision {
            messages: timers.clone().map(fires).collect(),
            ..Decision::of(
                std::iter::once(started(INSTANCE, 1))
                    .chain(timers.map(created))
                    .collect(),
            )
        };
        let committed = commit(&scene.safe, &first.lock_token, decision).await;
        committed.expect("the first turn commits");
        assert_eq!(scene.count("message").await as u64, TIMERS);
        enqueue(&scene.safe, raised(INSTANCE, "end")).await;
    };
    let last = || {
        let output = "out".to_owned();
        Decision {
            metadata: ended("Completed", &output),
            ..Decision::of(vec![event(
                INSTANCE,
                1,
                2 + TIMERS,
                EventKind::OrchestrationCompleted { output },
            )])
        }
    };
    let check = async |scene: &Scene, context: &str| {
        assert_eq!(scene.count("message").await, 0, "{context}");
        assert_eq!(scene.history().await.len() as u64, TIMERS + 2, "{context}");
    };
    sweep("150 open timers", prepare, last, check).await;
}

/// While a commit of 1,000 activities runs, a reader sees no event of it, or all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_a_large_turn_whole_or_not_at_all() {
    let scene = Scene::new().await;
    let item = fetch(&scene.safe).await.expect("there is a turn");
    let provider = Arc::clone(&scene.safe);
    let committing =
        tokio::spawn(async move { commit(&provider, &item.lock_token, Decision::first(INSTANCE, 1000)).await });
    let mut seen = HashSet::new();
    while !committing.is_finished() {
        seen.insert(scene.history().await.len());
    }
    committing.await.expect("no panic").expect("the commit succeeds");
    seen.insert(scene.history().await.len());
    assert!(seen.iter().all(|events| [0, 1001].contains(events)), "{seen:?}");
    let work = scene
        .safe
        .fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any)
        .await;
    assert!(work.expect("the fetch succeeds").is_some());
}
