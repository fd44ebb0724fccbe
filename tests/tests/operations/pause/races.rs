//! Races with live turns and activities: the fence and the versions decide, whichever is first.

use super::support::*;
use cosmos_emulator::{Pause, RequestKind, RequestRecord};
use duroxide::providers::{Provider as _, TagFilter, WorkItem};
use duroxide_cosmos::{Fetched, InstanceStatus, PauseOutcome, TurnDecision};
use futures::future::join_all;
use std::sync::Arc;
use tests::is_paused;
use tests::turns::*;

fn batches(log: &[RequestRecord]) -> usize {
    log.iter().filter(|record| record.kind == RequestKind::Batch).count()
}

/// A pause that has listed what waits, and stalls before its first batch.
async fn stalled_pause(scene: &Scene) -> (tokio::task::JoinHandle<PauseOutcome>, Pause, cosmos_emulator::Listener) {
    let (listener, operator) = scene.process(PATIENT).await;
    let stall = listener.pause_when(|log| log.last().is_some_and(|last| last.kind == RequestKind::Query));
    let task = tokio::spawn(async move {
        let paused = operator.pause(INSTANCE, None, false).await;
        paused.expect("the store answers").outcome
    });
    (task, stall, listener)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_items_that_a_turn_commits_at_the_same_moment_are_parked() {
    let scene = Scene::new().await;
    begin_with(&scene.provider, INSTANCE, 1, named()).await;
    enqueue(&scene.provider, raised(INSTANCE, "1")).await;
    let racing = turn(&scene.provider, INSTANCE).await;
    let (task, stall, listener) = stalled_pause(&scene).await;
    assert!(is_paused(&stall, &task).await, "it stalls");
    let decision = Decision {
        events: vec![heard(INSTANCE, 1, 3), scheduled(INSTANCE, 4)],
        work: vec![activity(INSTANCE, 4)],
        ..Decision::default()
    };
    commit(&scene.provider, &racing.lock_token, decision)
        .await
        .expect("it was first");
    drop(stall);
    assert_eq!(task.await.expect("it ends"), PauseOutcome::Changed);
    assert!(batches(&listener.log()) >= 2, "its first batch has failed");
    scene.assert_consistent(true, "the turn was first").await;
    let (_, queued) = scene.queued(INSTANCE).await;
    assert_eq!(queued.len(), 2, "both activities are parked: {queued:?}");
    scene.assert_held("the turn was first").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_was_fetched_before_the_pause_commits_nothing_and_runs_again() {
    for is_claimed in [false, true] {
        let context = format!("claimed: {is_claimed}");
        let scene = Scene::new().await;
        begin(&scene.provider, INSTANCE).await;
        enqueue(&scene.provider, raised(INSTANCE, "1")).await;
        let late = match is_claimed {
            true => turn(&scene.provider, INSTANCE).await,
            false => ready(
                scene
                    .provider
                    .begin_turn(INSTANCE, None, LOCK, None)
                    .await
                    .expect("the store answers"),
            ),
        };
        assert_eq!(scene.pause().await, PauseOutcome::Changed, "{context}");
        let before = snapshot(&scene.world).await;
        let decision = TurnDecision {
            execution: 1,
            events: vec![heard(INSTANCE, 1, 2), scheduled(INSTANCE, 3)],
            work: vec![activity(INSTANCE, 3)],
            metadata: named(),
            ..TurnDecision::default()
        };
        let pending = scene.provider.commit_turn(&late.lock_token, decision.clone());
        pending.done.await.expect_err(&context);
        assert_eq!(pending.decided.is_raced(), !is_claimed, "{context}");
        let again = scene.provider.commit_turn(&late.lock_token, decision);
        again
            .done
            .await
            .expect_err("the runtime cannot commit a failure in its place");
        assert_eq!(before, snapshot(&scene.world).await, "{context}: nothing was written");
        assert_eq!(scene.resume().await, PauseOutcome::Changed, "{context}");
        let again = turn(&scene.provider, INSTANCE).await;
        assert_eq!(events_of(&again.item.messages), ["1"], "{context}");
        assert_eq!(again.attempt, 1, "{context}: a turn that was fenced off is no attempt");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_is_claimed_while_it_is_being_parked_runs_to_its_end() {
    let scene = Scene::new().await;
    let works = written_work(&scene.provider, INSTANCE, Decision::first(INSTANCE, 2)).await;
    let (task, stall, _listener) = stalled_pause(&scene).await;
    assert!(is_paused(&stall, &task).await, "it stalls");
    let claimed = scene
        .provider
        .fetch_written_work(&works[0], LOCK, None, &TagFilter::DefaultOnly)
        .await;
    let claimed = ready(claimed.expect("the store answers"));
    drop(stall);
    assert_eq!(task.await.expect("it ends"), PauseOutcome::Changed);
    scene.assert_consistent(true, "the claim was first").await;
    scene.assert_held("the claim was first").await;
    let completed = scene
        .provider
        .ack_work_item(&claimed.lock_token, Some(done(INSTANCE, 2)))
        .await;
    completed.expect("it completes");
    assert_eq!(scene.resume().await, PauseOutcome::Changed);
    let turn = turn(&scene.provider, INSTANCE).await;
    assert!(matches!(
        turn.item.messages.as_slice(),
        [WorkItem::ActivityCompleted { id: 2, .. }]
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_comes_after_the_pause_fails_with_the_version_and_without_it() {
    let scene = Scene::new().await;
    let works = written_work(&scene.provider, INSTANCE, Decision::first(INSTANCE, 1)).await;
    assert_eq!(scene.pause().await, PauseOutcome::Changed);
    let blind = scene
        .provider
        .fetch_written_work(&works[0], LOCK, None, &TagFilter::DefaultOnly)
        .await;
    let blind = blind.expect("the store answers");
    assert!(
        matches!(blind, Fetched::Busy { .. }),
        "the wakeup is sent again without the version: {blind:?}"
    );
    assert!(matches!(
        fetch_work(&scene.provider, 2).await,
        Fetched::Paused { is_late: false }
    ));
    let resumed = scene.provider.resume(INSTANCE, false).await.expect("the store answers");
    let versions = resumed.due.iter().filter_map(|due| match &due.target {
        duroxide_cosmos::Target::Work(work) => work.written.clone().map(|_| work.clone()),
        duroxide_cosmos::Target::Turn { .. } | duroxide_cosmos::Target::Batch { .. } => None,
    });
    let versions: Vec<_> = versions.collect();
    assert_eq!(
        versions.len(),
        1,
        "the new wakeup knows the new version: {:?}",
        resumed.due
    );
    let claimed = scene
        .provider
        .fetch_written_work(&versions[0], LOCK, None, &TagFilter::DefaultOnly)
        .await;
    assert_eq!(ready(claimed.expect("the store answers")).attempt, 1);
}

/// A resumption and a pause at the same moment, two pauses, two resumptions: whoever is second sees what the first has done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_operators_at_once_leave_a_whole_pause_or_none() {
    let scene = Scene::new().await;
    begin_with(&scene.provider, INSTANCE, 3, named()).await;
    let (task, stall, _listener) = stalled_pause(&scene).await;
    assert!(is_paused(&stall, &task).await, "it stalls");
    assert_eq!(scene.pause().await, PauseOutcome::Changed, "the second is faster");
    drop(stall);
    assert_eq!(
        task.await.expect("it ends"),
        PauseOutcome::Unchanged,
        "the first finds it paused"
    );
    scene.assert_consistent(true, "two pauses").await;
    let summary = scene
        .provider
        .instance_summary(INSTANCE)
        .await
        .expect("the store answers");
    let paused = summary.and_then(|summary| summary.paused).expect("it is paused");
    assert_eq!(paused.reason.as_deref(), Some("why"), "of who has paused it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_calls_at_once_end_in_a_consistent_state() {
    let scene = Scene::new().await;
    begin_with(&scene.provider, INSTANCE, 5, named()).await;
    for n in 0..5 {
        enqueue(&scene.provider, raised(INSTANCE, &n.to_string())).await;
    }
    let mut operators = Vec::new();
    for _ in 0..4 {
        operators.push(scene.process(PATIENT).await.1);
    }
    let calls = (0..200).map(|n: usize| {
        let operator = Arc::clone(&operators[n % 4]);
        tokio::spawn(async move {
            match n % 2 {
                0 => operator.pause(INSTANCE, None, false).await,
                _ => operator.resume(INSTANCE, false).await,
            }
        })
    });
    for done in join_all(calls).await {
        // Under so many others a call may give up; it says so.
        match done.expect("no panic") {
            Ok(result) => assert!(matches!(
                result.outcome,
                PauseOutcome::Changed | PauseOutcome::Unchanged
            )),
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
    let is_paused = scene.status(INSTANCE).await == Some(InstanceStatus::Paused);
    scene.assert_consistent(is_paused, "200 calls").await;
    scene.resume().await;
    scene.assert_consistent(false, "200 calls").await;
    let turn = turn(&scene.provider, INSTANCE).await;
    assert_eq!(events_of(&turn.item.messages), ["0", "1", "2", "3", "4"]);
    for id in 2..7 {
        work(&scene.provider, INSTANCE, id).await;
    }
}
