//! Names that a build does not register: it says so, and waits for a build that does.

use crate::support::*;
use duroxide::providers::TagFilter;
use duroxide::runtime::OrchestrationStatus;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use std::time::Duration;

/// How long what nobody registers is kept.
const WEEK: Duration = Duration::from_secs(7 * 86_400);

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
    assert_eq!(cloud.orchestrator.counted().get("BlockedUnknownName"), Some(&1));
    // For hours.
    let (mut again, mut delay) = only_delayed(&cloud);
    for _ in 0..60 {
        clock.advance(delay);
        serve(&cloud.orchestrator, &again).await;
        (again, delay) = only_delayed(&cloud);
    }
    assert_eq!(delay.as_millis().div_ceil(1000), 300, "the pauses grow to five minutes");
    assert!(cloud.world.documents_of("dead-letter").await.is_empty());
    let newer = OrchestrationRegistry::builder().register("Ordre", |ctx: OrchestrationContext, _: String| async move {
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
    let counts = cloud.worker.counted();
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

/// Nothing stays blocked for ever: whoever waits for it hears of it, and the dead letter has what was accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_nobody_registers_for_days_is_given_up_and_its_parent_compensates() {
    let parent = |ctx: OrchestrationContext, _: String| async move {
        match ctx.schedule_sub_orchestration_with_id("Ordre", "child", "").await {
            Ok(output) => Ok(output),
            Err(error) => Ok(format!("compensated: {error}")),
        }
    };
    let first = OrchestrationRegistry::builder().register("Parent", parent).build();
    let (cloud, clock) = cloud(first, Effects::default().activities(&NAMES)).await;
    serve(&cloud.orchestrator, &start(&cloud, "parent", "Parent").await).await;
    let child = only(&cloud);
    serve(&cloud.orchestrator, &child).await;
    clock.advance(WEEK - Duration::from_secs(60));
    serve(&cloud.orchestrator, &child).await;
    assert_eq!(block_of(&cloud, "child").await["tries"], 2);
    clock.advance(Duration::from_secs(120));
    cloud.queue.take();
    serve(&cloud.orchestrator, &child).await;
    let counts = cloud.orchestrator.counted();
    assert_eq!(
        (counts.get("GivenUp"), counts.get("OrchestrationsFailed")),
        (Some(&1), Some(&1))
    );
    cloud.drain().await;
    let OrchestrationStatus::Completed { output, .. } = status(&cloud, "parent").await else {
        panic!("the parent goes on");
    };
    assert!(
        output.starts_with("compensated: ") && output.ends_with("nobody did within 7 days"),
        "{output}"
    );
    let letters = cloud.world.documents_of("dead-letter").await;
    assert_eq!(letters.len(), 1, "one cause, one letter: {letters:#?}");
    assert_eq!(letters[0]["pk"], "child");
    assert_eq!(
        letters[0]["givenUp"]["items"][0]["StartOrchestration"]["orchestration"],
        "Ordre"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_nobody_registers_for_days_is_given_up_and_its_workflow_compensates() {
    let order = |ctx: OrchestrationContext, _: String| async move {
        match ctx.schedule_activity("Charge", "").await {
            Ok(output) => Ok(output),
            Err(error) => Ok(format!("compensated: {error}")),
        }
    };
    let orders = OrchestrationRegistry::builder().register("Order", order).build();
    let (cloud, clock) = cloud(orders, Effects::default().activities(&["Ship"])).await;
    serve(&cloud.orchestrator, &start(&cloud, "order", "Order").await).await;
    serve(&cloud.worker, &only(&cloud)).await;
    let again = only(&cloud);
    clock.advance(WEEK);
    serve(&cloud.worker, &again).await;
    assert_eq!(cloud.worker.counted().get("ActivitiesGivenUp"), Some(&1));
    cloud.drain().await;
    let OrchestrationStatus::Completed { output, .. } = status(&cloud, "order").await else {
        panic!("the workflow goes on");
    };
    let expected = "compensated: no deployed function registers activity `Charge`; registered here: `Ship`; nobody did within \
                    7 days";
    assert_eq!(output, expected);
    assert_eq!(cloud.world.documents_of("dead-letter").await.len(), 1);
}
