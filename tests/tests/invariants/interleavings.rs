//! Two processes, one of which stalls at the worst moment: nothing is lost, repeated or stuck.
//!
//! Each has a listener of its own, which pauses the request in question until the other process is done.

use cosmos_emulator::{CrashPoint, Listener, Pause, RequestKind, RequestRecord, ServerOptions};
use duroxide::providers::{
    OrchestrationItem, Provider, ProviderAdmin, ProviderError, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide_cosmos::CosmosProvider;
use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World, connect, is_paused, recover};
use tokio::task::JoinHandle;

/// A process with a listener of its own.
struct Slow {
    listener: Listener,
    provider: Arc<CosmosProvider>,
}

impl Slow {
    async fn new(world: &World, clock: &Arc<ManualClock>) -> Slow {
        let listener = world.open_listener().await;
        let same: Arc<dyn cosmos::Clock> = Arc::clone(clock) as Arc<dyn cosmos::Clock>;
        let config = world.builder_through(&listener).clock(same);
        // It sweeps only when it must: a slow machine adds no sweep.
        let config = config.sweep_interval(PATIENT);
        let patient = config.request_timeout(PATIENT).operation_timeout(PATIENT);
        Slow {
            listener,
            provider: connect(patient).await,
        }
    }
}

fn count(log: &[RequestRecord], kind: RequestKind) -> usize {
    log.iter().filter(|record| record.kind == kind).count()
}

/// A process that crashes at its third write: the first publication of a staged commit.
async fn crashing(world: &World, clock: &Arc<ManualClock>, point: CrashPoint) -> Slow {
    let listener = world.open_listener().await;
    let same: Arc<dyn cosmos::Clock> = Arc::clone(clock) as Arc<dyn cosmos::Clock>;
    let config = world
        .builder_through(&listener)
        .clock(same)
        .operation_timeout(Duration::from_secs(8));
    let provider = connect(config).await;
    listener.crash_at_write(3, point);
    Slow { listener, provider }
}

/// A turn that schedules so many activities that it must be staged.
fn many(instance: &str, first: u64, events: Vec<duroxide::Event>) -> Decision {
    Decision {
        events,
        work: (first..first + 400).map(|id| activity(instance, id)).collect(),
        ..Decision::default()
    }
}

async fn ids_of(world: &World, kind: &str, instance: &str) -> BTreeSet<String> {
    let all = world.documents_of(kind).await;
    let own = all.iter().filter(|doc| doc["pk"] == instance);
    own.map(|doc| doc["id"].as_str().expect("an id").to_owned()).collect()
}

/// The first committer's second publication stalls; another rolls it forward, completes one of its activities, and
/// crashes in the middle of publishing a commit of its own, which the first one then meets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_publisher_does_not_publish_into_the_next_commit() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let (first, other) = (Slow::new(&world, &clock).await, world.provider_at(&clock).await);
    enqueue(&other, start_of("order")).await;
    let token = turn(&first.provider, "order").await.lock_token;
    enqueue(&other, raised("order", "1")).await;
    first.listener.reset();
    // Staged, decided, published once; the second publication stalls.
    let pause = first.listener.pause_when(|log| count(log, RequestKind::Batch) == 3);
    let slow = Arc::clone(&first.provider);
    let task = tokio::spawn(async move { commit(&slow, &token, many("order", 2, vec![started("order", 1)])).await });
    assert!(is_paused(&pause, &task).await, "{:?}", first.listener.log());
    let lock = world.document("order", "instance").await.expect("a lock");
    assert_eq!(lock["unfinished"]["next"], 1, "{lock}");
    // The other rolls it forward when it is old enough, and one of the activities of the stalled publication is done.
    clock.advance(LATER);
    let second = turn(&other, "order").await;
    let claimed = work(&other, "order", 250).await;
    other
        .ack_work_item(&claimed.lock_token, Some(done("order", 250)))
        .await
        .expect("completed");
    let crashing = crashing(&world, &clock, CrashPoint::AfterApplied).await;
    let (maker, token) = (Arc::clone(&crashing.provider), second.lock_token);
    let decision = many("order", 1000, vec![heard("order", 1, 2)]);
    let decided = tokio::spawn(async move { commit(&maker, &token, decision).await });
    while !crashing.listener.crashed() && !decided.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let lock = world.document("order", "instance").await.expect("a lock");
    assert_eq!(lock["unfinished"]["next"], 1, "{lock}");
    drop(pause);
    decided.await.expect("no panic").expect("the second commit is decided");
    task.await.expect("no panic").expect("the first commit happened");
    clock.advance(REPAIRABLE);
    while !recover(&other).await.is_idle() {}
    let expected: BTreeSet<String> = (2..402)
        .chain(1000..1400)
        .filter(|id| *id != 250)
        .map(|id| format!("w:1:{id}"))
        .collect();
    let there = ids_of(&world, "work", "order").await;
    let lost: Vec<_> = expected.difference(&there).collect();
    let back: Vec<_> = there.difference(&expected).collect();
    assert!(
        lost.is_empty() && back.is_empty(),
        "lost: {lost:?}, came back: {back:?}"
    );
    assert_eq!(
        ids_of(&world, "message", "order").await.len(),
        1,
        "the completion waits, once"
    );
    assert_eq!(ids_of(&world, "staged", "order").await.len(), 0, "all is published");
    assert_eq!(other.read("order").await.expect("a history").len(), 2);
}

