//! Wakeups that arrive long before their time are sent again for the rest of it, and cost no request.

use crate::support::*;
use cosmos::{Clock, SystemClock};
use duroxide::providers::{Provider, TagFilter};
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_cosmos::Fetched;
use duroxide_lambda::{Delayed, Wakeup};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tests::ShiftedClock;
use tests::cloud::{Cloud, CloudOptions};
use tests::workload;

/// Waits for an event and then for a timer, both scheduled at once.
fn orchestrations() -> OrchestrationRegistry {
    let both = |ctx: OrchestrationContext, seconds: String| async move {
        let seconds = seconds.parse().map_err(|_| "not a number".to_owned())?;
        let timer = ctx.schedule_timer(Duration::from_secs(seconds));
        let event = ctx.schedule_wait("Go");
        let said = event.await;
        timer.await;
        Ok(said)
    };
    let wait = |ctx: OrchestrationContext, millis: String| async move {
        let millis = millis.parse().map_err(|_| "not a number".to_owned())?;
        ctx.schedule_timer(Duration::from_millis(millis)).await;
        Ok("fired".to_owned())
    };
    OrchestrationRegistry::builder()
        .register("Both", both)
        .register("Wait", wait)
        .build()
}

fn now() -> u64 {
    SystemClock.now_ms()
}

