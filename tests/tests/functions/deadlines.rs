//! An invocation ends in time, whatever an activity does; what it could not finish is abandoned, a limited number of times.

use crate::activities::*;
use duroxide::ErrorDetails;
use duroxide::runtime::OrchestrationStatus;
use duroxide_lambda::{Limits, Wakeup};
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;
use tests::ShiftedClock;
use tests::cloud::{Cloud, Function};
use tokio::time::Instant;

const GRACE: Duration = Duration::from_millis(500);
const RESERVE: Duration = Duration::from_secs(2);
/// The runtime's first renewal, before which an activity cannot be cancelled.
const FIRST: Duration = Duration::from_secs(1);
/// An invocation that an activity fits into, if a slow machine begins it in the first 4 s: it is cancelled after 5 s.
const SHORT: Duration = Duration::from_millis(7_500);
/// How much a slow machine may add to what ends by a timer.
const SLACK: Duration = Duration::from_secs(20);

fn limits() -> Limits {
    Limits {
        concurrency: 1,
        cancel_grace: GRACE,
        commit_reserve: RESERVE,
        max_attempts: 2,
        ..Limits::default()
    }
}

/// One invocation with so much time, and how long it took.
async fn timed(function: &Function, wakeups: &[Wakeup], time: Duration) -> (usize, Duration) {
    let began = Instant::now();
    let response = function.invoke_within(wakeups, time).await;
    (response.batch_item_failures.len(), began.elapsed())
}

