//! An instance that is blocked can be cancelled: no build has to run it for that.

use crate::support::*;
use duroxide::runtime::OrchestrationStatus;
use duroxide::{AppErrorKind, ErrorDetails, OrchestrationContext, OrchestrationRegistry};

#[track_caller]
fn assert_cancelled(status: &OrchestrationStatus) {
    let is_cancelled = matches!(
        status,
        OrchestrationStatus::Failed {
            details: ErrorDetails::Application {
                kind: AppErrorKind::Cancelled { .. },
                ..
            },
            ..
        }
    );
    assert!(is_cancelled, "{status:?}");
}

async fn cancel(cloud: &Cloud, instance: &str) {
    let cancelled = cloud.client.cancel_instance(instance, "enough").await;
    cancelled.expect("it is accepted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_instance_is_cancelled_with_its_activity_and_its_child() {
    let parent = |ctx: OrchestrationContext, _: String| async move {
        let activity = ctx.schedule_activity("Charge", "");
        let child = ctx.schedule_sub_orchestration_with_id("Order", "child", "");
        let (paid, ordered) = ctx.join2(activity, child).await;
        Ok(paid? + &ordered?)
    };
    let changed = |ctx: OrchestrationContext, _: String| async move { ctx.schedule_activity("Check", "").await };
    let first = OrchestrationRegistry::builder_from(&first_build())
        .register("Parent", parent)
        .build();
    let changed = OrchestrationRegistry::builder_from(&first_build())
        .register("Parent", changed)
        .build();
    let (cloud, _) = cloud(first, Effects::default().activities(&NAMES)).await;
    serve(&cloud.orchestrator, &start(&cloud, "parent", "Parent").await).await;
    let sent = cloud.queue.take();
    assert_eq!(sent.len(), 2, "an activity, and a child");
    for wakeup in sent.into_iter().filter(|sent| sent.wakeup.target.activity().is_none()) {
        serve(&cloud.orchestrator, &wakeup.wakeup).await;
    }
    cloud.queue.take();
    let other = cloud.another_build(limits("two"), changed).await;
    cancel(&cloud, "parent").await;
    serve(&other, &only(&cloud)).await;
    assert_cancelled(&status(&cloud, "parent").await);
    let counts = other.counted();
    assert_eq!(
        (
            counts.get("OrchestrationsCancelled"),
            counts.get("OrchestrationsFailed")
        ),
        (Some(&1), None)
    );
    assert!(
        cloud
            .world
            .documents_of("work")
            .await
            .iter()
            .all(|work| work["pk"] != "parent"),
        "its activity is cancelled"
    );
    cloud.drain().await;
    assert_cancelled(&status(&cloud, "child").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_nobody_can_run_is_cancelled_during_its_pause() {
    let (cloud, _) = cloud(first_build(), Effects::default().activities(&NAMES)).await;
    serve(&cloud.orchestrator, &start(&cloud, "order", "Ordre").await).await;
    cloud.queue.take();
    assert!(!block_of(&cloud, "order").await.is_null());
    cancel(&cloud, "order").await;
    serve(&cloud.orchestrator, &only(&cloud)).await;
    assert_cancelled(&status(&cloud, "order").await);
    assert!(block_of(&cloud, "order").await.is_null());
    assert!(cloud.world.documents_of("message").await.is_empty(), "nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_hears_that_its_blocked_child_was_cancelled() {
    let parent = |ctx: OrchestrationContext, _: String| async move {
        match ctx.schedule_sub_orchestration_with_id("Ordre", "child", "").await {
            Ok(output) => Ok(output),
            Err(error) => Ok(format!("compensated: {error}")),
        }
    };
    let first = OrchestrationRegistry::builder().register("Parent", parent).build();
    let (cloud, _) = cloud(first, Effects::default().activities(&NAMES)).await;
    serve(&cloud.orchestrator, &start(&cloud, "parent", "Parent").await).await;
    serve(&cloud.orchestrator, &only(&cloud)).await;
    assert_eq!(block_of(&cloud, "child").await["cause"], "unknown-name");
    cloud.queue.take();
    cancel(&cloud, "child").await;
    serve(&cloud.orchestrator, &only(&cloud)).await;
    cloud.drain().await;
    match status(&cloud, "parent").await {
        OrchestrationStatus::Completed { output, .. } => assert!(output.contains("enough"), "{output}"),
        other => panic!("{other:?}"),
    }
}
