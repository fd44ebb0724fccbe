//! Crashes at each write of recovery: of a decided commit, an undecided one and a decided deletion; and of pruning. The
//! next process completes it.

use crate::crashes::at_every_write;
use crate::function::{maintenance, run, settings};
use crate::retention::continued;
use crate::support::*;
use cosmos_emulator::CrashPoint;
use duroxide::providers::ProviderAdmin;
use duroxide_cosmos::{PassOutcome, PauseOutcome, Retention};
use duroxide_lambda::Target;
use std::collections::BTreeMap;
use tests::turns::*;

/// So many activities that their turn must be staged.
const WIDE: u64 = 400;

/// How many documents of each type there are.
async fn kinds(fixture: &Fixture) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for doc in fixture.world.documents().await {
        *kinds
            .entry(doc["type"].as_str().unwrap_or_default().to_owned())
            .or_default() += 1;
    }
    kinds
}

/// A turn that schedules many activities, by a process that crashes after that write of its commit.
async fn leave_a_commit(fixture: &Fixture, write: u64) {
    enqueue(&fixture.provider, start_of("wide")).await;
    let (listener, maker) = fixture.process().await;
    let turn = turn(&maker, "wide").await;
    let mut events = vec![started("wide", 1)];
    events.extend((2..2 + WIDE).map(|id| scheduled("wide", id)));
    let decision = Decision {
        events,
        work: (2..2 + WIDE).map(|id| activity("wide", id)).collect(),
        ..Decision::default()
    };
    listener.crash_at_write(write, CrashPoint::AfterApplied);
    until_crash(&listener, commit(&maker, &turn.lock_token, decision)).await;
    assert!(listener.crashed(), "it crashed");
    fixture.clock.advance(MUCH_LATER);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_wakes_the_activities_that_it_publishes_and_names_their_versions() {
    // One write stages; the decision itself publishes the first activities.
    const DECISION: u64 = 2;
    let fixture = Fixture::new().await;
    leave_a_commit(&fixture, DECISION).await;
    let lock = fixture.world.document("wide", "instance").await.expect("it exists");
    assert!(lock.get("unfinished").is_some(), "the crash left it unfinished: {lock}");
    let published = fixture.world.documents_of("work").await.len() as u64;
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    run(&maintenance).await;
    let named = queue.take().into_iter().filter(|delayed| {
        matches!(&delayed.wakeup.target, Target::Work(work) if work.written.is_some()) && delayed.delay.is_zero()
    });
    assert_eq!((published + named.count() as u64, published > 0), (WIDE, true));
}

/// Recovers in a process that crashes at a write, then in one that does not. Answers whether the first crashed.
async fn end_twice(fixture: &Fixture, n: u64, point: CrashPoint) -> (bool, PassOutcome) {
    let (listener, crashing) = fixture.process().await;
    listener.crash_at_write(n, point);
    until_crash(&listener, crashing.maintain_unfinished(page_of(10))).await;
    fixture.clock.advance(MUCH_LATER);
    let pass = fixture.provider.maintain_unfinished(page_of(10)).await;
    let pass = pass.expect("it can be searched");
    assert_eq!(pass.failed, 0, "{point:?} {n}: {pass:?}");
    (listener.crashed(), pass)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a crash at each write"]
async fn rolling_forward_that_crashes_at_any_write_is_completed_by_the_next() {
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::new().await;
        // What does not fit is staged, then the commit is decided; nothing is published.
        leave_a_commit(&fixture, 2).await;
        let before = kinds(&fixture).await;
        assert!(
            before.contains_key("staged") && before.contains_key("instance"),
            "{before:?}"
        );
        let (crashed, _) = end_twice(&fixture, n, point).await;
        let after = kinds(&fixture).await;
        assert_eq!(
            (after.get("work"), after.get("staged"), after.get("staged-head")),
            (Some(&WIDE), None, None),
            "{point:?} {n}"
        );
        let lock = fixture.world.document("wide", "instance").await.expect("it has a lock");
        assert!(lock["unfinished"].is_null(), "{point:?} {n}: {lock}");
        let history = fixture.provider.read_history("wide").await.expect("it has begun");
        assert_eq!(history.len() as u64, 1 + WIDE, "{point:?} {n}");
        crashed
    })
    .await;
    assert!(crashes >= 4, "{crashes} crashes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a crash at each write"]
async fn sweeping_an_undecided_commit_that_crashes_at_any_write_is_completed_by_the_next() {
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::new().await;
        leave_a_commit(&fixture, 1).await;
        let before = kinds(&fixture).await;
        let instance = fixture
            .world
            .document("wide", "instance")
            .await
            .expect("it was started");
        assert!(
            before.contains_key("staged-head") && instance["commits"].is_null(),
            "{before:?}"
        );
        let (crashed, _) = end_twice(&fixture, n, point).await;
        let after = kinds(&fixture).await;
        assert_eq!(
            (after.get("staged"), after.get("staged-head"), after.get("work")),
            (None, None, None),
            "{point:?} {n}"
        );
        // The turn was not committed: it runs again, whole.
        begin_again(&fixture).await;
        crashed
    })
    .await;
    assert!(crashes >= 2, "{crashes} crashes");
}

