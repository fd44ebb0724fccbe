//! Exact timers, in real time, as duroxide's timers are: what they cost, and how late they are.
//!
//! A test about lateness is repeated when the machine stalls. `waiting` has the rules, in a time that tests move.

use crate::support::*;
use cosmos::{Clock, SystemClock};
use cosmos_emulator::RequestKind::{Batch, Query};
use duroxide::providers::{Provider, TagFilter};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, BackoffStrategy, Client, EventKind, OrchestrationContext, OrchestrationRegistry, RetryPolicy,
};
use duroxide_cosmos::Fetched;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tests::cloud::Cloud;
use tests::{World, patiently, workload};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Row", |ctx: OrchestrationContext, lengths: String| async move {
            for length in lengths.split(' ').filter_map(|length| length.parse().ok()) {
                ctx.schedule_timer(MS(length)).await;
            }
            Ok("fired".to_owned())
        })
        .register("Abreast", |ctx: OrchestrationContext, lengths: String| async move {
            let lengths = lengths.split(' ').filter_map(|length| length.parse().ok());
            let timers = lengths.map(|length| ctx.schedule_timer(MS(length)));
            ctx.join(timers.collect()).await;
            Ok("fired".to_owned())
        })
        .register("Retry", |ctx: OrchestrationContext, _: String| async move {
            let backoff = BackoffStrategy::Fixed { delay: MS(100) };
            let policy = RetryPolicy::new(4).with_backoff(backoff);
            ctx.schedule_activity_with_retry("Flaky", "", policy).await
        })
        .build()
}

/// When each timer of an instance was due, and when its turn had it (Unix ms), in the order of their ends.
async fn fired(client: &Client, instance: &str) -> Vec<(u64, u64)> {
    let history = client.read_execution_history(instance, 1).await;
    let history = history.expect("a history");
    let fired = history.iter().filter_map(|event| match event.kind {
        EventKind::TimerFired { fire_at_ms } => Some((fire_at_ms, event.timestamp_ms)),
        _ => None,
    });
    fired.collect()
}

/// How late each timer of an instance fired, in ms.
async fn lateness(client: &Client, instance: &str) -> Vec<u64> {
    let late: Vec<u64> = fired(client, instance).await.iter().map(|(due, at)| at - due).collect();
    println!("late, in ms: {late:?}");
    late
}

/// A timer is its turn and nothing more: one read, one commit, and one wakeup without delay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_timers_of_200_ms_cost_a_turn_each_and_no_second_of_delay() {
    let cloud = Cloud::start(orchestrations(), workload::activities()).await;
    let mut wakeup = start(&cloud, "row", "Row", "200 200 200").await;
    for _ in 0..3 {
        serve(&cloud.orchestrator, &[wakeup]).await;
        let timer = only(cloud.queue.take());
        assert!(
            timer.delay.is_zero(),
            "it comes early, and the function waits: {timer:?}"
        );
        wakeup = timer.wakeup;
    }
    let due = wakeup.due_ms.expect("it is a timer's");
    cloud.orchestrator.listener.reset();
    serve(&cloud.orchestrator, &[wakeup]).await;
    let log = cloud.orchestrator.listener.log();
    let kinds: Vec<_> = log.iter().map(|request| request.kind).collect();
    assert_eq!(kinds, [Query, Batch], "nothing before the time: {log:?}");
    assert_eq!(metrics(&cloud.orchestrator)["Committed"], 4);
    assert!(cloud.queue.take().is_empty());
    assert_eq!(output(&cloud, "row").await, "fired");
    let fired = fired(&cloud.client, "row").await;
    assert!(
        fired.iter().all(|(due, at)| at >= due),
        "none before its time: {fired:?}"
    );
    assert_eq!(fired.last().map(|(due, _)| *due), Some(due));
}

