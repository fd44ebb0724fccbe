//! What a process answers before it has learned anything.

use duroxide::providers::{Provider, ProviderAdmin, TagFilter};
use std::time::Duration;
use tests::turns::*;
use tests::{World, connect};

/// Also when it will not wait for as long as its sweep interval.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_fetch_of_a_process_finds_what_is_due() {
    let world = World::start().await;
    let client = world.provider().await;
    for poll in [1, 100, 500].map(Duration::from_millis) {
        enqueue(&client, start_of(&format!("order-{poll:?}"))).await;
        client
            .enqueue_for_worker(activity("other", poll.as_millis() as u64))
            .await
            .expect("queued");
        let fresh = connect(world.builder().sweep_interval(Duration::from_secs(3_600))).await;
        let turn = fresh.fetch_orchestration_item(LOCK, poll, None).await;
        assert!(turn.expect("the fetch succeeds").is_some(), "a turn within {poll:?}");
        let work = fresh.fetch_work_item(LOCK, poll, None, &TagFilter::Any).await;
        assert!(
            work.expect("the fetch succeeds").is_some(),
            "an activity within {poll:?}"
        );
    }
}

/// The sweeps of one process share its interval, however often it asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetches_after_the_first_sweep_again_only_after_the_interval() {
    let world = World::start().await;
    let listener = world.open_listener().await;
    let builder = world.builder_through(&listener);
    let idle = connect(builder.sweep_interval(Duration::from_secs(3_600))).await;
    let poll = Duration::from_millis(20);
    let mut costs = Vec::new();
    for _ in 0..4 {
        listener.reset();
        let turn = idle.fetch_orchestration_item(LOCK, poll, None).await;
        let work = idle.fetch_work_item(LOCK, poll, None, &TagFilter::Any).await;
        assert!(turn.expect("the fetch succeeds").is_none() && work.expect("the fetch succeeds").is_none());
        costs.push(listener.counts().requests);
    }
    assert!(costs[0] > 0, "{costs:?}");
    assert_eq!(costs[1..], [0, 0, 0], "{costs:?}");
}

/// As the trait documents, and as the SQLite provider answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latest_execution_of_an_unknown_instance_is_the_first() {
    let world = World::start().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("queued")).await;
    // The last cannot be the id of an instance.
    for instance in ["unknown", "queued", "a/b"] {
        let latest = provider.latest_execution_id(instance).await;
        assert_eq!(latest.expect("an answer"), 1, "{instance}");
    }
}
