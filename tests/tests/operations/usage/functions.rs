//! Whole orchestrations: on the function path, where late usage travels with wakeups, and under the polling runtime.

use super::support::*;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use std::sync::Arc;
use std::time::Duration;
use tests::World;
use tests::cloud::Cloud;
use tests::turns::run;

fn orchestrations() -> OrchestrationRegistry {
    let chain = |ctx: OrchestrationContext, count: String| async move {
        for n in 0..count.parse::<usize>().expect("a number") {
            ctx.schedule_activity("Greet", n.to_string()).await?;
        }
        Ok("done".to_owned())
    };
    let fan_out = |ctx: OrchestrationContext, count: String| async move {
        let count: usize = count.parse().expect("a number");
        let all = (0..count).map(|n| ctx.schedule_activity("Greet", n.to_string()));
        ctx.join(all.collect()).await;
        Ok("done".to_owned())
    };
    let again = |ctx: OrchestrationContext, left: String| async move {
        ctx.schedule_activity("Greet", left.clone()).await?;
        match left.parse::<u64>().expect("a number") {
            0 => Ok("done".to_owned()),
            left => ctx.continue_as_new((left - 1).to_string()).await,
        }
    };
    let registry = OrchestrationRegistry::builder();
    registry
        .register("Chain", chain)
        .register("FanOut", fan_out)
        .register("Again", again)
        .build()
}

fn activities() -> ActivityRegistry {
    let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello {name}")) };
    ActivityRegistry::builder().register("Greet", greet).build()
}

async fn cloud_with(orchestration: &str, input: &str) -> Cloud {
    let cloud = Cloud::start(orchestrations(), activities()).await;
    let started = cloud.client.start_orchestration("i", orchestration, input).await;
    started.expect("it starts");
    cloud
}

fn counted(cloud: &Cloud) -> Store {
    Store::counted([
        &cloud.client_listener,
        &cloud.orchestrator.listener,
        &cloud.worker.listener,
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_cities_has_used_exactly_what_the_store_has_counted_less_the_answer_of_its_last_commit() {
    let cloud = cloud_with("Chain", "5").await;
    cloud.drain().await;
    let all = counted(&cloud);
    let log = cloud.orchestrator.listener.log();
    let last = log.last().expect("the last commit");
    let usage = usage_of(&cloud.silent, "i").await;
    assert_eq!((usage.requests, all.requests), (23, 23));
    assert_eq!(
        (usage.turns, usage.activities, usage.attempts, usage.wakeups),
        (6, 5, 5, 11)
    );
    let last_charge = (last.charge * 1_000.0).round() as u64;
    assert!(last_charge > 0);
    assert_eq!(usage.milli_request_units, all.milli_request_units - last_charge);
    Store::of(usage).is_within(all);
    assert!(all.bytes_written - usage.bytes_written < 4_000 && all.bytes_read - usage.bytes_read < 2_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wakeups_that_come_twice_count_nothing_twice() {
    let cloud = cloud_with("Chain", "5").await;
    cloud.drain_through(|wakeup| vec![wakeup.clone(), wakeup]).await;
    let usage = usage_of(&cloud.silent, "i").await;
    assert_eq!((usage.turns, usage.activities, usage.attempts), (6, 5, 5));
    Store::of(usage).is_within(counted(&cloud));
    assert!(usage.requests >= 23);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_out_of_many_batches_is_counted() {
    let cloud = cloud_with("FanOut", "150").await;
    cloud.drain().await;
    let usage = usage_of(&cloud.silent, "i").await;
    assert_eq!((usage.activities, usage.attempts), (150, 150));
    let all = counted(&cloud);
    Store::of(usage).is_within(all);
    // The requests of the activities are in their messages, and those of the turns are counted in advance. So many late usages at once
    // are more than wakeups carry: some of them may be lost.
    assert!(usage.requests >= 1 + 2 * 150 + 2 * usage.turns, "{usage:?} of {all:?}");
    assert!(
        10 * usage.milli_request_units >= 9 * all.milli_request_units,
        "{usage:?} of {all:?}"
    );
    assert!(usage.wakeups >= 151);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_count_goes_on_when_an_instance_continues_as_new() {
    let cloud = cloud_with("Again", "2").await;
    cloud.drain().await;
    let usage = usage_of(&cloud.silent, "i").await;
    assert_eq!(usage.activities, 3);
    assert!(usage.turns >= 6, "{usage:?}");
    Store::of(usage).is_within(counted(&cloud));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_polling_runtime_counts_without_wakeups() {
    let world = World::start().await;
    let provider = world.provider().await;
    let runtime = run(&provider, activities(), orchestrations()).await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn duroxide::providers::Provider>);
    client.start_orchestration("i", "Chain", "5").await.expect("it starts");
    let ended = client.wait_for_orchestration("i", Duration::from_secs(60)).await;
    ended.expect("it ends");
    runtime.shutdown(None).await;
    let usage = usage_of(&provider, "i").await;
    assert_eq!(
        (usage.turns, usage.activities, usage.attempts, usage.wakeups),
        (6, 5, 5, 0)
    );
    // A claim and a commit more for each turn than the functions need.
    assert!(usage.requests >= 23 + 6, "{usage:?}");
}
