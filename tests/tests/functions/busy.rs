//! Busy is not lost: a wakeup that meets a lock costs one request and no waiting, and is sent again.

use crate::support::*;
use cosmos_emulator::RequestKind::{Patch, Query, Read};
use duroxide::providers::{Provider, TagFilter};
use duroxide::{OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_cosmos::Fetched;
use duroxide_lambda::Wakeup;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tests::cloud::Cloud;
use tests::workload;

/// Longer than any test.
const HELD: Duration = Duration::from_secs(600);
const SECOND: Duration = Duration::from_secs(1);

/// Claims the next turn of an instance, as another invocation would; answers the lock token.
async fn hold_turn(cloud: &Cloud, instance: &str) -> String {
    let fetched = cloud.silent.fetch_turn(instance, HELD, None).await;
    match fetched.expect("a fetch") {
        Fetched::Ready(turn) => turn.lock_token,
        other => panic!("there is a turn to hold, not {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_for_a_claimed_turn_costs_one_request_and_is_sent_again() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let first = start(&cloud, "order", "HelloCities", "1").await;
    let token = hold_turn(&cloud, "order").await;

    // It returns while the instance is locked, so it does not wait.
    let (response, cost) = cost_of(&cloud.orchestrator.listener, cloud.orchestrator.invoke(&[first])).await;
    assert_eq!(failed(&response), [""; 0]);
    cost.is_exactly(&[Query], 1);
    assert_eq!(metrics(&cloud.orchestrator)["Busy"], 1);
    let again = only(cloud.queue.take());
    assert_eq!(
        (&again.wakeup.target, again.wakeup.tries, again.wakeup.due_ms),
        (&turn_of("order"), 1, None)
    );
    assert_eq!(again.delay, SECOND);

    let released = cloud.silent.abandon_orchestration_item(&token, None, true).await;
    released.expect("the turn is abandoned");
    serve(&cloud.orchestrator, &[again.wakeup]).await;
    cloud.drain().await;
    assert!(output(&cloud, "order").await.contains("Oslo"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_for_a_busy_instance_is_sent_again_at_growing_intervals() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let mut wakeup = start(&cloud, "order", "HelloCities", "1").await;
    hold_turn(&cloud, "order").await;
    let mut pauses = Vec::new();
    for tries in 1..=7 {
        serve(&cloud.orchestrator, &[wakeup]).await;
        let again = only(cloud.queue.take());
        assert_eq!(again.wakeup.tries, tries);
        pauses.push(again.delay.as_secs());
        wakeup = again.wakeup;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 16]);
    // A fresh wakeup beside one that was sent often means that something new arrived.
    serve(&cloud.orchestrator, &[wakeup, Wakeup::turn("order")]).await;
    assert_eq!(only(cloud.queue.take()).delay, SECOND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_for_a_claimed_activity_costs_one_request_and_is_sent_again() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let first = start(&cloud, "order", "HelloCities", "1").await;
    serve(&cloud.orchestrator, &[first]).await;
    let work = only(cloud.queue.take()).wakeup;
    let activity = work_of(&work).identifier();
    let held = cloud
        .silent
        .fetch_work(&activity, HELD, None, &TagFilter::DefaultOnly)
        .await;
    let Fetched::Ready(held) = held.expect("a fetch") else {
        panic!("there is an activity to hold");
    };
    let (response, cost) = cost_of(&cloud.worker.listener, cloud.worker.invoke(std::slice::from_ref(&work))).await;
    assert_eq!(failed(&response), [""; 0]);
    cost.is_exactly(&[Patch], 1);
    let again = only(cloud.queue.take());
    // Whoever claimed the item has written it: its version is of no use any more.
    let target = work.target.without_version();
    assert_eq!((&again.wakeup.target, again.wakeup.tries), (&target, 1));
    assert_eq!(again.delay, SECOND);

    let (response, cost) = cost_of(&cloud.worker.listener, cloud.worker.invoke(&[again.wakeup])).await;
    assert_eq!(failed(&response), [""; 0]);
    cost.is_exactly(&[Read], 1);
    let again = only(cloud.queue.take());
    assert_eq!((&again.wakeup.target, again.wakeup.tries), (&target, 2));

    let released = cloud.silent.abandon_work_item(&held.lock_token, None, true).await;
    released.expect("the activity is abandoned");
    serve(&cloud.worker, &[again.wakeup]).await;
    cloud.drain().await;
    assert!(output(&cloud, "order").await.contains("Oslo"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_record_fails_when_its_wakeup_cannot_be_sent_again() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let wakeup = start(&cloud, "order", "HelloCities", "1").await;
    let free = start(&cloud, "free", "HelloCities", "1").await;
    hold_turn(&cloud, "order").await;
    cloud.queue.fail_all(true);
    let batch = [wakeup.clone(), free, wakeup];
    let response = cloud.orchestrator.invoke(&batch).await;
    // The committed one is served, though its own wakeup was lost as well.
    assert_eq!(failed(&response), ["0", "2"]);
    assert_eq!(metrics(&cloud.orchestrator)["WakeupsFailed"], 2);
}

/// Two messages; the second arrives when the first process has fetched and not yet committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_arrives_during_a_turn_leads_to_another_turn_without_maintenance() {
    let orchestrations = || {
        let inbox = |ctx: OrchestrationContext, _: String| async move { Ok(ctx.dequeue_event("inbox").await) };
        OrchestrationRegistry::builder().register("Inbox", inbox).build()
    };
    let cloud = Cloud::start(orchestrations(), workload::activities()).await;
    let other = cloud.another_orchestrator("other", orchestrations()).await;
    let mut first = start(&cloud, "order", "Inbox", "").await;
    // It was sent again, so its turn is claimed. Read and claim have passed; the commit is paused.
    first.tries = 1;
    cloud.orchestrator.listener.reset();
    let commit = cloud.orchestrator.listener.pause_when(|log| log.len() == 2);
    let holder = cloud.orchestrator.invoke(std::slice::from_ref(&first));
    let meanwhile = async {
        until("the commit is held", async || commit.is_reached()).await;
        let queued = cloud.client.enqueue_event("order", "inbox", "late").await;
        queued.expect("it is queued");
        let late = only(cloud.queue.take()).wakeup;
        serve(&other, &[late]).await;
        drop(commit);
        only(cloud.queue.take())
    };
    let (response, again) = futures::join!(holder, meanwhile);
    assert_eq!(failed(&response), [""; 0]);
    assert!(
        matches!(status(&cloud, "order").await, OrchestrationStatus::Running { .. }),
        "the holder did not see it"
    );
    assert!(cloud.queue.take().is_empty(), "nobody else wakeups");
    assert_eq!((again.delay, again.wakeup.tries), (SECOND, 1));
    serve(&other, &[again.wakeup]).await;
    assert_eq!(output(&cloud, "order").await, "late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_environments_that_race_for_an_instance_one_commits_the_turn() {
    let turns = Arc::new(AtomicUsize::new(0));
    let orchestrations = || {
        let turns = Arc::clone(&turns);
        let quick = move |_: OrchestrationContext, _: String| {
            turns.fetch_add(1, Ordering::SeqCst);
            async move { Ok("done".to_owned()) }
        };
        OrchestrationRegistry::builder().register("Quick", quick).build()
    };
    let cloud = Cloud::start(orchestrations(), workload::activities()).await;
    let other = cloud.another_orchestrator("other", orchestrations()).await;
    for n in 1..=20 {
        let instance = format!("i{n}");
        let wakeup = [start(&cloud, &instance, "Quick", "").await];
        let (one, two) = futures::join!(cloud.orchestrator.invoke(&wakeup), other.invoke(&wakeup));
        assert_eq!((failed(&one), failed(&two)), (vec![], vec![]));
        assert!(
            cloud.queue.take().is_empty(),
            "the one that lost has looked again, and found nothing"
        );
        assert_eq!(output(&cloud, &instance).await, "done");
    }
    let counted = [metrics(&cloud.orchestrator), metrics(&other)];
    let committed: u64 = counted.iter().filter_map(|line| line["Committed"].as_u64()).sum();
    assert_eq!(committed, 20, "{counted:?}");
    let raced: u64 = counted.iter().filter_map(|line| line["Raced"].as_u64()).sum();
    assert_eq!(
        turns.load(Ordering::SeqCst) as u64,
        20 + raced,
        "what both ran is counted"
    );
}

/// The first process stalls at its commit until another has committed the same turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_was_taken_over_commits_nothing() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let other = cloud.another_orchestrator("other", workload::orchestrations()).await;
    let wakeup = [start(&cloud, "order", "HelloCities", "1").await];
    cloud.orchestrator.listener.reset();
    let commit = cloud.orchestrator.listener.pause_when(|log| log.len() == 1);
    let holder = cloud.orchestrator.invoke(&wakeup);
    let meanwhile = async {
        until("the commit is held", async || commit.is_reached()).await;
        serve(&other, &wakeup).await;
        drop(commit);
        plain(cloud.queue.take())
    };
    let (response, work) = futures::join!(holder, meanwhile);
    assert_eq!(failed(&response), [""; 0], "it has looked again, and found nothing");
    assert!(
        cloud.queue.take().is_empty(),
        "it has written nothing, and wakes nobody"
    );
    let counted = metrics(&cloud.orchestrator);
    assert_eq!(
        (&counted["Raced"], &counted["Nothing"], &counted["Committed"]),
        (&1.into(), &1.into(), &Value::Null)
    );
    serve(&cloud.worker, &work).await;
    cloud.drain().await;
    assert!(output(&cloud, "order").await.contains("Oslo"));
    let history = cloud.client.read_execution_history("order", 1).await;
    workload::assert_sound("order", &history.expect("a history"));
}
