//! The function is killed at every write of a batch, before it is applied and after: another one goes on, and each instance is changed
//! and counted once.

use super::support::*;
use crate::pause::support::{BOTH, Scene};
use cosmos_emulator::{CrashPoint, Faults};
use duroxide_cosmos::{BatchAction, InstanceStatus};
use std::time::Duration;
use tests::until_crash;

const INSTANCES: usize = 5;

/// What is there before the batch, and what must be there after it.
async fn prepared(action: &BatchAction) -> Scene {
    let scene = Scene::new().await;
    match action {
        BatchAction::Delete { .. } | BatchAction::Restart { .. } | BatchAction::Rewind { .. } => {
            failed(&scene, INSTANCES).await
        }
        _ => running(&scene, INSTANCES).await,
    }
    if matches!(action, BatchAction::Resume { .. }) {
        for n in 0..INSTANCES {
            let paused = scene.provider.pause(&format!("i-{n}"), None, false).await;
            paused.expect("it is paused");
        }
    }
    scene
}

async fn assert_done_once(scene: &Scene, action: &BatchAction, context: &str) {
    let once = |found: Vec<(String, usize)>| {
        assert_eq!(found.len(), INSTANCES, "{context}: {found:?}");
        assert!(found.iter().all(|(_, count)| *count == 1), "{context}: {found:?}");
    };
    let all_are = async |expected: Option<InstanceStatus>| {
        for n in 0..INSTANCES {
            assert_eq!(status(scene, &format!("i-{n}")).await, expected, "{context}: {n}");
        }
    };
    match action {
        BatchAction::Cancel { .. } => once(messages(scene, "CancelInstance").await),
        BatchAction::Raise { .. } => once(messages(scene, "ExternalRaised").await),
        BatchAction::Pause { .. } => all_are(Some(InstanceStatus::Paused)).await,
        BatchAction::Resume { .. } => all_are(Some(InstanceStatus::Running)).await,
        BatchAction::Delete { .. } => all_are(None).await,
        BatchAction::Rewind { .. } => {
            all_are(Some(InstanceStatus::Running)).await;
            for doc in scene.world.documents().await {
                if doc["type"] == "instance" {
                    assert_eq!(doc["rewinds"].as_array().map(Vec::len), Some(1), "{context}: {doc}");
                }
            }
        }
        BatchAction::Restart { in_place, .. } => {
            let starts = messages(scene, "StartOrchestration").await;
            once(starts.clone());
            assert!(
                starts.iter().all(|(id, _)| id.starts_with("i-") == *in_place),
                "{starts:?}"
            );
        }
    }
}

/// Runs a batch in a process that is killed at its n-th write, and then in another. Answers whether it was killed.
async fn killed_at(action: &BatchAction, n: u64, when: CrashPoint) -> bool {
    let context = format!("{action:?}, killed at write {n}, {when:?}");
    let scene = prepared(action).await;
    start(&scene, "b", &request(action.clone(), all())).await;
    let (listener, function) = scene.process(Duration::from_secs(5)).await;
    listener.crash_at_write(n, when);
    let done = until_crash(&listener, finish(&scene, &function, "b")).await;
    scene.clock.advance(AFTER_ANY_PAUSE);
    let ended = finish(&scene, &scene.provider, "b").await;
    is_completed(&ended);
    assert_eq!(
        counts(&ended),
        [INSTANCES as u64, INSTANCES as u64, 0, 0, 0],
        "{context}"
    );
    assert_done_once(&scene, action, &context).await;
    done.is_none()
}

async fn sweep(action: BatchAction, least: u64) {
    for when in BOTH {
        let mut n = 1;
        while killed_at(&action, n, when).await {
            n += 1;
        }
        assert!(n > least, "{action:?} has {} writes", n - 1);
    }
}

/// Five instances in two pages: three writes of the job at least, and one or more for each instance.
const LEAST: u64 = INSTANCES as u64 + 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_events_killed_at_every_write_raises_each_once() {
    sweep(raise(), LEAST).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_restarts_in_place_killed_at_every_write_restarts_each_once() {
    sweep(restart(true), LEAST).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_rewinds_killed_at_every_write_rewinds_each_once() {
    sweep(rewind(), LEAST).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a run for each write of each action"]
async fn a_batch_killed_at_every_write_changes_and_counts_each_instance_once() {
    for action in [cancel(), pause(), resume(), delete(), restart(false)] {
        sweep(action, LEAST).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_and_throttling_change_and_count_each_instance_once() {
    for (seed, action) in [cancel(), pause(), raise(), delete(), restart(false), restart(true)]
        .into_iter()
        .enumerate()
    {
        let scene = prepared(&action).await;
        start(&scene, "b", &request(action.clone(), all())).await;
        let (listener, function) = scene.process(Duration::from_secs(60)).await;
        listener.set_faults(Faults {
            seed: seed as u64,
            lost_after: 0.3,
            lost_before: 0.1,
            throttled: 0.1,
            limit: Some(40),
            ..Faults::default()
        });
        let ended = finish(&scene, &function, "b").await;
        let context = format!("{action:?}");
        assert_eq!(
            counts(&ended),
            [INSTANCES as u64, INSTANCES as u64, 0, 0, 0],
            "{context}"
        );
        assert_done_once(&scene, &action, &context).await;
    }
}
