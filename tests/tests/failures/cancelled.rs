//! An instance that is blocked can be cancelled: no build has to run it for that.

use crate::support::*;
use cosmos::PartitionKey;
use duroxide::providers::ProviderAdmin as _;
use duroxide::runtime::OrchestrationStatus;
use duroxide::{AppErrorKind, ErrorDetails, OrchestrationContext, OrchestrationRegistry};
use duroxide_cosmos::InstanceStatus;
use duroxide_lambda::Limits;
use serde_json::json;
use tests::log::LogLines;

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

/// duroxide takes it for a failure of the application, and says so before it is committed.
#[tokio::test]
async fn a_cancelled_orchestration_is_not_logged_as_failed() {
    let (lines, _guard) = LogLines::capture();
    let (cloud, _) = cloud(first_build(), Effects::default().activities(&NAMES)).await;
    serve(&cloud.orchestrator, &start(&cloud, "order", "Order").await).await;
    cloud.queue.take();
    cancel(&cloud, "order").await;
    serve(&cloud.orchestrator, &only(&cloud)).await;
    assert_cancelled(&status(&cloud, "order").await);
    let lines = lines.read();
    let has = |text: &str| {
        let mut messages = lines.iter().filter_map(|line| line["message"].as_str());
        messages.any(|message| message.to_lowercase().contains(text))
    };
    assert!(has("an orchestration was cancelled"), "{lines:#?}");
    assert!(!has("orchestration failed"), "{lines:#?}");
}

/// Nothing of its history is read for that: its activity, its children (one of which no turn has begun) and its parent are found
/// without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_history_nobody_can_read_is_cancelled_with_all_that_it_waits_for() {
    for fault in ["corrupt", "huge", "pinned"] {
        let root = |ctx: OrchestrationContext, _: String| async move {
            let middle = ctx.schedule_sub_orchestration_with_id("Middle", "middle", "").await;
            Ok(middle.unwrap_or_else(|error| format!("compensated: {error}")))
        };
        let middle = |ctx: OrchestrationContext, _: String| async move {
            let activity = ctx.schedule_activity("Charge", "");
            let begun = ctx.schedule_sub_orchestration_with_id("Order", "begun", "");
            let pending = ctx.schedule_sub_orchestration_with_id("Order", "pending", "");
            let (paid, one, two) = ctx.join3(activity, begun, pending).await;
            Ok(paid? + &one? + &two?)
        };
        let all = OrchestrationRegistry::builder_from(&first_build())
            .register("Root", root)
            .register("Middle", middle)
            .build();
        let (cloud, _) = cloud(all.clone(), Effects::default().activities(&NAMES)).await;
        serve(&cloud.orchestrator, &start(&cloud, "root", "Root").await).await;
        serve(&cloud.orchestrator, &only(&cloud)).await;
        let begun = |sent: &duroxide_lambda::Delayed| sent.wakeup.target.instance() == "begun";
        let sent = cloud.queue.take();
        assert_eq!(sent.len(), 3, "an activity, and two children");
        serve(
            &cloud.orchestrator,
            &sent.into_iter().find(begun).expect("a child").wakeup,
        )
        .await;
        cloud.queue.take();
        let tree = cloud.silent.get_instance_tree("root").await.expect("a tree").all_ids;
        assert_eq!(tree, ["root", "middle", "begun", "pending"]);
        // Another environment, which knows no history.
        let limit = if fault == "huge" { 1 } else { u64::MAX };
        let other = cloud.another_build(
            Limits {
                history_bytes: limit,
                ..limits("two")
            },
            all,
        );
        let other = other.await;
        match fault {
            "corrupt" => {
                spoil(&cloud, "history", |doc| {
                    doc["events"][0] = json!({"type": "FromTheFuture"})
                })
                .await
            }
            "pinned" => spoil(&cloud, "instance", |doc| doc["pinned"] = "99.0.0".into()).await,
            _ => {}
        }
        cancel(&cloud, "middle").await;
        serve(&other, &only(&cloud)).await;
        let counts = other.counted();
        assert_eq!(
            (
                counts.get("OrchestrationsCancelled"),
                counts.get("Blocked"),
                counts.get("GivenUp")
            ),
            (Some(&1), None, None),
            "{fault}"
        );
        cloud.drain().await;
        for cancelled in ["middle", "begun", "pending"] {
            let summary = cloud.silent.instance_summary(cancelled).await.expect("a summary");
            let summary = summary.expect("it exists");
            assert_eq!(summary.status, InstanceStatus::Cancelled, "{fault}: {summary:?}");
        }
        completes(&cloud, "root", "compensated: canceled: enough").await;
        for kind in ["work", "message", "intent", "dead-letter"] {
            let left = cloud.world.documents_of(kind).await;
            assert!(left.is_empty(), "{fault}: {left:#?}");
        }
    }
}

/// Changes the first document of this kind of the instance `middle`.
async fn spoil(cloud: &Cloud, kind: &str, change: impl FnOnce(&mut serde_json::Value)) {
    let documents = cloud.world.documents_of(kind).await;
    let mut document = documents
        .into_iter()
        .find(|doc| doc["pk"] == "middle")
        .expect("a document");
    change(&mut document);
    let pk = PartitionKey::new("middle").expect("a valid partition key");
    let id = document["id"].as_str().expect("an id").to_owned();
    let raw = cloud.world.raw();
    let replaced = raw.replace(&pk, &id, &document, None, cosmos::Retry::Idempotent).await;
    replaced.expect("it is replaced");
}