/// The deletion stalls at its `n`-th request after the decision; another finishes, and the id is used again.
async fn erase_late(world: &World, clock: &Arc<ManualClock>, n: usize) -> bool {
    let instance = format!("reborn-{n}");
    let (slow, other) = (Slow::new(world, clock).await, world.provider_at(clock).await);
    begin_with(&other, &instance, 120, named()).await;
    let pause = slow.listener.pause_when(move |log| {
        let decided = log.iter().position(|record| record.kind == RequestKind::Create);
        decided.is_some_and(|at| log.len() > at + n)
    });
    let (deleter, name) = (Arc::clone(&slow.provider), instance.clone());
    let task = tokio::spawn(async move { deleter.delete_instance(&name, true).await });
    if !is_paused(&pause, &task).await {
        return false;
    }
    // The fetch meets the mark, and finishes the deletion.
    let fetched = other
        .fetch_turn(&instance, LOCK, None)
        .await
        .expect("the fetch succeeds");
    assert!(!matches!(fetched, duroxide_cosmos::Fetched::Ready(_)), "{fetched:?}");
    assert!(other.get_instance_info(&instance).await.is_err(), "{instance} is gone");
    begin_with(&other, &instance, 120, named()).await;
    enqueue(&other, raised(&instance, "new")).await;
    let before = own_ids(world, &instance).await;
    drop(pause);
    let outcome = task.await.expect("no panic");
    let after = own_ids(world, &instance).await;
    assert_eq!(
        before, after,
        "{instance}: the new instance was touched by a deletion that ended as {outcome:?}"
    );
    let turn = turn(&other, &instance).await;
    assert_eq!((turn.item.history.len(), turn.item.messages.len()), (121, 1));
    outcome.expect("the deletion happened");
    true
}