/// Serves an activity and its turn. With one dispatcher, it also shows that the runtime has ended the last step.
async fn serves_on(cloud: &Cloud, instance: &str) {
    let wakeup = schedule(cloud, instance, "Quick").await;
    served(&cloud.worker.invoke(&[wakeup]).await);
    assert_output(&conclude(cloud, instance).await, "quick");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_outlives_its_invocation_is_cancelled_in_time_and_abandoned() {
    let (cloud, stage, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Patient").await;
    let began = Instant::now();
    let (failed, took) = timed(&cloud.worker, from_ref(&wakeup), SHORT).await;
    assert_eq!(failed, 0, "the record is served");
    assert!(took < SHORT + SLACK, "{took:?}");
    let noticed = stage.times("noticed", "order")[0] - began;
    assert!(noticed >= SHORT - GRACE - RESERVE, "{noticed:?}");
    assert_outcomes(&cloud.worker, &[("TimedOut", 1)]);

    let item = work_item(&cloud, "order").await.expect("a work item");
    assert!(is_free(&item), "{item}");
    assert_eq!(item["attempts"], 1, "{item}");
    let again = only(cloud.queue.take());
    assert_eq!(again.wakeup.target, wakeup.target.without_version());
    assert_eq!(again.delay, Duration::from_secs(1));

    clock.advance(again.delay);
    stage.let_go("order");
    let another = cloud
        .another_worker("another", stage.activities(), Default::default())
        .await;
    served(&another.invoke(&[again.wakeup]).await);
    assert_output(&conclude(&cloud, "order").await, "done");
    assert_eq!(stage.count("began", "order"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_wakeup_for_abandoned_work_is_not_lost() {
    let (cloud, stage, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Patient").await;
    served(&cloud.worker.invoke_within(&[wakeup], SHORT).await);
    let mut again = only(cloud.queue.take());
    stage.let_go("order");
    // It comes at once: the clocks of two environments differ, or the notifier knows no delays.
    for _ in 0..3 {
        served(&cloud.worker.invoke(&[again.wakeup]).await);
        if stage.count("began", "order") == 2 {
            break;
        }
        again = only(cloud.queue.take());
        clock.advance(again.delay);
    }
    assert_output(&conclude(&cloud, "order").await, "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for invocations in real time"]
async fn an_activity_that_never_fits_its_invocation_is_given_up() {
    let (cloud, stage, clock) = cloud(limits()).await;
    let mut wakeup = schedule(&cloud, "order", "Patient").await;
    served(&cloud.worker.invoke_within(&[wakeup], SHORT).await);
    assert_eq!(stage.count("noticed", "order"), 1);
    let again = only(cloud.queue.take());
    clock.advance(again.delay);
    wakeup = again.wakeup;
    assert_outcomes(&cloud.worker, &[("TimedOut", 1)]);
    served(&cloud.worker.invoke_within(&[wakeup], SHORT).await);
    assert_eq!(stage.count("began", "order"), 2, "it is given up with the last attempt");
    let counts = counted(&cloud.worker);
    assert_eq!((counts.get("GivenUp"), counts.get("Committed")), (Some(&1), Some(&1)));

    assert_timed_out(&conclude(&cloud, "order").await, "Patient");
    assert_eq!(counted(&cloud.orchestrator).get("OrchestrationsFailed"), Some(&1));
    assert!(cloud.queue.take().is_empty(), "nobody wakeups any more");
    assert!(work_item(&cloud, "order").await.is_none());
}

#[track_caller]
fn assert_timed_out(status: &OrchestrationStatus, name: &str) {
    let OrchestrationStatus::Failed {
        details: ErrorDetails::Application { message, .. },
        ..
    } = status
    else {
        panic!("{status:?}");
    };
    let begins = format!("activity `{name}` timed out 2 times after ");
    assert!(
        message.starts_with(&begins) && message.ends_with("(worker timeout 7.5 s)"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_ignores_its_token_is_aborted_after_the_grace() {
    let two = Limits {
        concurrency: 2,
        ..limits()
    };
    let (cloud, stage, clock) = cloud(two).await;
    let deaf = schedule(&cloud, "deaf", "Deaf").await;
    let elsewhere = schedule(&cloud, "elsewhere", "Elsewhere").await;
    let began = Instant::now();
    let (failed, took) = timed(&cloud.worker, &[deaf, elsewhere], SHORT).await;
    assert_eq!(failed, 0);
    assert!(took < SHORT + SLACK, "{took:?}");
    let dropped = stage.times("dropped", "deaf")[0] - began;
    assert!(dropped >= SHORT - RESERVE, "it has the grace to stop: {dropped:?}");
    assert_outcomes(&cloud.worker, &[("TimedOut", 2)]);

    // The thread of the second goes on, and ends while the next attempt runs. Its result is ignored.
    let again = cloud.queue.take();
    clock.advance(Duration::from_secs(1));
    let wakeups: Vec<Wakeup> = again.into_iter().map(|delayed| delayed.wakeup).collect();
    stage.let_go("deaf");
    let (next, ()) = futures::join!(cloud.worker.invoke(&wakeups), async {
        until(|| stage.count("began", "elsewhere") == 2).await;
        assert_eq!(stage.count("unblocked", "elsewhere"), 0);
        stage.let_go("elsewhere");
    });
    served(&next);
    until(|| stage.count("unblocked", "elsewhere") == 2).await;
    assert_output(&conclude(&cloud, "elsewhere").await, "done late");
    assert_output(&status(&cloud, "deaf").await, "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "exhaustive: waits for invocations in real time"]
async fn an_activity_that_blocks_its_thread_does_not_block_the_invocation() {
    let (cloud, stage, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Blocking").await;
    let (failed, took) = timed(&cloud.worker, from_ref(&wakeup), SHORT).await;
    assert_eq!(failed, 1, "nobody knows what became of it");
    assert!(took < SHORT + SLACK, "{took:?}");
    let before = requests_for(&cloud.worker, "order");
    // The one dispatcher is free when the activity ends, and may not log anything about it.
    stage.let_go("order");
    serves_on(&cloud, "next").await;
    assert_eq!(stage.count("unblocked", "order"), 1);
    assert_eq!(requests_for(&cloud.worker, "order"), before);
    assert_left_to_its_lock(&cloud, &clock, wakeup).await;
    assert_output(&conclude(&cloud, "order").await, "done late");
}

/// The work item of `order` is claimed for no longer than a lock lasts; then the activity runs.
async fn assert_left_to_its_lock(cloud: &Cloud, clock: &Arc<ShiftedClock>, wakeup: Wakeup) {
    let item = work_item(cloud, "order").await.expect("a work item");
    let left = item["until"]
        .as_u64()
        .expect("a time")
        .saturating_sub(cosmos::Clock::now_ms(&**clock));
    assert!(
        !is_free(&item) && left <= limits().work_lock.as_millis() as u64,
        "{item}"
    );
    counted(&cloud.worker);
    served(&cloud.worker.invoke(&[wakeup]).await);
    assert_outcomes(&cloud.worker, &[("Busy", 1)]);
    let again = only(cloud.queue.take());
    clock.advance(limits().work_lock);
    served(&cloud.worker.invoke(&[again.wakeup]).await);
    assert_outcomes(&cloud.worker, &[("Committed", 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_would_not_fit_is_not_begun() {
    let (cloud, stage, _) = cloud(limits()).await;
    let wakeup = start(&cloud, "order", "Turn", "").await;
    let almost = limits().turn_reserve - Duration::from_millis(1);
    served(&cloud.orchestrator.invoke_within(from_ref(&wakeup), almost).await);
    assert_eq!(cloud.orchestrator.listener.counts().requests, 0);
    assert_outcomes(&cloud.orchestrator, &[("Deferred", 1)]);
    let again = only(cloud.queue.take());
    assert_eq!(
        (again.delay, &again.wakeup.target),
        (Duration::from_secs(1), &wakeup.target)
    );
    assert_eq!(stage.count("began", "order"), 0);
    served(&cloud.orchestrator.invoke_within(&[again.wakeup], almost * 4).await);
    assert_output(&status(&cloud, "order").await, "turned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_would_not_fit_is_not_begun() {
    let (cloud, stage, _) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Quick").await;
    let almost = GRACE + RESERVE + FIRST - Duration::from_millis(1);
    served(&cloud.worker.invoke_within(from_ref(&wakeup), almost).await);
    assert_eq!(cloud.worker.listener.counts().requests, 0);
    assert_outcomes(&cloud.worker, &[("Deferred", 1)]);
    let again = only(cloud.queue.take());
    assert_eq!(
        (again.delay, &again.wakeup.target),
        (Duration::from_secs(1), &wakeup.target)
    );
    assert_eq!(work_item(&cloud, "order").await.expect("a work item")["attempts"], 0);
    served(&cloud.worker.invoke_within(&[again.wakeup], almost * 4).await);
    assert_eq!(stage.count("began", "order"), 1);
    assert_output(&conclude(&cloud, "order").await, "quick");
}

/// One dispatcher and two wakeups: the second waits for the first, and its time runs out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_that_no_dispatcher_had_time_for_is_deferred_and_not_failed() {
    let (cloud, stage, _) = cloud(limits()).await;
    let long = schedule(&cloud, "long", "Patient").await;
    let waiting = schedule(&cloud, "waiting", "Quick").await;
    let (failed, took) = timed(&cloud.worker, &[long, waiting], SHORT).await;
    assert!(took < SHORT + SLACK, "{took:?}");
    assert_eq!(failed, 0, "nothing is wrong with either");
    assert_outcomes(&cloud.worker, &[("Deferred", 1), ("TimedOut", 1)]);
    assert_eq!(cloud.queue.take().len(), 2);
    assert_eq!(stage.count("began", "waiting"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_turn_that_outlives_its_invocation_is_not_committed_later() {
    let short = Limits {
        turn_reserve: Duration::from_millis(500),
        ..limits()
    };
    let (cloud, stage, clock) = cloud(short).await;
    let wakeup = start(&cloud, "order", "Slow", "").await;
    let time = Duration::from_secs(4);
    let (failed, took) = timed(&cloud.orchestrator, from_ref(&wakeup), time).await;
    assert_eq!(failed, 1);
    assert!(took < time + SLACK, "{took:?}");
    let before = requests_for(&cloud.orchestrator, "order");
    stage.let_go("order");
    serves_on(&cloud, "next").await;
    assert_eq!(requests_for(&cloud.orchestrator, "order"), before);
    assert!(matches!(status(&cloud, "order").await, OrchestrationStatus::NotFound));
    clock.advance(limits().turn_lock);
    served(&cloud.orchestrator.invoke(&[wakeup]).await);
    assert_output(&status(&cloud, "order").await, "slow");
}

/// The commit takes most of what is left, and then the notifier hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wakeup_is_sent_after_the_invocation() {
    let patient = Limits {
        notify_timeout: Duration::from_secs(60),
        ..limits()
    };
    let (cloud, _, _) = cloud(patient).await;
    let wakeup = schedule(&cloud, "order", "Quick").await;
    cloud.queue.hold();
    let (_, took) = timed(&cloud.worker, &[wakeup], SHORT).await;
    assert!(took < SHORT + SLACK, "{took:?}");
}