/// The delay must be the whole seconds before the wakeup is due, and at least 50 ms less than the rest.
#[track_caller]
fn assert_for_the_rest(again: &Delayed, due: u64, asked: u64) {
    let seconds = |left: u64| (left - 50) / 1_000;
    let (soonest, latest) = (seconds(due - now()), seconds(due - asked));
    assert_eq!(again.wakeup.due_ms, Some(due));
    assert_eq!(again.delay.subsec_nanos(), 0);
    let delay = again.delay.as_secs();
    assert!((soonest..=latest).contains(&delay), "{soonest} <= {delay} <= {latest}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_before_its_timer_is_due_is_sent_again_for_the_rest() {
    let clock = Arc::new(ShiftedClock::default());
    let options = CloudOptions {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, orchestrations(), workload::activities()).await;
    let first = start(&cloud, "order", "Wait", "300000").await;
    serve(&cloud.orchestrator, &[first]).await;
    let timer = only(cloud.queue.take());
    let due = timer.wakeup.due_ms.expect("it is for later");
    assert_for_the_rest(&timer, due, due - 300_000);

    let asked = now();
    let (response, cost) = cost_of(&cloud.orchestrator.listener, cloud.orchestrator.invoke(&[timer.wakeup])).await;
    assert_eq!(failed(&response), [""; 0]);
    cost.is_exactly(&[], 0);
    let again = only(cloud.queue.take());
    assert_eq!(again.wakeup.target, turn_of("order"));
    assert_for_the_rest(&again, due, asked);

    // A busy notifier must not lose it: the record is delivered again.
    cloud.queue.fail_all(true);
    let response = cloud.orchestrator.invoke(std::slice::from_ref(&again.wakeup)).await;
    assert_eq!(failed(&response), ["0"]);
    cloud.queue.fail_all(false);

    clock.advance(again.delay);
    serve(&cloud.orchestrator, &[again.wakeup]).await;
    assert_eq!(output(&cloud, "order").await, "fired");
    assert!(cloud.queue.take().is_empty(), "a wakeup in time is not repeated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_wakeup_is_kept_when_another_of_its_batch_leads_to_a_commit() {
    let cloud = Cloud::start(orchestrations(), workload::activities()).await;
    let first = start(&cloud, "order", "Both", "600").await;
    serve(&cloud.orchestrator, &[first]).await;
    let timer = only(cloud.queue.take()).wakeup;
    let due = timer.due_ms.expect("it is for later");
    let raised = cloud.client.raise_event("order", "Go", "gone").await;
    raised.expect("it is raised");
    let event = only(cloud.queue.take()).wakeup;
    let asked = now();
    serve(&cloud.orchestrator, &[timer.clone(), event, timer]).await;
    assert_eq!(metrics(&cloud.orchestrator)["Committed"], 2, "the event had its turn");
    let again = only(cloud.queue.take());
    assert_for_the_rest(&again, due, asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_wakeup_is_kept_when_its_instance_is_busy() {
    let cloud = Cloud::start(orchestrations(), workload::activities()).await;
    let first = start(&cloud, "order", "Both", "600").await;
    serve(&cloud.orchestrator, &[first]).await;
    let timer = only(cloud.queue.take()).wakeup;
    let due = timer.due_ms.expect("it is for later");
    let raised = cloud.client.raise_event("order", "Go", "gone").await;
    raised.expect("it is raised");
    let held = cloud.silent.fetch_turn("order", Duration::from_secs(600), None).await;
    held.expect("somebody else has the turn");
    serve(&cloud.orchestrator, &[timer, only(cloud.queue.take()).wakeup]).await;
    let (at_once, later): (Vec<Delayed>, Vec<Delayed>) = cloud
        .queue
        .take()
        .into_iter()
        .partition(|again| again.wakeup.due_ms.is_none());
    assert_eq!(only(at_once).wakeup.tries, 1);
    assert_eq!(only(later).wakeup.due_ms, Some(due));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_before_an_activity_may_be_retried_is_sent_again_for_the_rest() {
    let clock = Arc::new(ShiftedClock::default());
    let options = CloudOptions {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, workload::orchestrations(), workload::activities()).await;
    let first = start(&cloud, "order", "HelloCities", "1").await;
    serve(&cloud.orchestrator, &[first]).await;
    let work = only(cloud.queue.take()).wakeup;
    let (activity, pause) = (work_of(&work).identifier(), Duration::from_secs(300));
    let held = cloud
        .silent
        .fetch_work(&activity, pause, None, &TagFilter::DefaultOnly)
        .await;
    let Fetched::Ready(held) = held.expect("a fetch") else {
        panic!("there is an activity to hold");
    };
    let released = cloud
        .silent
        .abandon_work_item(&held.lock_token, Some(pause), false)
        .await;
    released.expect("the activity is abandoned");
    // Who abandons it sends a wakeup with this time, and without a version.
    let due = clock.now_ms() + 300_000;
    let wakeup = Wakeup {
        due_ms: Some(due),
        ..Wakeup::to(work.target.without_version())
    };
    let asked = now();
    serve(&cloud.worker, &[wakeup]).await;
    let again = only(cloud.queue.take());
    assert_for_the_rest(&again, due, asked);
    clock.advance(again.delay);
    serve(&cloud.worker, &[again.wakeup]).await;
    assert_eq!(metrics(&cloud.worker)["Committed"], 1);
}

/// The worker's clock is behind that of the commit: the version of the work item says that it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_was_written_in_the_future_runs_at_once_and_is_not_woken_again() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let first = start(&cloud, "order", "HelloCities", "1").await;
    serve(&cloud.orchestrator, &[first]).await;
    let mut work = only(cloud.queue.take()).wakeup;
    work.due_ms = Some(now() + 60_000);
    serve(&cloud.worker, &[work]).await;
    assert_eq!(metrics(&cloud.worker)["Committed"], 1);
    assert_eq!(only(cloud.queue.take()).wakeup.target, turn_of("order"));
}

/// A clock that is three seconds late, and stands still there until it is moved.
#[derive(Debug)]
struct Late(AtomicU64);

impl Clock for Late {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The wakeup comes when the timer is due by every clock but the function's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_whose_clock_is_late_sends_the_wakeup_again_for_its_own_time() {
    let cloud = Cloud::start(orchestrations(), workload::activities()).await;
    let clock = Arc::new(Late(AtomicU64::new(now() - 3_000)));
    let same = Arc::clone(&clock) as Arc<dyn Clock>;
    let late = cloud.another_orchestrator_at(same, "late", orchestrations()).await;
    let first = start(&cloud, "order", "Wait", "200").await;
    serve(&cloud.orchestrator, &[first]).await;
    let wakeup = only(cloud.queue.take()).wakeup;
    let due = wakeup.due_ms.expect("it is for later");
    until("it is due", async || now() >= due).await;

    serve(&late, &[wakeup]).await;
    let again = only(cloud.queue.take());
    assert_eq!(again.wakeup.due_ms, Some(due));
    let left = due - clock.now_ms();
    assert_eq!(again.delay, Duration::from_secs((left - 50) / 1_000));
    assert!(again.delay >= Duration::from_secs(3));

    clock.0.store(due, Ordering::SeqCst);
    serve(&late, &[again.wakeup]).await;
    assert_eq!(output(&cloud, "order").await, "fired");
    assert!(cloud.queue.take().is_empty());
}
