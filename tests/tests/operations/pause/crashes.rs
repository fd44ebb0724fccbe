//! The process of an operator is killed at every write of a pause or a resumption, before it is applied and after: the instance is
//! paused or not, whole, after a repetition by the operator, a fetch, or maintenance.

use super::support::*;
use cosmos_emulator::CrashPoint;
use duroxide::providers::WorkItem;
use duroxide_cosmos::{CosmosProvider, Fetched, PauseOutcome};
use std::collections::BTreeSet;
use std::time::Duration;
use tests::turns::*;
use tests::{recover, until_crash};

/// Who goes on after the crash.
#[derive(Clone, Copy, Debug)]
enum Then {
    Operator,
    Maintenance,
    Fetch,
}

const THEN: [Then; 3] = [Then::Operator, Then::Maintenance, Then::Fetch];

/// How much waits, and how many writes that takes.
#[derive(Clone, Copy, Debug)]
struct Size {
    activities: u64,
    events: u64,
    writes: u64,
}

const SMALL: Size = Size {
    activities: 3,
    events: 2,
    writes: 1,
};
/// 250 documents are three batches.
const LARGE: Size = Size {
    activities: 90,
    events: 160,
    writes: 3,
};

async fn prepared(size: Size) -> Scene {
    let scene = Scene::new().await;
    begin_with(&scene.provider, INSTANCE, size.activities, named()).await;
    for n in 0..size.events {
        enqueue(&scene.provider, raised(INSTANCE, &n.to_string())).await;
    }
    scene
}

/// Lets another process complete what the dead one has begun, if it has begun.
async fn complete(scene: &Scene, then: Then, verb: impl AsyncFn(&CosmosProvider) -> PauseOutcome) {
    match then {
        Then::Operator => {
            let outcome = verb(&scene.provider).await;
            assert!(
                matches!(outcome, PauseOutcome::Changed | PauseOutcome::Unchanged),
                "{outcome:?}"
            );
        }
        Then::Maintenance => {
            scene.clock.advance(REPAIRABLE);
            let recovered = recover(&scene.provider).await;
            assert_eq!(recovered.failed, 0, "{recovered:?}");
        }
        Then::Fetch => {
            let fetched = scene.provider.begin_turn(INSTANCE, None, LOCK, None).await;
            drop(fetched.expect("the store answers"));
        }
    }
}

async fn pause(provider: &CosmosProvider) -> PauseOutcome {
    let paused = provider.pause(INSTANCE, None, false).await;
    paused.expect("the store answers").outcome
}

async fn resume(provider: &CosmosProvider) -> PauseOutcome {
    let resumed = provider.resume(INSTANCE, false).await;
    resumed.expect("the store answers").outcome
}

/// Fails unless the resumed instance has each activity and each event once, in order.
async fn assert_all_is_there(scene: &Scene, size: Size, context: &str) {
    let turn = turn(&scene.provider, INSTANCE).await;
    let expected: Vec<String> = (0..size.events).map(|n| n.to_string()).collect();
    assert_eq!(events_of(&turn.item.messages), expected, "{context}");
    let mut ids = BTreeSet::new();
    for id in 2..2 + size.activities {
        match fetch_work(&scene.provider, id).await {
            Fetched::Ready(work) => assert!(matches!(work.item, WorkItem::ActivityExecute { id: of, .. } if of == id)),
            other => panic!("{context}: activity {id}: {other:?}"),
        }
        ids.insert(id);
    }
    assert_eq!(ids.len() as u64, size.activities);
}

