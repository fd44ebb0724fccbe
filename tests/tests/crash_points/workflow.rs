//! A workflow with everything in it, killed at every write.

use super::kill::{AFTERWARDS, BOTH, Process, nothing_is_left_behind, provider_through};
use cosmos_emulator::{CrashPoint, ServerOptions};
use duroxide::runtime::OrchestrationRegistry;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, Either2, Event, EventKind, OrchestrationContext, OrchestrationStatus};
use duroxide_cosmos::CosmosProvider;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tests::{ShiftedClock, World, until};

const INSTANCE: &str = "order/1 \"日本\"";
const DETACHED: &str = "detached-1";

/// Fan-out, timer, child, keys, custom status, a cancelled loser, a detached orchestration, and a second execution.
async fn order(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.set_kv_value("execution", &input);
    ctx.set_custom_status(format!("execution {input}"));
    let parts: Vec<_> = (0..3)
        .map(|n| ctx.schedule_activity("Echo", format!("{input}-{n}")))
        .collect();
    let parts: Result<Vec<String>, String> = ctx.join(parts).await.into_iter().collect();
    let parts = parts?.join(",");
    if input == "0" {
        ctx.schedule_orchestration("Parcel", DETACHED, "detached");
    }
    ctx.schedule_timer(Duration::from_millis(20)).await;
    let child = ctx.schedule_sub_orchestration("Parcel", &input).await?;
    let slow = ctx.schedule_activity("UntilCancelled", "");
    let timeout = ctx.schedule_timer(Duration::from_millis(20));
    if let Either2::First(result) = ctx.select2(slow, timeout).await {
        return Err(format!("the slow activity was not cancelled: {result:?}"));
    }
    if input == "0" {
        ctx.set_kv_value("gone", "x");
        return ctx.continue_as_new("1").await;
    }
    ctx.clear_kv_value("gone");
    Ok(format!("{parts};{child}"))
}

async fn parcel(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_activity("Echo", format!("parcel-{input}")).await
}

fn registries() -> (ActivityRegistry, OrchestrationRegistry) {
    let activities = ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, input: String| async move {
            Ok(format!("[{input}]"))
        })
        .register("UntilCancelled", |ctx: ActivityContext, _: String| async move {
            tokio::select! {
                () = ctx.cancelled() => Err("cancelled".to_owned()),
                () = tokio::time::sleep(Duration::from_millis(300)) => Err("not cancelled".to_owned()),
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Order", order)
        .register("Parcel", parcel)
        .build();
    (activities, orchestrations)
}

async fn is_over(client: &Client, instance: &str) -> bool {
    let status = client
        .get_orchestration_status(instance)
        .await
        .expect("the status can be read");
    matches!(
        status,
        OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. }
    )
}

/// Runs the workflow with a crash at write `n`. Answers whether the crash happened.
async fn run_with_crash_at(n: u64, when: CrashPoint) -> bool {
    let context = format!("crash at write {n}, {when:?}");
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ShiftedClock::default());
    let safe = provider_through(&world, world.listener(), &clock).await;
    let client = Client::new(Arc::clone(&safe) as Arc<dyn duroxide::providers::Provider>);
    client
        .start_orchestration(INSTANCE, "Order", "0")
        .await
        .expect("it starts");

    let listener = world.open_listener().await;
    listener.crash_at_write(n, when);
    let first = Process::start(provider_through(&world, &listener, &clock).await, registries).await;
    let everything_over = async || is_over(&client, INSTANCE).await && is_over(&client, DETACHED).await;
    until(&format!("{context}: over or crashed"), async || {
        listener.crashed() || everything_over().await
    })
    .await;
    let crashed = listener.crashed();
    first.kill();
    if crashed {
        clock.advance(AFTERWARDS);
        let second = Process::start(provider_through(&world, world.listener(), &clock).await, registries).await;
        until(&format!("{context}: over"), everything_over).await;
        second.kill();
    }
    check(&client, &safe, &context).await;
    nothing_is_left_behind(&world, &safe, &clock, &context).await;
    crashed
}

async fn check(client: &Client, provider: &Arc<CosmosProvider>, context: &str) {
    match client
        .get_orchestration_status(INSTANCE)
        .await
        .expect("the status can be read")
    {
        OrchestrationStatus::Completed {
            output, custom_status, ..
        } => {
            assert_eq!(output, "[1-0],[1-1],[1-2];[parcel-1]", "{context}");
            assert_eq!(custom_status.as_deref(), Some("execution 1"), "{context}");
        }
        other => panic!("{context}: {other:?}"),
    }
    let keys = client.get_kv_all_values(INSTANCE).await.expect("keys can be read");
    assert_eq!(
        keys,
        HashMap::from([("execution".to_owned(), "1".to_owned())]),
        "{context}"
    );
    let instances = client.list_all_instances().await.expect("instances are listed");
    assert_eq!(instances.len(), 4, "{context}: {instances:?}");
    let executions = client.list_executions(INSTANCE).await.expect("executions are listed");
    assert_eq!(executions, [1, 2], "{context}");
    for instance in &instances {
        let executions = client.list_executions(instance).await.expect("executions are listed");
        for execution in executions {
            let read = duroxide::providers::Provider::read_with_execution(&**provider, instance, execution);
            every_result_is_recorded_once(&read.await.expect("history can be read"), context);
        }
    }
}

