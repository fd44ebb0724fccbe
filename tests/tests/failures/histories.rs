//! Histories that a build cannot replay: too large, or corrupt.

use crate::support::*;
use cosmos::PartitionKey;
use duroxide::runtime::OrchestrationStatus;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::{Limits, Wakeup};
use serde_json::json;

/// How large a history may be here.
const LIMIT: u64 = 100_000;

/// Serves turns and activities until the instance is blocked, and answers the wakeup for the end of its pause.
async fn until_blocked(cloud: &Cloud, instance: &str, first: Wakeup) -> Wakeup {
    let mut next = vec![first];
    for _ in 0..100 {
        for wakeup in std::mem::take(&mut next) {
            let function = match wakeup.target.activity() {
                Some(_) => &cloud.worker,
                None => &cloud.orchestrator,
            };
            serve(function, &wakeup).await;
            next.extend(cloud.queue.take().into_iter().map(|sent| sent.wakeup));
        }
        if !block_of(cloud, instance).await.is_null() {
            return next.remove(0);
        }
    }
    panic!("{instance} is never blocked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_over_the_limit_is_blocked_and_a_function_with_more_memory_goes_on() {
    let greedy = |ctx: OrchestrationContext, _: String| async move {
        for _ in 0..10 {
            ctx.schedule_activity("Large", "").await?;
        }
        Ok("all of it".to_owned())
    };
    let large = |_: ActivityContext, _: String| async move { Ok("x".repeat(20_000)) };
    let orchestrations = OrchestrationRegistry::builder().register("Greedy", greedy).build();
    let activities = ActivityRegistry::builder().register("Large", large).build();
    let small = Limits {
        history_bytes: LIMIT,
        ..limits("one")
    };
    let (cloud, clock) = cloud_with(small, orchestrations.clone(), activities).await;
    let wakeup = start(&cloud, "g", "Greedy").await;
    let again = until_blocked(&cloud, "g", wakeup).await;
    let block = block_of(&cloud, "g").await;
    assert_eq!(block["cause"], "history");
    let reason = block["reason"].as_str().expect("a reason");
    assert!(reason.contains("over the limit of 100000"), "{reason}");
    assert_eq!(cloud.orchestrator.counted().get("BlockedHistory"), Some(&1));
    assert!(matches!(status(&cloud, "g").await, OrchestrationStatus::Running { .. }));
    // The same build with more memory waits for the end of the pause, because only its configuration has changed.
    let larger = cloud.another_build(limits("one"), orchestrations).await;
    clock.advance(std::time::Duration::from_secs(1));
    let mut next = again;
    while matches!(status(&cloud, "g").await, OrchestrationStatus::Running { .. }) {
        serve(&larger, &next).await;
        let Some(sent) = cloud.queue.take().pop() else { break };
        serve(&cloud.worker, &sent.wakeup).await;
        next = only(&cloud);
    }
    match status(&cloud, "g").await {
        OrchestrationStatus::Completed { output, .. } => assert_eq!(output, "all of it"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_history_is_blocked_and_others_are_served() {
    let effects = Effects::default();
    let uncached = Limits {
        history_cache: 0,
        ..limits("one")
    };
    let (cloud, _) = cloud_with(uncached, first_build(), effects.activities(&NAMES)).await;
    serve(&cloud.orchestrator, &start(&cloud, "order", "Order").await).await;
    corrupt(&cloud, "order").await;
    serve(&cloud.worker, &only(&cloud)).await;
    serve(&cloud.orchestrator, &only(&cloud)).await;
    let block = block_of(&cloud, "order").await;
    assert_eq!(block["cause"], "history");
    assert!(cloud.world.documents_of("dead-letter").await.is_empty());
    cloud.queue.take();
    serve(&cloud.orchestrator, &start(&cloud, "healthy", "Order").await).await;
    assert!(matches!(
        status(&cloud, "healthy").await,
        OrchestrationStatus::Running { .. }
    ));
}

/// Makes an event of an instance's history one that no version of duroxide knows.
async fn corrupt(cloud: &Cloud, instance: &str) {
    let pk = PartitionKey::new(instance).expect("a valid partition key");
    let mut history = cloud.world.documents_of("history").await.remove(0);
    let events = history["events"].as_array_mut().expect("events");
    *events.last_mut().expect("an event") = json!({"event_id": 2, "type": "FromTheFuture"});
    let id = history["id"].as_str().expect("an id").to_owned();
    let raw = cloud.world.raw();
    let replaced = raw.replace(&pk, &id, &history, None, cosmos::Retry::Idempotent).await;
    replaced.expect("the history is replaced");
}