async fn pause_killed_at(size: Size, n: u64, when: CrashPoint, then: Then) -> bool {
    let context = format!("pause of {size:?}, killed at write {n}, {when:?}, then {then:?}");
    let scene = prepared(size).await;
    let (listener, operator) = scene.process(Duration::from_secs(5)).await;
    listener.crash_at_write(n, when);
    let done = until_crash(&listener, pause(&operator)).await;
    let is_decided = done.is_some() || n > 1 || when == CrashPoint::AfterApplied;
    if is_decided && matches!(then, Then::Fetch) {
        let turn = fetch_turn_as_it_is(&scene).await;
        assert!(
            matches!(turn, Fetched::Paused { .. } | Fetched::RolledForward { .. }),
            "{context}: {turn:?}"
        );
    }
    complete(&scene, then, pause).await;
    let is_paused = is_decided || matches!(then, Then::Operator);
    scene.assert_consistent(is_paused, &context).await;
    if is_paused {
        scene.assert_held(&context).await;
        assert_eq!(resume(&scene.provider).await, PauseOutcome::Changed, "{context}");
    }
    scene.assert_consistent(false, &context).await;
    if is_paused {
        assert_all_is_there(&scene, size, &context).await;
    }
    done.is_none()
}

async fn fetch_turn_as_it_is(scene: &Scene) -> Fetched<duroxide_cosmos::TurnItem> {
    let fetched = scene.provider.begin_turn(INSTANCE, None, LOCK, None).await;
    fetched.expect("the store answers")
}

async fn resume_killed_at(size: Size, n: u64, when: CrashPoint, then: Then) -> bool {
    let context = format!("resumption of {size:?}, killed at write {n}, {when:?}, then {then:?}");
    let scene = prepared(size).await;
    assert_eq!(pause(&scene.provider).await, PauseOutcome::Changed);
    let (listener, operator) = scene.process(Duration::from_secs(5)).await;
    listener.crash_at_write(n, when);
    let done = until_crash(&listener, resume(&operator)).await;
    let is_decided = done.is_some() || n > 1 || when == CrashPoint::AfterApplied;
    complete(&scene, then, resume).await;
    let is_resumed = is_decided || matches!(then, Then::Operator);
    scene.assert_consistent(!is_resumed, &context).await;
    if !is_resumed {
        scene.assert_held(&context).await;
        assert_eq!(resume(&scene.provider).await, PauseOutcome::Changed, "{context}");
    }
    scene.assert_consistent(false, &context).await;
    assert_all_is_there(&scene, size, &context).await;
    done.is_none()
}

/// Kills at every write.
async fn sweep(size: Size, then: Then) {
    for when in BOTH {
        let mut n = 1;
        while pause_killed_at(size, n, when, then).await {
            n += 1;
        }
        assert_eq!(n - 1, size.writes, "the writes of a pause");
        let mut n = 1;
        while resume_killed_at(size, n, when, then).await {
            n += 1;
        }
        assert_eq!(n - 1, size.writes, "the writes of a resumption");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_or_resumption_killed_at_its_only_write_happens_or_not() {
    for then in THEN {
        sweep(SMALL, then).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_or_resumption_of_many_documents_killed_at_every_write_is_completed_by_maintenance() {
    sweep(LARGE, Then::Maintenance).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a run for each write, and each who goes on"]
async fn a_pause_or_resumption_of_many_documents_killed_at_every_write_is_completed_by_anybody() {
    for then in THEN {
        sweep(LARGE, then).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_do_not_repeat_or_undo_anything() {
    for seed in 1..=8 {
        let scene = prepared(SMALL).await;
        let (listener, operator) = scene.process(Duration::from_secs(60)).await;
        listener.set_faults(cosmos_emulator::Faults {
            seed,
            lost_after: 0.5,
            writes_only: true,
            limit: Some(4),
            ..cosmos_emulator::Faults::default()
        });
        for round in 0..3 {
            let context = format!("seed {seed}, round {round}");
            assert_eq!(pause(&operator).await, PauseOutcome::Changed, "{context}");
            scene.assert_consistent(true, &context).await;
            let resumed = operator.resume(INSTANCE, false).await.expect("the store answers");
            // Of a resumption whose answer was lost nothing remains to recognise it by; its wakeups are sent all the same.
            assert!(
                matches!(resumed.outcome, PauseOutcome::Changed | PauseOutcome::Unchanged),
                "{context}"
            );
            assert_eq!(
                resumed.due.len() as u64,
                1 + SMALL.activities,
                "{context}: {:?}",
                resumed.due
            );
            scene.assert_consistent(false, &context).await;
        }
        assert_all_is_there(&scene, SMALL, &format!("seed {seed}")).await;
    }
}
