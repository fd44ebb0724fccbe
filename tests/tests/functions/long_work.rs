//! Work that takes longer than its lock: the lock is renewed, and the work stops when it is cancelled or the lock is lost.

use crate::activities::*;
use cosmos::Clock;
use cosmos_emulator::{Faults, Pause};
use duroxide_lambda::Limits;
use std::slice::from_ref;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::cloud::{Cloud, Function};
use tokio::time::Instant;

/// The runtime asks to renew such a lock long before its end; the gate then renews it when a third of it is over.
const LOCK: Duration = Duration::from_secs(8);

/// How much a slow machine may add to what ends by a timer.
const SLACK: Duration = Duration::from_secs(20);

fn limits() -> Limits {
    Limits {
        concurrency: 2,
        work_lock: LOCK,
        turn_lock: LOCK,
        cancel_grace: Duration::from_millis(500),
        ..Limits::default()
    }
}

fn away() -> Faults {
    Faults {
        unavailable: 1.0,
        ..Faults::default()
    }
}

/// Until when the activity of an instance is claimed.
async fn held_until(cloud: &Cloud, instance: &str) -> u64 {
    let item = work_item(cloud, instance).await.expect("a work item");
    item["until"].as_u64().expect("a time")
}

/// Pauses the first request that a function sends after the workflow code which runs next.
fn pause_next(stage: &Stage, function: &Function) -> Arc<Mutex<Option<Pause>>> {
    let held = Arc::new(Mutex::new(None));
    let (listener, slot) = (function.listener.clone(), Arc::clone(&held));
    stage.then(move || *slot.lock().expect("no panic") = Some(listener.pause_when(|_| true)));
    held
}