/// The same by the time that it takes: at whole seconds these would be 800 ms late each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_in_a_row_are_late_by_much_less_than_a_second() {
    patiently(async || {
        let cloud = Cloud::start(orchestrations(), workload::activities()).await;
        let started = cloud.client.start_orchestration("row", "Row", "200 200 200").await;
        started.expect("it starts");
        cloud.drain().await;
        let late = lateness(&cloud.client, "row").await;
        assert_eq!(late.len(), 3);
        assert!(late.iter().sum::<u64>() < 600, "{late:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_of_one_second_share_a_wakeup_and_fire_each_at_its_time() {
    patiently(async || {
        let cloud = Cloud::start(orchestrations(), workload::activities()).await;
        let first = start(&cloud, "abreast", "Abreast", "900 500 500").await;
        serve(&cloud.orchestrator, &[first]).await;
        let shared = only(cloud.queue.take());
        let dues: Vec<u64> = shared.wakeup.dues().collect();
        assert!(shared.delay.is_zero() && (2..=3).contains(&dues.len()), "{shared:?}");
        cloud.orchestrator.listener.reset();
        serve(&cloud.orchestrator, &[shared.wakeup]).await;
        assert_eq!(output(&cloud, "abreast").await, "fired");
        let fired = fired(&cloud.client, "abreast").await;
        let [(due, _), _, (last, _)] = fired[..] else {
            panic!("{fired:?}")
        };
        assert!(due < last && fired.iter().all(|(due, at)| at >= due), "{fired:?}");
        assert!(
            fired[..2].iter().all(|(_, at)| *at < last),
            "they wait for no other: {fired:?}"
        );
        // The two of one length are one turn.
        assert_eq!(cloud.orchestrator.listener.counts().requests, 4);
        assert!(cloud.queue.take().is_empty());
    })
    .await;
}

/// `schedule_activity_with_retry` waits with timers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_retries_wait_for_their_backoff_and_not_for_a_second() {
    patiently(async || {
        let attempts = Arc::new(AtomicUsize::new(0));
        let activities = ActivityRegistry::builder()
            .register("Flaky", move |_: ActivityContext, _: String| {
                let attempt = attempts.fetch_add(1, Ordering::SeqCst) + 1;
                async move {
                    match attempt {
                        4 => Ok("at last".to_owned()),
                        _ => Err("not yet".to_owned()),
                    }
                }
            })
            .build();
        let cloud = Cloud::start(orchestrations(), activities).await;
        let started = cloud.client.start_orchestration("retry", "Retry", "").await;
        started.expect("it starts");
        cloud.drain().await;
        assert_eq!(output(&cloud, "retry").await, "at last");
        let late = lateness(&cloud.client, "retry").await;
        assert_eq!(late.len(), 3);
        assert!(late.iter().sum::<u64>() < 600, "{late:?}");
    })
    .await;
}

/// The wakeup names a version of the work item that somebody has replaced, and a time that is near.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_waits_for_an_activity_that_was_put_off_and_forgets_its_old_version() {
    patiently(async || {
        let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
        let first = start(&cloud, "order", "HelloCities", "1").await;
        serve(&cloud.orchestrator, &[first]).await;
        let mut work = only(cloud.queue.take()).wakeup;
        let (activity, tags) = (work_of(&work).identifier(), TagFilter::DefaultOnly);
        let held = cloud.silent.fetch_work(&activity, MS(60_000), None, &tags).await;
        let Fetched::Ready(held) = held.expect("a fetch") else {
            panic!("there is an activity to hold");
        };
        let put_off = cloud.silent.abandon_work_item(&held.lock_token, Some(MS(700)), false);
        put_off.await.expect("it is put off");
        work.due_ms = Some(SystemClock.now_ms() + 700);
        serve(&cloud.worker, &[work]).await;
        let counts = metrics(&cloud.worker);
        assert_eq!(
            (&counts["Busy"], &counts["Committed"]),
            (&json!(1), &json!(1)),
            "{counts}"
        );
    })
    .await;
}

/// duroxide's own runtime needs no wakeups: its timers are candidates with a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_of_the_polling_runtime_are_exact_too() {
    patiently(async || {
        let world = World::start().await;
        let store = world.provider().await as Arc<dyn Provider>;
        let runtime = Runtime::start_with_store(Arc::clone(&store), workload::activities(), orchestrations()).await;
        let client = Client::new(store);
        let started = client.start_orchestration("row", "Row", "200 200 200").await;
        started.expect("it starts");
        let ended = client.wait_for_orchestration("row", PATIENCE).await;
        ended.expect("it ends");
        let late = lateness(&client, "row").await;
        assert!(late.len() == 3 && late.iter().sum::<u64>() < 600, "{late:?}");
        runtime.shutdown(None).await;
    })
    .await;
}
