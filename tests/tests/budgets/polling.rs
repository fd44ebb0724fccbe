//! Fetches without a wakeup, which ask every physical partition.

use crate::*;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};

/// Whether a fetch without a wakeup finds a turn, and its cost.
async fn sweep(world: &World, provider: &CosmosProvider) -> (bool, Counts) {
    world.listener().reset();
    let found = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None).await;
    (found.expect("the fetch succeeds").is_some(), world.listener().counts())
}

#[tokio::test]
async fn an_idle_fetch_is_one_query_for_each_physical_partition() {
    let world = world().await;
    let provider = world.provider().await;
    let (found, first) = sweep(&world, &provider).await;
    assert!(!found);
    assert_eq!(
        (first.requests, first.cross_partition_queries, first.pkranges),
        (5, 4, 1),
        "the ranges are listed once"
    );
    for _ in 0..3 {
        let (_, again) = sweep(&world, &provider).await;
        assert_eq!((again.requests, again.cross_partition_queries), (4, 4), "{again:?}");
    }
    world.listener().reset();
    let work = provider
        .fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any)
        .await;
    assert!(work.expect("the fetch succeeds").is_none());
    let counts = world.listener().counts();
    assert_eq!((counts.requests, counts.cross_partition_queries), (4, 4), "{counts:?}");
}

#[tokio::test]
async fn an_idle_fetch_after_a_long_pause_still_sweeps_once() {
    let world = world().await;
    let provider = connect(world.builder().sweep_interval(Duration::from_millis(1))).await;
    sweep(&world, &provider).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (found, counts) = sweep(&world, &provider).await;
    assert!(!found);
    assert_eq!(
        (counts.requests, counts.cross_partition_queries),
        (4, 4),
        "turns: {counts:?}"
    );
    world.listener().reset();
    let work = provider
        .fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any)
        .await;
    assert!(work.expect("the fetch succeeds").is_none());
    let counts = world.listener().counts();
    assert_eq!(
        (counts.requests, counts.cross_partition_queries),
        (4, 4),
        "work: {counts:?}"
    );
}

#[tokio::test]
async fn a_sweep_asks_all_partitions_at_once() {
    let world = world().await;
    let provider = world.provider().await;
    sweep(&world, &provider).await;
    let idle = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    let (_, cost) = cost_of(world.listener(), idle).await;
    assert_eq!(
        (cost.counts.cross_partition_queries, cost.round_trips),
        (4, 1),
        "{:?}",
        cost.kinds
    );
}

#[tokio::test]
async fn a_slow_sweep_is_not_repeated_before_its_candidates_are_used() {
    let world = world().await;
    let client = world.provider().await;
    for name in ["a", "b", "c"] {
        enqueue(&client, start_of(name)).await;
    }
    let other = connect(world.builder().sweep_interval(SLOW / 2)).await;
    let (found, cost) = cost_of(
        world.listener(),
        other.fetch_orchestration_item(LOCK, Duration::ZERO, None),
    )
    .await;
    assert!(found.expect("the fetch succeeds").is_some());
    assert_eq!(
        cost.counts.cross_partition_queries,
        u64::from(PARTITIONS),
        "{:?}",
        cost.kinds
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_costs_the_same_with_ten_and_five_hundred_queued_instances() {
    sweep_backlogs(&[10, 500]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: queues 10,000 instances"]
async fn a_sweep_costs_the_same_with_ten_and_ten_thousand_queued_instances() {
    let costs = sweep_backlogs(&[10, 1_000, 10_000]).await;
    let bytes: Vec<u64> = costs.iter().map(|counts| counts.response_bytes).collect();
    // Once every partition fills its page the answer stops growing.
    assert!(bytes[2] * 10 <= bytes[1] * 11, "{bytes:?}");
    assert!(bytes[2] < 100_000, "{bytes:?}");
}

/// The cost of a sweep for each length of the queue, whose requests must be the same.
async fn sweep_backlogs(backlogs: &[usize]) -> Vec<Counts> {
    let world = world().await;
    let client = world.provider().await;
    enqueue(&client, start_of("instance-00000")).await;
    let mut started = world.documents().await;
    for document in &mut started {
        let fields = document.as_object_mut().expect("a document is an object");
        fields.retain(|field, _| !field.starts_with('_'));
    }
    let (mut costs, mut queued) = (Vec::new(), 1);
    for &backlog in backlogs {
        let copies = (queued..backlog).flat_map(|n| {
            started.iter().map(move |document| {
                let mut copy = document.clone();
                copy["pk"] = format!("instance-{n:05}").into();
                copy
            })
        });
        let (database, container) = world.names();
        let loaded = world.server().load(database, container, copies).await;
        loaded.expect("the documents are written");
        queued = backlog;
        // A process without candidates, whose interval does not end in the middle of the test.
        let other = connect(world.builder().sweep_interval(Duration::from_secs(3_600))).await;
        world.listener().reset();
        let fetched = other.fetch_orchestration_item(LOCK, Duration::ZERO, None).await;
        costs.push(world.listener().counts());
        let (item, token, _) = fetched.expect("the fetch succeeds").expect("a backlog is found");
        // Out of the way of the next sweep.
        commit(&other, &token, Decision::first(&item.instance, 0)).await;
    }
    for counts in &costs {
        let sweep = (counts.pkranges, counts.cross_partition_queries);
        assert_eq!(sweep, (1, u64::from(PARTITIONS)), "{costs:?}");
        // The list of ranges, the sweep, and the directed fetch of a first turn.
        assert_eq!(counts.requests, 1 + u64::from(PARTITIONS) + 2, "{costs:?}");
    }
    costs
}

/// Hello cities under duroxide's own runtime: what the functions take (23), and a claim for each of the 6 turns. The
/// worker's reads before activities are answered from what the process knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_cities_takes_twenty_nine_requests() {
    let world = world().await;
    let client = Client::new(connect(world.builder_through(&world.open_listener().await)).await);
    let provider = connect(world.builder().sweep_interval(LOCK)).await;
    let options = RuntimeOptions {
        orchestration_concurrency: 1,
        worker_concurrency: 1,
        ..RuntimeOptions::default()
    };
    let store: Arc<dyn Provider> = Arc::clone(&provider) as _;
    let (activities, orchestrations) = (orchestrations::activities(), orchestrations::orchestrations());
    // The runtime's own client, so that no sweep has to find the start.
    Client::new(provider)
        .start_orchestration("chain", "Chain", "5")
        .await
        .expect("it starts");
    let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
    let ended = client.wait_for_orchestration("chain", Duration::from_secs(60)).await;
    assert!(matches!(ended, Ok(OrchestrationStatus::Completed { .. })), "{ended:?}");
    let counts = world.listener().counts();
    runtime.shutdown(None).await;
    let searches = counts.cross_partition_queries + counts.pkranges;
    assert_eq!(counts.requests - searches, 29, "{counts:?}");
}
