//! Two at once, one of which stalls at the worst moment: nothing is lost, nothing comes back, nothing stays stuck.
//!
//! A stall is made at a listener of one's own, which holds the request at the worst moment until all that the other does is
//! done.

use cosmos_emulator::{CrashPoint, Listener, Pause, RequestKind, RequestRecord, ServerOptions};
use duroxide::providers::{
    OrchestrationItem, Provider, ProviderAdmin, ProviderError, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide_cosmos::CosmosProvider;
use std::collections::BTreeSet;
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

/// A process that dies at its third write: the first publication of a staged commit.
async fn dying(world: &World, clock: &Arc<ManualClock>, point: CrashPoint) -> Slow {
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
/// dies in the middle of publishing a commit of its own, which the first one then meets.
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
    let hold = first.listener.pause_when(|log| count(log, RequestKind::Batch) == 3);
    let slow = Arc::clone(&first.provider);
    let task = tokio::spawn(async move { commit(&slow, &token, many("order", 2, vec![started("order", 1)])).await });
    assert!(is_paused(&hold, &task).await, "{:?}", first.listener.log());
    let lock = world.document("order", "lock").await.expect("a lock");
    assert_eq!(lock["unfinished"]["next"], 1, "{lock}");
    // The other rolls it forward, and one of the activities of the stalled publication is done.
    let second = turn(&other, "order").await;
    let claimed = work(&other, "order", 250).await;
    other
        .ack_work_item(&claimed.lock_token, Some(done("order", 250)))
        .await
        .expect("completed");
    let dying = dying(&world, &clock, CrashPoint::AfterApplied).await;
    let (maker, token) = (Arc::clone(&dying.provider), second.lock_token);
    let decision = many("order", 1000, vec![heard("order", 1, 2)]);
    let decided = tokio::spawn(async move { commit(&maker, &token, decision).await });
    while !dying.listener.crashed() && !decided.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let lock = world.document("order", "lock").await.expect("a lock");
    assert_eq!(lock["unfinished"]["next"], 1, "{lock}");
    drop(hold);
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

/// The deleter stalls at its `n`-th request after the decision; another finishes, and the id is used again.
async fn erase_late(world: &World, clock: &Arc<ManualClock>, n: usize) -> bool {
    let instance = format!("reborn-{n}");
    let (slow, other) = (Slow::new(world, clock).await, world.provider_at(clock).await);
    begin_with(&other, &instance, 120, named()).await;
    let hold = slow.listener.pause_when(move |log| {
        let decided = log.iter().position(|record| record.kind == RequestKind::Create);
        decided.is_some_and(|at| log.len() > at + n)
    });
    let (deleter, name) = (Arc::clone(&slow.provider), instance.clone());
    let task = tokio::spawn(async move { deleter.delete_instance(&name, true).await });
    if !is_paused(&hold, &task).await {
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
    drop(hold);
    let outcome = task.await.expect("no panic");
    let after = own_ids(world, &instance).await;
    assert_eq!(
        before, after,
        "{instance}: the new instance was touched by a deleter that was told {outcome:?}"
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
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let stalled = futures::future::join_all((0..8).map(|n| erase_late(&world, &clock, n))).await;
    let points = stalled.iter().filter(|stalled| **stalled).count();
    assert!(points >= 5, "the deleter stalled at {points} points only");
}

/// The repairer stalls after its `n`-th read; the commit that it looks at is rolled forward and forgotten.
async fn settle_late(world: &World, clock: &Arc<ManualClock>, n: usize) -> bool {
    let instance = format!("settled-{n}");
    let instance = instance.as_str();
    let (slow, other) = (Slow::new(world, clock).await, world.provider_at(clock).await);
    enqueue(&other, start_of(instance)).await;
    let token = turn(&other, instance).await.lock_token;
    let dying = dying(world, clock, CrashPoint::BeforeApplied).await;
    let mut events = vec![started(instance, 1)];
    events.extend((2..402).map(|id| scheduled(instance, id)));
    let decision = many(instance, 2, events);
    let hold = dying.listener.pause_when(|log| count(log, RequestKind::Batch) == 1);
    let maker = Arc::clone(&dying.provider);
    let task = tokio::spawn(async move { commit(&maker, &token, decision).await });
    // The staged head becomes due before the lock, so that the repairer looks at it first.
    assert!(is_paused(&hold, &task).await, "{:?}", dying.listener.log());
    clock.advance(Duration::from_secs(1));
    drop(hold);
    task.await.expect("no panic").expect("the commit is decided");
    assert!(dying.listener.crashed());
    assert_eq!(ids_of(world, "staged-head", instance).await.len(), 1);
    clock.advance(REPAIRABLE);
    slow.listener.reset();
    let hold = slow.listener.pause_when(move |log| count(log, RequestKind::Read) == n);
    let repairer = Arc::clone(&slow.provider);
    let task = tokio::spawn(async move { recover(&repairer).await });
    if !is_paused(&hold, &task).await {
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
    drop(hold);
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
    let settled = (1..=3).map(|n| async move {
        let world = World::local(ServerOptions::default()).await;
        settle_late(&world, &Arc::new(ManualClock::default()), n).await
    });
    let stalled = futures::future::join_all(settled).await;
    let points = stalled.iter().filter(|stalled| **stalled).count();
    assert!(points >= 2, "the repairer stalled at {points} points only");
}

/// An event for an instance that does not exist is dropped by one who saw it alone, while another has claimed it
/// together with the start. What duroxide's runtime then does, committing a failure with the same token, is refused.
async fn drop_late(renewed: bool) {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let (slow, other) = (Slow::new(&world, &clock).await, world.provider_at(&clock).await);
    let early = WorkItem::QueueMessage {
        instance: "order".to_owned(),
        name: "inbox".to_owned(),
        data: "early".to_owned(),
    };
    enqueue(&other, early).await;
    let hold = slow.listener.pause_when(|log| count(log, RequestKind::Query) == 1);
    let dropper = Arc::clone(&slow.provider);
    let task = tokio::spawn(async move { dropper.fetch_turn("order", LOCK, None).await.map(|_| ()) });
    assert!(is_paused(&hold, &task).await, "{:?}", slow.listener.log());
    enqueue(&other, start_of("order")).await;
    let claimed = turn(&other, "order").await;
    assert_eq!(claimed.item.messages.len(), 2, "the event is claimed with the start");
    drop(hold);
    task.await.expect("no panic").expect("the fetch succeeds");
    if renewed {
        let stranger = world.provider_at(&clock).await;
        stranger
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
async fn an_event_that_is_dropped_under_a_start_does_not_fail_the_orchestration() {
    futures::join!(drop_late(false), drop_late(true));
}

type Fetch = JoinHandle<Result<Option<(OrchestrationItem, String, u32)>, ProviderError>>;

impl Slow {
    fn fetch(&self, poll_timeout: Duration) -> Fetch {
        let provider = Arc::clone(&self.provider);
        tokio::spawn(async move { provider.fetch_orchestration_item(LOCK, poll_timeout, None).await })
    }
}

/// A process one of whose fetches looks at a new instance, which it has not claimed, and is held there.
async fn looking(world: &World) -> (Slow, Pause, Fetch) {
    let slow = Slow::new(world, &Arc::new(ManualClock::default())).await;
    enqueue(&slow.provider, start_of("order")).await;
    slow.listener.reset();
    let hold = slow.listener.pause_when(<[RequestRecord]>::is_empty);
    let fetch = slow.fetch(PATIENT);
    assert!(is_paused(&hold, &fetch).await, "{:?}", slow.listener.log());
    (slow, hold, fetch)
}

/// The fetch is dropped, as by a runtime that shuts down. Another that asked at the same time, and would not wait, is not
/// told that there is nothing.
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

/// The hint of a dropped fetch is the next one's: it needs no sweep to learn of the instance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_outlives_the_fetch_that_is_dropped_with_it() {
    let world = World::local(ServerOptions::default()).await;
    let (slow, hold, dropped) = looking(&world).await;
    dropped.abort();
    dropped.await.expect_err("it was aborted");
    drop(hold);
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
    let hold = slow
        .listener
        .pause_when(|log| count(log, RequestKind::CrossPartitionQuery) == 1);
    let renewer = Arc::clone(&slow.provider);
    let task = tokio::spawn(async move { renewer.renew_session_lock(&["me"], LOCK * 3, LOCK).await });
    assert!(is_paused(&hold, &task).await, "{:?}", slow.listener.log());
    other
        .ack_work_item(&token, Some(done("order", 2)))
        .await
        .expect("completed");
    drop(hold);
    let renewed = task.await.expect("no panic").expect("the renewal runs");
    assert_eq!(renewed, 1);
    let after = until(world.documents_of("session").await);
    assert_eq!(after - before, 2 * LOCK.as_millis() as u64, "the renewal was lost");
}
