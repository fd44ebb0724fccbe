//! A turn that the store refuses: too large for a document.

use crate::support::*;
use duroxide::runtime::OrchestrationStatus;
use duroxide::{OrchestrationContext, OrchestrationRegistry};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_hears_of_a_child_whose_output_is_refused() {
    let huge = |_: OrchestrationContext, _: String| async move { Ok("x".repeat(3_000_000)) };
    let parent = |ctx: OrchestrationContext, _: String| async move {
        match ctx.schedule_sub_orchestration_with_id("Huge", "child", "").await {
            Ok(_) => Ok("all of it".to_owned()),
            Err(error) => Ok(format!("compensated: {error}")),
        }
    };
    let orchestrations = OrchestrationRegistry::builder()
        .register("Huge", huge)
        .register("Parent", parent)
        .build();
    let (cloud, _) = cloud(orchestrations, Effects::default().activities(&NAMES)).await;
    serve(&cloud.orchestrator, &start(&cloud, "parent", "Parent").await).await;
    cloud.drain().await;
    assert!(matches!(
        status(&cloud, "child").await,
        OrchestrationStatus::Failed { .. }
    ));
    match status(&cloud, "parent").await {
        OrchestrationStatus::Completed { output, .. } => {
            assert!(
                output.starts_with("compensated: ") && output.contains("over the limit"),
                "{output}"
            );
        }
        other => panic!("the parent does not wait for ever: {other:?}"),
    }
}
