//! How much memory pruning and a turn need, measured in processes of their own.

use crate::pruning::{NAME, executions, keep, plant};
use crate::support::*;
use duroxide::providers::{Provider, ProviderAdmin, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Event, EventKind, OrchestrationContext, OrchestrationRegistry};
use duroxide_cosmos::CosmosProvider;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::child::{Memory, measure, measured, task};
use tests::connect;
use tests::turns::*;

const MIB: u64 = 1024 * 1024;
/// The emulator is slow with so many documents in one partition.
const HOUR: Duration = Duration::from_secs(3600);
/// Pruning stays below this, however much there is.
const MOST_FOR_PRUNING: u64 = 64 * MIB;

/// `PRUNE_EXECUTIONS=20000` measures two weeks of a workflow that continues as new every minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: measures memory; PRUNE_EXECUTIONS says of how many executions"]
async fn pruning_needs_little_memory_for_any_number_of_executions() {
    if let Some((world, ())) = task::<()>() {
        let provider = connect(world.builder().prune_time(HOUR)).await;
        executions(&provider).await;
        measure(async {
            let pruned = provider.prune_executions(NAME, keep(5)).await;
            pruned.expect("it is pruned");
        })
        .await;
        return;
    }
    let many = std::env::var("PRUNE_EXECUTIONS").map_or(2_000, |many| many.parse().expect("a number"));
    let fixture = Fixture::on(1).await;
    plant(&fixture, many, false, &"x".repeat(1_000)).await;
    fixture.world.listener().reset();
    let begun = Instant::now();
    let test = "memory::pruning_needs_little_memory_for_any_number_of_executions";
    let memory = measured(test, &fixture.world, &()).await;
    let counts = fixture.world.listener().counts();
    println!("{many} executions: {memory:?}, {:?}, {counts:?}", begun.elapsed());
    assert_eq!(executions(&fixture.provider).await.len(), 5);
    assert!(memory.growth() < MOST_FOR_PRUNING, "{memory:?}");
}

/// Orchestrations with so many activities, whose results have so many bytes.
const SHAPES: [(u64, usize); 4] = [(3_000, 300), (1_000, 4_000), (60, 100_000), (240, 100_000)];
/// What the default of `DUROXIDE_HISTORY_LIMIT_BYTES` assumes.
const BYTES_PER_BYTE: f64 = 10.0;

fn orchestrations() -> OrchestrationRegistry {
    let wide = |ctx: OrchestrationContext, many: String| async move {
        let many: u64 = many.parse().map_err(|_| "a number".to_owned())?;
        let all = (0..many).map(|_| ctx.schedule_activity("Act", "in")).collect();
        let results = ctx.join(all).await;
        Ok(results.iter().flatten().map(String::len).sum::<usize>().to_string())
    };
    OrchestrationRegistry::builder().register("Wide", wide).build()
}

/// An instance whose history has all results but the last.
async fn plant_wide(provider: &CosmosProvider, instance: &str, many: u64, bytes: usize) {
    let mut start = start_of(instance);
    if let WorkItem::StartOrchestration {
        orchestration, input, ..
    } = &mut start
    {
        *orchestration = "Wide".to_owned();
        *input = many.to_string();
    }
    enqueue(provider, start).await;
    let mut begins = started(instance, 1);
    if let EventKind::OrchestrationStarted { name, input, .. } = &mut begins.kind {
        *name = "Wide".to_owned();
        *input = many.to_string();
    }
    let all = 2..many + 2;
    let first = std::iter::once(begins).chain(all.clone().map(|id| scheduled(instance, id)));
    let completed = |id: u64| {
        let result = "x".repeat(bytes);
        Event::with_event_id(
            id + many,
            instance,
            1,
            Some(id),
            EventKind::ActivityCompleted { result },
        )
    };
    let mut metadata = named();
    metadata.orchestration_name = Some("Wide".to_owned());
    for (n, events) in [
        first.collect(),
        all.clone().take(many as usize - 1).map(completed).collect(),
    ]
    .into_iter()
    .enumerate()
    {
        let turn = turn(provider, instance).await;
        let decision = Decision {
            metadata: metadata.clone(),
            ..Decision::of(events)
        };
        commit(provider, &turn.lock_token, decision)
            .await
            .expect("it is written");
        if n == 0 {
            enqueue(provider, raised(instance, "a turn")).await;
        }
    }
}

/// Queues the last result, and waits for its turn, which replays the whole history.
async fn last_turn(provider: &CosmosProvider, instance: &str, many: u64, bytes: usize) {
    let last = WorkItem::ActivityCompleted {
        instance: instance.to_owned(),
        execution_id: 1,
        id: many + 1,
        result: "x".repeat(bytes),
    };
    enqueue(provider, last).await;
    tests::until("the orchestration completes", async || {
        let info = provider.get_instance_info(instance).await.expect("it exists");
        assert_ne!(info.status, "Failed", "{:?}", info.output);
        info.status == "Completed"
    })
    .await;
}

/// The last turn of such an instance, after that of a small one.
async fn one_turn(provider: Arc<CosmosProvider>, many: u64, bytes: usize) {
    let options = RuntimeOptions {
        orchestration_concurrency: 1,
        worker_concurrency: 1,
        dispatcher_long_poll_timeout: Duration::from_millis(200),
        orchestrator_lock_timeout: PATIENT,
        ..RuntimeOptions::default()
    };
    let store: Arc<dyn Provider> = Arc::clone(&provider) as Arc<dyn Provider>;
    plant_wide(&provider, "small", 2, 10).await;
    let activities = ActivityRegistry::builder().build();
    let runtime = Runtime::start_with_options(store, activities, orchestrations(), options).await;
    last_turn(&provider, "small", 2, 10).await;
    measure(last_turn(&provider, "wide", many, bytes)).await;
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: measures memory"]
async fn a_turn_needs_no_more_memory_for_its_history_than_the_limit_assumes() {
    if let Some((world, (many, bytes))) = task() {
        // What is known of histories has a limit of its own.
        let config = world.builder().history_limit(u64::MAX).history_cache(0);
        return one_turn(connect(config).await, many, bytes).await;
    }
    let mut worst: f64 = 0.0;
    for (many, bytes) in SHAPES {
        let fixture = Fixture::on(1).await;
        let provider = connect(fixture.world.builder().history_limit(u64::MAX)).await;
        plant_wide(&provider, "wide", many, bytes).await;
        let instance = fixture.world.document("wide", "instance").await.expect("an instance");
        let history = instance["eventBytes"].as_u64().expect("a number");
        let test = "memory::a_turn_needs_no_more_memory_for_its_history_than_the_limit_assumes";
        let memory: Memory = measured(test, &fixture.world, &(many, bytes)).await;
        let factor = memory.growth() as f64 / history as f64;
        println!(
            "{many} activities of {bytes} bytes: {history} bytes of history, {memory:?}, {factor:.1} bytes per byte"
        );
        worst = worst.max(factor);
    }
    // A small history measures the allocator as well. The quarter of the memory that the limit leaves covers it.
    assert!(worst <= 1.2 * BYTES_PER_BYTE, "{worst}");
}
