//! The process of an operator is killed at every write of a restart, before it is applied and after; a repetition with the same key
//! restarts the instance once.

use crate::pause::support::{BOTH, Scene};
use cosmos_emulator::{CrashPoint, Faults};
use duroxide_cosmos::{CosmosProvider, RestartRequest, Restarted};
use std::time::Duration;
use tests::turns::*;
use tests::until_crash;

async fn restart(provider: &CosmosProvider, in_place: bool) -> Restarted {
    let request = RestartRequest {
        instance: "a",
        version: None,
        key: Some("k"),
    };
    let restarted = match in_place {
        true => provider.restart_in_place(request, false).await,
        false => provider.restart_as_new(request, "b").await,
    };
    restarted.expect("the store answers")
}

/// Fails unless the instance that runs is there once, whole, with its start.
async fn assert_restarted(scene: &Scene, in_place: bool, context: &str) {
    let (instance, execution) = if in_place { ("a", 2) } else { ("b", 1) };
    let turn = turn(&scene.provider, instance).await;
    assert_eq!(
        (turn.item.execution_id, turn.item.messages.len()),
        (execution, 1),
        "{context}"
    );
    let documents = scene.world.documents().await;
    let archived = documents.iter().filter(|doc| doc["type"] == "execution").count();
    assert_eq!(archived, usize::from(in_place), "{context}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_killed_at_its_only_write_happens_once_if_it_is_repeated() {
    for in_place in [true, false] {
        for when in BOTH {
            let mut n = 1;
            loop {
                let context = format!("in place {in_place}, killed at write {n}, {when:?}");
                let scene = Scene::new().await;
                begin_with(&scene.provider, "a", 0, ended("Failed", "out")).await;
                let (listener, operator) = scene.process(Duration::from_secs(5)).await;
                listener.crash_at_write(n, when);
                let done = until_crash(&listener, restart(&operator, in_place)).await;
                let again = restart(&scene.provider, in_place).await;
                let is_written = done.is_some() || when == CrashPoint::AfterApplied;
                match is_written {
                    true => assert_eq!(again, Restarted::Repeated, "{context}"),
                    false => assert!(matches!(again, Restarted::Accepted { .. }), "{context}: {again:?}"),
                }
                assert_restarted(&scene, in_place, &context).await;
                if done.is_some() {
                    break;
                }
                n += 1;
            }
            assert_eq!(n - 1, 1, "the writes of a restart");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_do_not_restart_twice() {
    for seed in 1..=6 {
        for in_place in [true, false] {
            let scene = Scene::new().await;
            begin_with(&scene.provider, "a", 0, ended("Failed", "out")).await;
            let (listener, operator) = scene.process(Duration::from_secs(60)).await;
            listener.set_faults(Faults {
                seed,
                lost_after: 0.6,
                writes_only: true,
                limit: Some(4),
                ..Faults::default()
            });
            let restarted = restart(&operator, in_place).await;
            let context = format!("seed {seed}, in place {in_place}");
            assert!(
                matches!(restarted, Restarted::Accepted { .. }),
                "{context}: {restarted:?}"
            );
            assert_restarted(&scene, in_place, &context).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_restarts_at_once_one_begins_the_next_execution() {
    for _ in 0..5 {
        let scene = Scene::new().await;
        begin_with(&scene.provider, "a", 0, ended("Failed", "out")).await;
        let (_, other) = scene.process(Duration::from_secs(20)).await;
        let request = RestartRequest {
            instance: "a",
            version: None,
            key: None,
        };
        let (one, two) = tokio::join!(
            scene.provider.restart_in_place(request, false),
            other.restart_in_place(request, false)
        );
        let mut both = [one.expect("the store answers"), two.expect("the store answers")];
        both.sort_by_key(|restarted| *restarted == Restarted::NotEnded);
        assert_eq!(both, [Restarted::Accepted { execution: 2 }, Restarted::NotEnded]);
        assert_restarted(&scene, true, "two at once").await;
    }
}
