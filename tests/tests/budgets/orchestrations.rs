//! Whole orchestrations on the function path.

use cosmos_emulator::Counts;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use tests::cloud::Cloud;

/// So many activities, one after the other.
pub(crate) fn orchestrations() -> OrchestrationRegistry {
    let chain = |ctx: OrchestrationContext, count: String| async move {
        let count: usize = count.parse().expect("a number");
        for n in 0..count {
            ctx.schedule_activity("Greet", n.to_string()).await?;
        }
        Ok("done".to_owned())
    };
    OrchestrationRegistry::builder().register("Chain", chain).build()
}

pub(crate) fn activities() -> ActivityRegistry {
    let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello {name}")) };
    ActivityRegistry::builder().register("Greet", greet).build()
}

/// What a chain of so many activities takes: all requests, and the documents that it writes.
async fn chain(count: u64) -> (u64, u64) {
    let cloud = Cloud::start(orchestrations(), activities()).await;
    let started = cloud
        .client
        .start_orchestration("chain", "Chain", count.to_string())
        .await;
    started.expect("it starts");
    cloud.drain().await;
    let all: [Counts; 3] = [
        &cloud.client_listener,
        &cloud.orchestrator.listener,
        &cloud.worker.listener,
    ]
    .map(|listener| listener.counts());
    assert!(all.iter().all(|counts| counts.cross_partition_queries == 0), "{all:?}");
    let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum();
    (sum(|counts| counts.requests), sum(|counts| counts.documents_written))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_activity_takes_seven_requests_and_hello_cities_twenty_three() {
    let (one, five) = (chain(1).await, chain(5).await);
    assert_eq!((one.0, five.0), (7, 23));
    // Each further step is a turn (instance, history, work item, message) and an activity (claim, item, message).
    assert_eq!(five.1 - one.1, 4 * 7);
}

/// Each turn reads what is new, not the whole history again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_environment_reads_a_chain_in_proportion_to_its_length() {
    let mut read = Vec::new();
    for count in [20_u64, 60] {
        let cloud = Cloud::start(orchestrations(), activities()).await;
        let started = cloud
            .client
            .start_orchestration("chain", "Chain", count.to_string())
            .await;
        started.expect("it starts");
        cloud.drain().await;
        read.push(cloud.orchestrator.listener.counts().response_bytes / count);
    }
    assert!(read[1] < read[0] + read[0] / 5, "bytes for each activity: {read:?}");
}
