//! Names that a build does not register: it says so, and waits for a build that does.

use crate::support::*;
use duroxide::OrchestrationRegistry;
use duroxide::providers::TagFilter;
use duroxide::runtime::OrchestrationStatus;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orchestration_that_nobody_registers_is_blocked_and_says_why() {
    let effects = Effects::default();
    let (cloud, clock) = cloud(first_build(), effects.activities(&NAMES)).await;
    let wakeup = start(&cloud, "order", "Ordre").await;
    serve(&cloud.orchestrator, &wakeup).await;
    let block = block_of(&cloud, "order").await;
    assert_eq!(block["cause"], "unknown-name");
    assert_eq!(
        block["reason"],
        "no deployed function registers orchestration `Ordre`; registered here: `Order`"
    );
    assert_eq!(counted(&cloud.orchestrator).get("BlockedUnknownName"), Some(&1));
    // For hours.
    let (mut again, mut delay) = only_delayed(&cloud);
    for _ in 0..60 {
        clock.advance(delay);
        serve(&cloud.orchestrator, &again).await;
        (again, delay) = only_delayed(&cloud);
    }
    assert_eq!(delay.as_millis().div_ceil(1000), 300, "the pauses grow to five minutes");
    assert!(cloud.world.documents_of("dead-letter").await.is_empty());
    let newer = OrchestrationRegistry::builder()
        .register("Ordre", |ctx: duroxide::OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Ship", "").await
        });
    let newer = cloud.another_build(limits("two"), newer.build()).await;
    serve(&newer, &wakeup).await;
    serve(&cloud.worker, &only(&cloud)).await;
    serve(&newer, &only(&cloud)).await;
    assert!(matches!(
        status(&cloud, "order").await,
        OrchestrationStatus::Completed { .. }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_nobody_registers_is_blocked() {
    let (cloud, _) = cloud(first_build(), Effects::default().activities(&NAMES)).await;
    let started = cloud
        .client
        .start_orchestration_versioned("order", "Order", "9.0.0", "")
        .await;
    started.expect("it starts");
    serve(&cloud.orchestrator, &only(&cloud)).await;
    let block = block_of(&cloud, "order").await;
    let reason = block["reason"].as_str().expect("a reason");
    assert!(reason.contains("version 9.0.0 of orchestration `Order`"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_nobody_registers_is_blocked_and_another_worker_runs_it_at_once() {
    let effects = Effects::default();
    let (cloud, _) = cloud(first_build(), effects.activities(&["Ship"])).await;
    serve(&cloud.orchestrator, &start(&cloud, "order", "Order").await).await;
    let charge = only(&cloud);
    serve(&cloud.worker, &charge).await;
    let work = cloud.world.documents_of("work").await.remove(0);
    assert_eq!(work["blocked"]["cause"], "unknown-name");
    assert_eq!(
        work["blocked"]["reason"],
        "no deployed function registers activity `Charge`; registered here: `Ship`"
    );
    assert_eq!(work["attempts"], 0, "it was not tried");
    let counts = counted(&cloud.worker);
    assert_eq!(
        (counts.get("Blocked"), counts.get("BlockedUnknownName")),
        (Some(&1), Some(&1))
    );
    let (again, delay) = only_delayed(&cloud);
    assert!(!delay.is_zero());
    // Within the pause this build does not look at it again.
    let early = duroxide_lambda::Wakeup::to(again.target.without_version());
    serve(&cloud.worker, &early).await;
    assert_eq!(effects.all().len(), 0);
    let newer = cloud
        .another_worker("two", effects.activities(&NAMES), TagFilter::DefaultOnly)
        .await;
    serve(&newer, &early).await;
    assert_eq!(effects.all().get("Charge"), Some(&1));
    assert!(cloud.world.documents_of("work").await.is_empty());
}
