//! Timers that nobody waits for: those of an execution that has ended are gone with its last turn, and those that lost a race in
//! an execution that goes on are consumed without a warning.

use crate::support::*;
use cosmos_emulator::RequestKind::{Batch, Query};
use duroxide::providers::ProviderAdmin as _;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use serde_json::Value;
use std::time::Duration;
use tests::cloud::Cloud;
use tests::log::LogLines;

const HOUR: Duration = Duration::from_secs(3_600);
const MS: fn(u64) -> Duration = Duration::from_millis;
/// More than one batch takes.
const MANY: usize = 150;

fn orchestrations() -> OrchestrationRegistry {
    let race = |ctx: OrchestrationContext, input: String| async move {
        let (work, timer) = (ctx.schedule_activity("Echo", input), ctx.schedule_timer(HOUR));
        ctx.select2(work, timer).await;
    };
    OrchestrationRegistry::builder()
        .register("Completes", move |ctx: OrchestrationContext, _: String| async move {
            race(ctx, String::new()).await;
            Ok("done".to_owned())
        })
        .register("Fails", move |ctx: OrchestrationContext, _: String| async move {
            race(ctx, String::new()).await;
            Err::<String, _>("no luck".to_owned())
        })
        .register("Again", move |ctx: OrchestrationContext, input: String| async move {
            race(ctx.clone(), String::new()).await;
            match input.as_str() {
                "last" => Ok("done".to_owned()),
                _ => ctx.continue_as_new("last").await,
            }
        })
        .register("Waits", |ctx: OrchestrationContext, _: String| async move {
            let (event, timer) = (ctx.schedule_wait("go"), ctx.schedule_timer(HOUR));
            ctx.select2(event, timer).await;
            Ok("went".to_owned())
        })
        .register("Many", |ctx: OrchestrationContext, _: String| async move {
            let timers: Vec<_> = (0..MANY).map(|_| ctx.schedule_timer(HOUR)).collect();
            let work = ctx.schedule_activity("Echo", "");
            ctx.select2(work, ctx.join(timers)).await;
            Ok("done".to_owned())
        })
        .register("Both", |ctx: OrchestrationContext, _: String| async move {
            let (short, long) = (ctx.schedule_timer(MS(50)), ctx.schedule_timer(HOUR));
            ctx.select2(short, long).await;
            Ok("done".to_owned())
        })
        .register("GoesOn", |ctx: OrchestrationContext, _: String| async move {
            let (work, timer) = (ctx.schedule_activity("Echo", ""), ctx.schedule_timer(MS(1_500)));
            ctx.select2(work, timer).await;
            Ok(ctx.schedule_wait("go").await)
        })
        .register("Leaves", |ctx: OrchestrationContext, _: String| async move {
            let _unused = ctx.schedule_timer(MS(100));
            Ok("done".to_owned())
        })
        .build()
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, input: String| async move { Ok(input) })
        .build()
}

async fn cloud() -> Cloud {
    Cloud::start(orchestrations(), activities()).await
}

async fn start_and_drain(cloud: &Cloud, instance: &str, orchestration: &str) {
    let started = cloud.client.start_orchestration(instance, orchestration, "").await;
    started.expect("it starts");
    cloud.drain().await;
}

/// No message waits, and no timer is to come.
async fn assert_nothing_waits(cloud: &Cloud, context: &str) {
    let messages = cloud.world.documents_of("message").await;
    assert!(messages.is_empty(), "{context}: {messages:?}");
    let depths = cloud.silent.get_queue_depths().await.expect("depths");
    assert_eq!((depths.timer_queue, depths.orchestrator_queue), (0, 0), "{context}");
    for doc in cloud.world.documents_of("instance").await {
        assert!(doc.get("openTimers").is_none(), "{context}: {doc}");
    }
}

fn warnings(lines: &LogLines) -> Vec<Value> {
    let is_quiet = |line: &Value| line["level"] == "INFO" || line["level"] == "DEBUG" || line["level"] == "TRACE";
    lines.read().into_iter().filter(|line| !is_quiet(line)).collect()
}

/// On one thread, whose log is captured.
#[tokio::test]
async fn an_execution_that_ends_leaves_no_timer() {
    let (lines, _guard) = LogLines::capture();
    for orchestration in ["Completes", "Again", "Both", "Leaves"] {
        let cloud = cloud().await;
        start_and_drain(&cloud, "order", orchestration).await;
        assert_eq!(output(&cloud, "order").await, "done", "{orchestration}");
        assert_nothing_waits(&cloud, orchestration).await;
    }
    assert_eq!(warnings(&lines), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_that_fails_or_is_cancelled_leaves_no_timer() {
    let cloud = cloud().await;
    start_and_drain(&cloud, "failed", "Fails").await;
    assert_nothing_waits(&cloud, "failed").await;
    start_and_drain(&cloud, "cancelled", "Waits").await;
    assert_eq!(cloud.world.documents_of("message").await.len(), 1, "the timer waits");
    let cancelled = cloud.client.cancel_instance("cancelled", "enough").await;
    cancelled.expect("it is cancelled");
    cloud.drain().await;
    assert_nothing_waits(&cloud, "cancelled").await;
}

/// A subscription to an event is in the history only: it leaves no document, whether the event comes or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_wins_leaves_neither_timer_nor_subscription() {
    let cloud = cloud().await;
    start_and_drain(&cloud, "order", "Waits").await;
    cloud.client.raise_event("order", "go", "").await.expect("it is raised");
    cloud.drain().await;
    assert_eq!(output(&cloud, "order").await, "went");
    assert_nothing_waits(&cloud, "order").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_timers_than_a_batch_takes_are_removed_too() {
    let cloud = cloud().await;
    start_and_drain(&cloud, "order", "Many").await;
    assert_eq!(output(&cloud, "order").await, "done");
    assert_nothing_waits(&cloud, "order").await;
    let staged = cloud.world.documents_of("staged").await;
    assert!(staged.is_empty(), "{staged:?}");
}

/// The last turn is one read and one commit, whatever it removes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_timers_takes_no_request_of_its_own() {
    let cloud = cloud().await;
    let first = start(&cloud, "order", "Completes", "").await;
    serve(&cloud.orchestrator, &[first]).await;
    serve(&cloud.worker, &plain(cloud.queue.take())).await;
    assert_eq!(cloud.world.documents_of("message").await.len(), 2);
    cloud.orchestrator.listener.reset();
    serve(&cloud.orchestrator, &plain(cloud.queue.take())).await;
    let log = cloud.orchestrator.listener.log();
    let kinds: Vec<_> = log.iter().map(|request| request.kind).collect();
    assert_eq!(kinds, [Query, Batch], "{log:?}");
    assert_nothing_waits(&cloud, "order").await;
}

/// On one thread, whose log is captured.
#[tokio::test]
async fn a_timer_that_lost_a_race_costs_no_warning_when_it_fires() {
    let (lines, _guard) = LogLines::capture();
    let cloud = cloud().await;
    start_and_drain(&cloud, "order", "GoesOn").await;
    let fired = cloud
        .client
        .read_execution_history("order", 1)
        .await
        .expect("a history");
    let fired = fired
        .iter()
        .any(|event| matches!(event.kind, duroxide::EventKind::TimerFired { .. }));
    assert!(fired, "the timer has its turn");
    cloud.client.raise_event("order", "go", "").await.expect("it is raised");
    cloud.drain().await;
    assert_nothing_waits(&cloud, "order").await;
    assert_eq!(warnings(&lines), Vec::<Value>::new());
}