async fn own_ids(world: &World, instance: &str) -> BTreeSet<String> {
    let all = world.documents().await;
    let own = all.iter().filter(|doc| doc["pk"] == instance);
    own.map(|doc| doc["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_deletion_does_not_touch_an_instance_that_was_started_since() {
    stall_deletions(2..4, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a stall at each request"]
async fn a_deletion_stalled_at_any_request_does_not_touch_an_instance_that_was_started_since() {
    stall_deletions(0..8, 5).await;
}

async fn stall_deletions(points: Range<usize>, least: usize) {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let stalled = futures::future::join_all(points.map(|n| erase_late(&world, &clock, n))).await;
    let stalls = stalled.iter().filter(|stalled| **stalled).count();
    assert!(stalls >= least, "the deletion stalled at {stalls} points only");
}

/// The repair stalls after its `n`-th read; the commit that it looks at is rolled forward meanwhile.
async fn repair_late(world: &World, clock: &Arc<ManualClock>, n: usize) -> bool {
    let instance = format!("repaired-{n}");
    let instance = instance.as_str();
    let (slow, other) = (Slow::new(world, clock).await, world.provider_at(clock).await);
    enqueue(&other, start_of(instance)).await;
    let token = turn(&other, instance).await.lock_token;
    let crashing = crashing(world, clock, CrashPoint::BeforeApplied).await;
    let mut events = vec![started(instance, 1)];
    events.extend((2..402).map(|id| scheduled(instance, id)));
    let decision = many(instance, 2, events);
    let pause = crashing.listener.pause_when(|log| count(log, RequestKind::Batch) == 1);
    let maker = Arc::clone(&crashing.provider);
    let task = tokio::spawn(async move { commit(&maker, &token, decision).await });
    // The staged head becomes due before the lock, so that the repair looks at it first.
    assert!(is_paused(&pause, &task).await, "{:?}", crashing.listener.log());
    clock.advance(Duration::from_secs(1));
    drop(pause);
    task.await.expect("no panic").expect("the commit is decided");
    assert!(crashing.listener.crashed());
    assert_eq!(ids_of(world, "staged-head", instance).await.len(), 1);
    clock.advance(REPAIRABLE);
    slow.listener.reset();
    let pause = slow.listener.pause_when(move |log| count(log, RequestKind::Read) == n);
    let repairer = Arc::clone(&slow.provider);
    let task = tokio::spawn(async move { recover(&repairer).await });
    if !is_paused(&pause, &task).await {
        task.await.expect("recovery runs");
        return false;
    }
    let rounds = 402..412;
    for id in rounds.clone() {
        enqueue(&other, raised(instance, "again")).await;
        let turn = turn(&other, instance).await;
        let decision = Decision::of(vec![heard(instance, 1, id)]);
        commit(&other, &turn.lock_token, decision).await.expect("commits");
    }
    drop(pause);
    task.await.expect("recovery runs");
    let expected = rounds.end - 1;
    let read = other.read(instance).await.expect("a whole history");
    assert_eq!(read.len() as u64, expected, "{instance}: events are lost");
    assert_eq!(ids_of(world, "work", instance).await.len(), 400, "{instance}");
    enqueue(&other, raised(instance, "last")).await;
    assert_eq!(turn(&other, instance).await.item.history.len() as u64, expected);
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_repair_does_not_remove_documents_of_a_decided_commit() {
    stall_repairs(2..=2, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a stall at each read"]
async fn a_repair_stalled_at_any_read_does_not_remove_documents_of_a_decided_commit() {
    stall_repairs(1..=3, 2).await;
}

async fn stall_repairs(points: RangeInclusive<usize>, least: usize) {
    let repairs = points.map(|n| async move {
        let world = World::local(ServerOptions::default()).await;
        repair_late(&world, &Arc::new(ManualClock::default()), n).await
    });
    let stalled = futures::future::join_all(repairs).await;
    let stalls = stalled.iter().filter(|stalled| **stalled).count();
    assert!(stalls >= least, "the repair stalled at {stalls} points only");
}

/// An event for an instance that does not exist is set aside by one who saw it alone, while another has claimed it
/// together with the start. What duroxide's runtime would do if that failed, committing a failure with the same token, is
/// refused.
async fn set_aside_late(renewed: bool) {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let (slow, other) = (Slow::new(&world, &clock).await, world.provider_at(&clock).await);
    let early = WorkItem::QueueMessage {
        instance: "order".to_owned(),
        name: "inbox".to_owned(),
        data: "early".to_owned(),
    };
    enqueue(&other, early).await;
    let pause = slow.listener.pause_when(|log| count(log, RequestKind::Query) == 1);
    let late = Arc::clone(&slow.provider);
    let task = tokio::spawn(async move { late.fetch_turn("order", LOCK, None).await.map(|_| ()) });
    assert!(is_paused(&pause, &task).await, "{:?}", slow.listener.log());
    enqueue(&other, start_of("order")).await;
    let claimed = turn(&other, "order").await;
    assert_eq!(claimed.item.messages.len(), 2, "the event is claimed with the start");
    drop(pause);
    task.await.expect("no panic").expect("the fetch succeeds");
    if renewed {
        let forgetful = world.provider_at(&clock).await;
        forgetful
            .renew_orchestration_item_lock(&claimed.lock_token, LOCK * 2)
            .await
            .expect("renewed");
    }
    let begins = || Decision::of(vec![started("order", 1)]);
    if commit(&other, &claimed.lock_token, begins()).await.is_err() {
        let failure = Decision {
            metadata: ended("Failed", "the turn could not be committed"),
            ..begins()
        };
        let outcome = commit(&other, &claimed.lock_token, failure).await;
        assert!(
            outcome.is_err(),
            "a turn that was lost has failed the orchestration for good"
        );
        let again = turn(&other, "order").await;
        commit(&other, &again.lock_token, begins()).await.expect("commits");
    }
    let info = other.get_instance_info("order").await.expect("it has begun");
    assert_eq!(info.status, "Running", "renewed: {renewed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_set_aside_under_a_start_does_not_fail_the_orchestration() {
    futures::join!(set_aside_late(false), set_aside_late(true));
}

type Fetch = JoinHandle<Result<Option<(OrchestrationItem, String, u32)>, ProviderError>>;

impl Slow {
    fn fetch(&self, poll_timeout: Duration) -> Fetch {
        let provider = Arc::clone(&self.provider);
        tokio::spawn(async move { provider.fetch_orchestration_item(LOCK, poll_timeout, None).await })
    }
}

/// A process one of whose fetches is paused at a new instance, before its claim.
async fn looking(world: &World) -> (Slow, Pause, Fetch) {
    let slow = Slow::new(world, &Arc::new(ManualClock::default())).await;
    // The first fetch of a process sweeps. The next goes straight to the instance.
    let idle = slow.fetch(Duration::ZERO).await.expect("no panic");
    assert!(idle.expect("the fetch succeeds").is_none());
    enqueue(&slow.provider, start_of("order")).await;
    slow.listener.reset();
    let pause = slow.listener.pause_when(<[RequestRecord]>::is_empty);
    let fetch = slow.fetch(PATIENT);
    assert!(is_paused(&pause, &fetch).await, "{:?}", slow.listener.log());
    (slow, pause, fetch)
}

/// The fetch is dropped, as by a runtime that shuts down. Another fetch of the same time, which does not wait,
/// does not answer that there is nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_fetch_hides_nothing_from_another_fetch_of_its_process() {
    let world = World::local(ServerOptions::default()).await;
    let (slow, _hold, first) = looking(&world).await;
    let second = slow.fetch(Duration::ZERO);
    while count(&slow.listener.log(), RequestKind::CrossPartitionQuery) == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // It sweeps and learns of the message. An answer now could only be the wrong one, so it gets a moment to give it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!second.is_finished(), "{:?}", second.await);
    first.abort();
    let found = second.await.expect("no panic").expect("the fetch succeeds");
    assert_eq!(found.expect("a turn").0.instance, "order");
}

/// The candidate of a dropped fetch is the next one's: it finds the instance without a sweep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_outlives_the_fetch_that_is_dropped_with_it() {
    let world = World::local(ServerOptions::default()).await;
    let (slow, pause, dropped) = looking(&world).await;
    dropped.abort();
    dropped.await.expect_err("it was aborted");
    drop(pause);
    let found = slow.fetch(LOCK).await.expect("no panic").expect("the fetch succeeds");
    assert_eq!(found.expect("a turn").0.instance, "order");
    let log = slow.listener.log();
    assert_eq!(count(&log, RequestKind::CrossPartitionQuery), 0, "{log:?}");
}

/// An activity of the session completes between the renewal's look and its write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_used_while_it_is_renewed_is_renewed() {
    let world = World::local(ServerOptions {
        partitions: 1,
        ..ServerOptions::default()
    })
    .await;
    let clock = Arc::new(ManualClock::default());
    let (slow, other) = (Slow::new(&world, &clock).await, world.provider_at(&clock).await);
    begin(&other, "order").await;
    let item = WorkItem::ActivityExecute {
        instance: "order".to_owned(),
        execution_id: 1,
        id: 2,
        name: "Act".to_owned(),
        input: "in".to_owned(),
        session_id: Some("session".to_owned()),
        tag: None,
    };
    other.enqueue_for_worker(item).await.expect("queued");
    let config = SessionFetchConfig {
        owner_id: "me".to_owned(),
        lock_timeout: LOCK,
    };
    let (_, token, _) = other
        .fetch_work_item(LOCK, Duration::ZERO, Some(&config), &TagFilter::DefaultOnly)
        .await
        .expect("the fetch succeeds")
        .expect("an activity");
    let until = |docs: Vec<serde_json::Value>| docs[0]["until"].as_u64().expect("a time");
    let before = until(world.documents_of("session").await);
    let pause = slow
        .listener
        .pause_when(|log| count(log, RequestKind::CrossPartitionQuery) == 1);
    let renewer = Arc::clone(&slow.provider);
    let task = tokio::spawn(async move { renewer.renew_session_lock(&["me"], LOCK * 3, LOCK).await });
    assert!(is_paused(&pause, &task).await, "{:?}", slow.listener.log());
    other
        .ack_work_item(&token, Some(done("order", 2)))
        .await
        .expect("completed");
    drop(pause);
    let renewed = task.await.expect("no panic").expect("the renewal runs");
    assert_eq!(renewed, 1);
    let after = until(world.documents_of("session").await);
    assert_eq!(after - before, 2 * LOCK.as_millis() as u64, "the renewal was lost");
}