/// Waits until a time has moved.
async fn later_than(first: u64, time: impl AsyncFn() -> u64) {
    let limit = Instant::now() + Duration::from_secs(60);
    while time().await <= first {
        assert!(Instant::now() < limit, "it is not renewed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a function has asked so often to replace a document.
async fn replaces(function: &Function, count: u64) {
    until(|| function.listener.counts().replaces >= count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_renewed_while_its_activity_runs_by_one_request_each_time() {
    let (cloud, stage, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Patient").await;
    let another = cloud
        .another_worker("another", stage.activities(), Default::default())
        .await;
    let watch = async {
        until(|| stage.count("began", "order") == 1).await;
        let first = held_until(&cloud, "order").await;
        // Past the end of the first lock, it is still claimed.
        until(|| clock.now_ms() > first).await;
        assert!(held_until(&cloud, "order").await > clock.now_ms());
        served(&another.invoke(from_ref(&wakeup)).await);
        assert_outcomes(&another, &[("Busy", 1)]);
        assert_eq!(another.listener.counts().requests, 1);
        let again = only(cloud.queue.take());
        let target = wakeup.target.without_version();
        assert_eq!((&again.wakeup.target, again.wakeup.tries), (&target, 1));
        assert!(again.delay >= Duration::from_secs(1), "{again:?}");
        replaces(&cloud.worker, 3).await;
        stage.let_go("order");
    };
    let (response, ()) = futures::join!(cloud.worker.invoke(from_ref(&wakeup)), watch);
    served(&response);
    assert_outcomes(&cloud.worker, &[("Committed", 1)]);
    assert_eq!(stage.count("noticed", "order"), 0);
    let counts = cloud.worker.listener.counts();
    let renewals = counts.replaces;
    // A renewal that crosses the completion moves the item's version: the completion reads it and is sent again.
    let crossed = counts.batches - 1;
    assert!(crossed <= 1, "{counts:?}");
    assert_eq!((counts.patches, counts.reads), (1, crossed), "{counts:?}");
    assert_eq!(counts.requests, 1 + renewals + 1 + 2 * crossed, "{counts:?}");
    assert_output(&conclude(&cloud, "order").await, "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_shorter_than_the_lock_does_not_stop_an_activity() {
    let longer = Limits {
        work_lock: 2 * LOCK,
        ..limits()
    };
    let (cloud, stage, _) = cloud(longer).await;
    let wakeup = schedule(&cloud, "order", "Patient").await;
    let watch = async {
        until(|| stage.count("began", "order") == 1).await;
        let first = held_until(&cloud, "order").await;
        cloud.worker.listener.set_faults(away());
        replaces(&cloud.worker, 3).await;
        cloud.worker.listener.clear_faults();
        later_than(first, async || held_until(&cloud, "order").await).await;
        stage.let_go("order");
    };
    let (response, ()) = futures::join!(cloud.worker.invoke(from_ref(&wakeup)), watch);
    served(&response);
    assert_output(&conclude(&cloud, "order").await, "done");
    assert_eq!((stage.count("noticed", "order"), stage.count("began", "order")), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for locks in real time"]
async fn an_activity_whose_lock_expired_is_cancelled_at_once_and_runs_again_later() {
    let (cloud, stage, _) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Patient").await;
    let began = Instant::now();
    let watch = async {
        until(|| stage.count("began", "order") == 1).await;
        cloud.worker.listener.set_faults(away());
        until(|| stage.count("noticed", "order") == 1).await;
    };
    let (response, ()) = futures::join!(cloud.worker.invoke(from_ref(&wakeup)), watch);
    // Another may run it as soon as the lock expires, so the first must stop soon.
    let noticed = stage.times("noticed", "order")[0] - began;
    assert!(noticed < 4 * LOCK, "noticed only after {noticed:?}");
    served(&response);
    cloud.worker.listener.clear_faults();
    let item = work_item(&cloud, "order").await.expect("the item is not dropped");
    assert_eq!(item["attempts"], 1, "{item}");
    let again = only(cloud.queue.take());
    let another = cloud
        .another_worker("another", stage.activities(), Default::default())
        .await;
    stage.let_go("order");
    tokio::time::sleep(again.delay).await;
    served(&another.invoke(&[again.wakeup]).await);
    assert_outcomes(&another, &[("Committed", 1)]);
    assert_output(&conclude(&cloud, "order").await, "done");
    assert_eq!(stage.count("began", "order"), 2);
}

/// As after a pause of the whole machine: the lock has expired, though nobody else has claimed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for locks in real time"]
async fn an_activity_whose_lock_expired_unnoticed_is_woken_again() {
    let (cloud, stage, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Patient").await;
    let watch = async {
        until(|| stage.count("began", "order") == 1).await;
        clock.advance(LOCK);
        until(|| stage.count("noticed", "order") == 1).await;
    };
    let (response, ()) = futures::join!(cloud.worker.invoke(from_ref(&wakeup)), watch);
    served(&response);
    assert!(work_item(&cloud, "order").await.is_some());
    let again = only(cloud.queue.take());
    clock.advance(again.delay);
    stage.let_go("order");
    served(&cloud.worker.invoke(&[again.wakeup]).await);
    assert_output(&conclude(&cloud, "order").await, "done");
}

/// The store does not answer the renewal until after the moment when the activity must be cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for locks in real time"]
async fn a_renewal_that_hangs_does_not_delay_the_cancellation_of_its_activity() {
    let (cloud, stage, _) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Patient").await;
    let _held = pause_next(&stage, &cloud.worker);
    let began = Instant::now();
    let time = Duration::from_secs(8);
    served(&cloud.worker.invoke_within(&[wakeup], time).await);
    assert!(began.elapsed() < time + SLACK, "{:?}", began.elapsed());
    assert_eq!(stage.count("noticed", "order"), 1);
    assert!(work_item(&cloud, "order").await.is_some());
    assert_eq!(cloud.queue.take().len(), 1);
}

async fn cancel(cloud: &Cloud, instance: &str) {
    cloud
        .client
        .cancel_instance(instance, "not wanted")
        .await
        .expect("cancelled");
    let turn = only(cloud.queue.take());
    served(&cloud.orchestrator.invoke(&[turn.wakeup]).await);
    assert!(work_item(cloud, instance).await.is_none(), "its work item is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_orchestration_stops_its_running_activity() {
    let (cloud, stage, _) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Patient").await;
    let watch = async {
        until(|| stage.count("began", "order") == 1).await;
        cancel(&cloud, "order").await;
        Instant::now()
    };
    let (response, cancelled) = futures::join!(cloud.worker.invoke(from_ref(&wakeup)), watch);
    served(&response);
    let noticed = stage.times("noticed", "order")[0].saturating_duration_since(cancelled);
    assert!(noticed < 2 * LOCK, "within a renewal: {noticed:?}");
    assert_outcomes(&cloud.worker, &[("Cancelled", 1)]);
    // A lock may also expire without a taker: one more wakeup looks, and that is all.
    let again = only(cloud.queue.take());
    served(&cloud.worker.invoke(&[again.wakeup]).await);
    assert_outcomes(&cloud.worker, &[("Nothing", 1)]);
    assert!(cloud.queue.take().is_empty());

    let next = schedule(&cloud, "next", "Quick").await;
    served(&cloud.worker.invoke(&[next]).await);
    assert_output(&conclude(&cloud, "next").await, "quick");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_ends_after_its_orchestration_was_cancelled_is_no_failure() {
    let (cloud, stage, _) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Patient").await;
    let watch = async {
        until(|| stage.count("began", "order") == 1).await;
        cancel(&cloud, "order").await;
        stage.let_go("order");
    };
    let (response, ()) = futures::join!(cloud.worker.invoke(from_ref(&wakeup)), watch);
    served(&response);
    assert_outcomes(&cloud.worker, &[("Cancelled", 1)]);
}

/// The turn takes long because its commit is paused at the listener. It is claimed, because it was sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_a_long_turn_is_renewed_by_one_request_each_time() {
    let (cloud, stage, _) = cloud(limits()).await;
    let mut wakeup = start(&cloud, "order", "Turn", "").await;
    wakeup.tries = 1;
    let held = pause_next(&stage, &cloud.orchestrator);
    let watch = async {
        until(|| held.lock().expect("no panic").as_ref().is_some_and(Pause::is_reached)).await;
        let first = lock_until(&cloud, "order").await;
        replaces(&cloud.orchestrator, 2).await;
        later_than(first, async || lock_until(&cloud, "order").await).await;
        let counts = cloud.orchestrator.listener.counts();
        // The fetch asks once and claims, and the commit is under way. A slow machine may see two renewals.
        assert_eq!(counts.requests, 2 + counts.replaces, "{counts:?}");
        drop(held.lock().expect("no panic").take());
    };
    let (response, ()) = futures::join!(cloud.orchestrator.invoke(from_ref(&wakeup)), watch);
    served(&response);
    assert_outcomes(&cloud.orchestrator, &[("Committed", 1)]);
    assert_output(&status(&cloud, "order").await, "turned");
    assert_eq!(stage.count("began", "order"), 1);
}

async fn lock_until(cloud: &Cloud, instance: &str) -> u64 {
    let lock = cloud.world.document(instance, "instance").await.expect("a lock");
    lock["until"].as_u64().expect("a time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_turn_that_outlived_its_lock_is_fenced() {
    let (cloud, stage, clock) = cloud(limits()).await;
    let wakeup = start(&cloud, "order", "Slow", "").await;
    let another = cloud.another_orchestrator("another", stage.orchestrations()).await;
    let second = async {
        until(|| stage.count("began", "order") == 1).await;
        clock.advance(LOCK);
        let watch = async {
            until(|| stage.count("began", "order") == 2).await;
            stage.let_go("order");
        };
        let (response, ()) = futures::join!(another.invoke(from_ref(&wakeup)), watch);
        served(&response);
    };
    let (first, ()) = futures::join!(cloud.orchestrator.invoke(from_ref(&wakeup)), second);
    failed(&first, 1);
    assert_outcomes(&another, &[("Committed", 1)]);
    assert_outcomes(&cloud.orchestrator, &[("Failed", 1)]);
    assert_output(&status(&cloud, "order").await, "slow");
    let history = cloud
        .client
        .read_execution_history("order", 1)
        .await
        .expect("a history");
    assert_eq!(history.len(), 2, "{history:#?}");
}
