//! Instances that have ended, and those that do not exist.

use super::scene::*;
use duroxide_lambda::config::OnActivityGivenUp;
use duroxide_lambda::{ActivityLimits, Limits};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_says_when_and_why() {
    let scene = Scene::new().await;
    scene.begun("done", "Act", "Fine").await;
    scene.works().await;
    let found = scene
        .is("done", "completed", false, &["Completed", "after its start"])
        .await;
    assert!(
        found.since.is_some() && found.waits.is_empty() && found.next.is_empty(),
        "{found:#?}"
    );

    scene.begun("failed", "Act", "Fails").await;
    scene.works().await;
    let words = ["Failed", "the card is refused", "activity `Fails` failed before"];
    scene.is("failed", "failed", true, &words).await;

    scene.begun("parent", "Parent", "Act|child|Fails").await;
    scene.works().await;
    let found = scene
        .is("parent", "failed", true, &["child `child` failed before"])
        .await;
    assert_eq!(
        found.next[0].command.as_deref().expect("a command"),
        ["explain", "child"]
    );

    scene.begun("cancelled", "Wait", "go").await;
    scene
        .cloud
        .client
        .cancel_instance("cancelled", "not needed")
        .await
        .expect("accepted");
    scene.turns(&scene.cloud.orchestrator).await;
    scene
        .is("cancelled", "cancelled", false, &["cancelled", "not needed"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_has_its_dead_letter() {
    let once = Limits {
        activities: ActivityLimits::default().attempts("Fine", 1),
        on_activity_given_up: OnActivityGivenUp::FailOrchestration,
        ..limits("one")
    };
    let scene = Scene::with(once, &["Fine"]).await;
    scene.begun("a", "Act", "Fine").await;
    scene.claim_work("a").await;
    scene.clock.advance(LOCK);
    scene.works().await;
    let found = scene
        .is("a", "given-up", true, &["Failed", "given up", "killed its process"])
        .await;
    let command = found.next[0].command.as_deref().expect("a command");
    assert_eq!(command[..3], ["dead-letters", "redrive", "a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_instance_has_no_explanation() {
    let scene = Scene::new().await;
    assert!(scene.explain("nobody").await.is_none());
    assert!(
        scene.explain(&"x".repeat(5_000)).await.is_none(),
        "no instance can have that id"
    );
    assert!(scene.explain("").await.is_none());
}