/// No event twice, and no result without or beside its one schedule.
pub fn every_result_is_recorded_once(history: &[Event], context: &str) {
    let mut ids = HashSet::new();
    let (mut scheduled, mut results): (HashSet<u64>, HashMap<u64, u32>) = (HashSet::new(), HashMap::new());
    for event in history {
        assert!(
            ids.insert(event.event_id()),
            "{context}: event {} is there twice",
            event.event_id()
        );
        match &event.kind {
            EventKind::ActivityScheduled { .. } | EventKind::SubOrchestrationScheduled { .. } => {
                scheduled.insert(event.event_id());
            }
            EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. } => {
                *results
                    .entry(event.source_event_id().expect("a result has a source"))
                    .or_default() += 1;
            }
            _ => {}
        }
    }
    for (source, count) in results {
        assert!(
            scheduled.contains(&source),
            "{context}: a result of event {source} that scheduled nothing"
        );
        assert_eq!(count, 1, "{context}: results of event {source}");
    }
}

async fn sweep(when: CrashPoint) {
    let mut n = 1;
    while run_with_crash_at(n, when).await {
        n += 1;
    }
    assert!(n > 40, "the workflow made only {} writes: is everything in it?", n - 1);
    println!("{when:?}: killed at each of {} writes", n - 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_killed_at_some_writes_still_completes_once() {
    for (n, when) in [(2, BOTH[1]), (11, BOTH[0]), (20, BOTH[1]), (33, BOTH[0])] {
        assert!(run_with_crash_at(n, when).await, "write {n} was not reached");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a run for each write"]
async fn a_workflow_killed_before_any_write_still_completes_once() {
    sweep(BOTH[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a run for each write"]
async fn a_workflow_killed_after_any_write_still_completes_once() {
    sweep(BOTH[1]).await;
}

/// Schedules 300 activities in one turn and sums their results: the fan-out is a staged commit.
async fn fan(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let parts: Vec<_> = (0..FAN).map(|n| ctx.schedule_activity("Echo", n.to_string())).collect();
    let parts: Result<Vec<String>, String> = ctx.join(parts).await.into_iter().collect();
    Ok(parts?.len().to_string())
}

const FAN: usize = 300;

fn fan_registries() -> (ActivityRegistry, OrchestrationRegistry) {
    let (activities, _) = registries();
    (
        activities,
        OrchestrationRegistry::builder().register("Fan", fan).build(),
    )
}

/// The writes of the first turn: its claim, the staging, the decisive batch and the publications.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 300 activities, ten times"]
async fn a_large_fan_out_killed_in_its_commit_runs_to_its_end() {
    for n in 2..=6 {
        for when in BOTH {
            let context = format!("fan-out of {FAN}, crash at write {n}, {when:?}");
            let world = World::local(ServerOptions::default()).await;
            let clock = Arc::new(ShiftedClock::default());
            let safe = provider_through(&world, world.listener(), &clock).await;
            let client = Client::new(Arc::clone(&safe) as Arc<dyn duroxide::providers::Provider>);
            client.start_orchestration("fan", "Fan", "").await.expect("it starts");
            let listener = world.open_listener().await;
            listener.crash_at_write(n, when);
            let first = Process::start(provider_through(&world, &listener, &clock).await, fan_registries).await;
            until(&format!("{context}: crashed"), async || listener.crashed()).await;
            first.kill();
            clock.advance(AFTERWARDS);
            let second = Process::start(provider_through(&world, world.listener(), &clock).await, fan_registries).await;
            until(&format!("{context}: over"), async || is_over(&client, "fan").await).await;
            second.kill();
            match client
                .get_orchestration_status("fan")
                .await
                .expect("the status can be read")
            {
                OrchestrationStatus::Completed { output, .. } => assert_eq!(output, FAN.to_string(), "{context}"),
                other => panic!("{context}: {other:?}"),
            }
            let history = duroxide::providers::Provider::read(&*safe, "fan")
                .await
                .expect("history can be read");
            every_result_is_recorded_once(&history, &context);
            nothing_is_left_behind(&world, &safe, &clock, &context).await;
        }
    }
}
