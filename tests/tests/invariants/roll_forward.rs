//! A process that meets an unfinished commit rolls it forward.

use cosmos_emulator::{CrashPoint, ServerOptions};
use duroxide::providers::TagFilter;
use duroxide_cosmos::{Clock as _, Fetched, Target};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World, recover, until_crash};

const FAN_OUT: u64 = 300;

async fn work_ids(world: &World, instance: &str) -> Vec<String> {
    let docs = world.documents_of("work").await;
    docs.iter()
        .filter(|doc| doc["pk"] == instance)
        .map(|doc| doc["id"].to_string())
        .collect()
}

/// Crashes the commit of a fan-out at its `n`-th write. Answers whether the crash happened.
async fn crash_fan_out(world: &World, clock: &Arc<ManualClock>, instance: &str, n: u64) -> bool {
    let (listener, crashing) = world.process_at(clock).await;
    enqueue(&crashing, start_of(instance)).await;
    let token = turn(&crashing, instance).await.lock_token;
    listener.crash_at_write(n, CrashPoint::AfterApplied);
    let outcome = until_crash(&listener, commit(&crashing, &token, Decision::first(instance, FAN_OUT))).await;
    outcome
        .map(|said| said.expect("a commit without a crash succeeds"))
        .is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfinished_commit_is_rolled_forward_by_the_next_fetch() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let (mut unfinished, mut never) = (0, 0);
    for n in 1.. {
        let instance = format!("fan-{n}");
        if !crash_fan_out(&world, &clock, &instance, n).await {
            break;
        }
        let lock = world.document(&instance, "instance").await.expect("a lock");
        unfinished += usize::from(lock.get("unfinished").is_some());
        clock.advance(LATER);
        enqueue(&provider, raised(&instance, "wake")).await;
        let next = turn(&provider, &instance).await;
        let ids = work_ids(&world, &instance).await;
        let distinct: HashSet<&String> = ids.iter().collect();
        assert_eq!(ids.len(), distinct.len());
        if next.item.history.is_empty() {
            // The commit never happened: the start is still there, and nothing of the fan-out can be seen.
            never += 1;
            assert_eq!((ids.len(), next.item.messages.len()), (0, 2), "write {n}");
        } else {
            assert_eq!(ids.len() as u64, FAN_OUT, "write {n}");
            assert_eq!(next.item.history.len() as u64, FAN_OUT + 1, "write {n}");
            assert_eq!(next.item.messages.len(), 1, "write {n}: the start was consumed");
        }
        let id = next.item.history.len() as u64 + 1;
        let event = if id == 1 {
            started(&instance, 1)
        } else {
            heard(&instance, 1, id)
        };
        let decision = Decision::of(vec![event]);
        commit(&provider, &next.lock_token, decision)
            .await
            .expect("the instance goes on");
        assert_eq!(work_ids(&world, &instance).await.len(), ids.len(), "write {n}");
    }
    assert!(
        unfinished > 0 && never > 0,
        "both were met: {unfinished} unfinished, {never} undecided"
    );
    clock.advance(REPAIRABLE);
    while !recover(&provider).await.is_idle() {}
    for kind in ["staged", "staged-head"] {
        assert!(world.documents_of(kind).await.is_empty(), "{kind} documents stay");
    }
}

/// Crashes fan-outs until one leaves an unfinished commit. Answers its instance.
async fn leave_unfinished(world: &World, clock: &Arc<ManualClock>) -> String {
    for n in 1.. {
        let instance = format!("fan-{n}");
        let crashed = crash_fan_out(world, clock, &instance, n).await;
        assert!(crashed, "no write leaves an unfinished commit");
        let lock = world.document(&instance, "instance").await.expect("a lock");
        if lock.get("unfinished").is_some() {
            return instance;
        }
    }
    unreachable!("the loop ends by itself")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfinished_commit_is_left_to_its_maker_until_it_is_old() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let instance = leave_unfinished(&world, &clock).await;
    enqueue(&provider, raised(&instance, "wake")).await;
    let published = work_ids(&world, &instance).await.len();
    let fetched = provider.begin_turn(&instance, None, LOCK, None).await;
    let Ok(Fetched::Busy { until_ms }) = fetched else {
        panic!("its maker may still publish it, but the fetch found {fetched:?}");
    };
    assert_eq!(
        work_ids(&world, &instance).await.len(),
        published,
        "the fetch wrote nothing"
    );
    clock.advance(Duration::from_millis(until_ms - clock.now_ms()));
    let fetched = provider.begin_turn(&instance, None, LOCK, None).await;
    assert!(matches!(fetched, Ok(Fetched::RolledForward { .. })), "{fetched:?}");
    assert_eq!(work_ids(&world, &instance).await.len() as u64, FAN_OUT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_rolls_a_commit_forward_learns_whom_to_wake_and_in_which_version() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let (listener, provider) = world.process_at(&clock).await;
    let instance = leave_unfinished(&world, &clock).await;
    let before: HashSet<String> = work_ids(&world, &instance).await.into_iter().collect();
    clock.advance(LATER);
    let fetched = provider.begin_turn(&instance, None, LOCK, None).await;
    let Ok(Fetched::RolledForward { due }) = fetched else {
        panic!("it completes the commit, but found {fetched:?}");
    };
    assert_eq!(
        (before.len() + due.len()) as u64,
        FAN_OUT,
        "whatever this fetch published"
    );
    let Some(Target::Work(work)) = due.last().map(|due| &due.target) else {
        panic!("an activity is due: {due:?}");
    };
    assert!(work.name.as_deref() == Some("Act"), "{work:?}");
    let requests = listener.log().len();
    let claimed = provider
        .fetch_written_work(work, LOCK, None, &TagFilter::default())
        .await;
    ready(claimed.expect("the fetch succeeds"));
    assert_eq!(
        listener.log().len() - requests,
        1,
        "the version is known: one request claims it"
    );
}