async fn begin_again(fixture: &Fixture) {
    let turn = turn(&fixture.provider, "wide").await;
    let decision = Decision::of(vec![started("wide", 1)]);
    let committed = commit(&fixture.provider, &turn.lock_token, decision).await;
    committed.expect("nothing is in its way");
}

/// Deletes `a` and `b` in a process that crashes once the deletion is decided.
async fn decide_deletion(fixture: &Fixture) {
    let (listener, deletes) = fixture.process().await;
    // Two marks, and the decision.
    listener.crash_at_write(3, CrashPoint::AfterApplied);
    let both = ["a".to_owned(), "b".to_owned()];
    until_crash(&listener, deletes.delete_instances_atomic(&both, true)).await;
    assert_eq!(kinds(fixture).await.get("deletion"), Some(&1), "it is decided");
    fixture.clock.advance(MUCH_LATER);
}

/// How many documents of each type there are, but for receipts: they outlive the instance, so that a redelivery after its
/// deletion cannot start it again.
async fn left(fixture: &Fixture) -> BTreeMap<String, u64> {
    let mut kinds = kinds(fixture).await;
    kinds.remove("receipt");
    kinds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a crash at each write"]
async fn completing_a_decided_deletion_that_crashes_at_any_write_is_completed_by_the_next() {
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::new().await;
        for instance in ["a", "b"] {
            begin_with(&fixture.provider, instance, 2, named()).await;
        }
        decide_deletion(&fixture).await;
        let (crashed, _) = end_twice(&fixture, n, point).await;
        assert_eq!(left(&fixture).await, BTreeMap::new(), "{point:?} {n}");
        crashed
    })
    .await;
    assert!(crashes >= 6, "{crashes} crashes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_complete_a_deletion_the_slower_one_leaves_nothing() {
    let fixture = Fixture::new().await;
    for instance in ["a", "b"] {
        begin_with(&fixture.provider, instance, 2, named()).await;
    }
    decide_deletion(&fixture).await;
    let (listener, late) = fixture.process().await;
    // It has read that the instance is marked; its read of the decision is paused.
    let pause = listener.pause_when(|log| log.len() == 1);
    let resuming = tokio::spawn(async move { late.resume("a", false).await });
    assert!(tests::is_paused(&pause, &resuming).await);
    let pass = fixture.provider.maintain_unfinished(page_of(10)).await;
    assert_eq!(pass.expect("it can be searched").failed, 0);
    drop(pause);
    let resumed = resuming.await.expect("it ends").expect("it can be asked");
    assert_eq!(resumed.outcome, PauseOutcome::NotFound);
    assert_eq!(left(&fixture).await, BTreeMap::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruning_that_crashes_at_any_write_is_completed_by_the_next() {
    let keep = Retention {
        keep_executions: Some(2),
        ..Retention::default()
    };
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::new().await;
        continued(&fixture.provider, "long", 5).await;
        let (listener, crashing) = fixture.process().await;
        listener.crash_at_write(n, point);
        until_crash(&listener, crashing.maintain_retention(&keep, page_of(10))).await;
        fixture.clock.advance(MUCH_LATER);
        let ended = fixture.provider.maintain_unfinished(page_of(10)).await;
        assert_eq!(ended.expect("it can be searched").failed, 0, "{point:?} {n}");
        crate::retention::retain(&fixture.provider, &keep, 10).await;
        let kept = fixture.provider.list_executions("long").await.expect("a list");
        assert_eq!(kept, [4, 5], "{point:?} {n}");
        let current = fixture.provider.read_history("long").await.expect("a history");
        assert!(!current.is_empty(), "{point:?} {n}");
        assert!(
            kinds(&fixture).await.get("history") <= Some(&2),
            "{point:?} {n}: nothing of the others is left"
        );
        listener.crashed()
    })
    .await;
    assert!(crashes >= 2, "{crashes} crashes");
}
