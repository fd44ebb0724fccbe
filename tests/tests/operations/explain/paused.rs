//! Paused instances: what waits and what still runs, how to go on, and a paused child as the true cause.

use super::scene::*;
use duroxide_cosmos::InstanceStatus;
use serde_json::json;

async fn pause(scene: &Scene, instance: &str, reason: Option<&str>) {
    let paused = scene.cloud.silent.pause(instance, reason, false).await;
    assert_eq!(paused.expect("it is paused").changed, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_instance_says_since_when_why_and_how_to_go_on() {
    let scene = Scene::new().await;
    scene.begun("a", "Wait", "go").await;
    pause(&scene, "a", Some("the bank is down")).await;
    scene.clock.advance(STUCK);
    let words = ["Has been paused for 6 min", "(the bank is down)"];
    let found = scene.is("a", "paused", false, &words).await;
    assert_eq!(found.status, InstanceStatus::Paused);
    let command = found.next[0].command.clone().expect("a command");
    assert_eq!(command, ["resume", "a"]);
    assert!(!found.sentence.contains("message"), "nothing has arrived: {found:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_arrives_meanwhile_and_what_still_runs_is_counted() {
    let scene = Scene::new().await;
    scene.begun("a", "Act", "Fine").await;
    scene.claim_work("a").await;
    pause(&scene, "a", None).await;
    scene.raise("a", "go").await;
    let words = ["1 message waits for its next turn", "1 activity runs to the end"];
    scene.is("a", "paused", false, &words).await;
    scene.clock.advance(STUCK);
    let found = scene.is("a", "paused", false, &["1 message waits"]).await;
    assert!(!found.sentence.contains("runs"), "its claim is over: {found:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_instance_ends_although_it_is_paused() {
    let scene = Scene::new().await;
    scene.begun("a", "Wait", "go").await;
    pause(&scene, "a", None).await;
    let cancelled = scene.cloud.client.cancel_instance("a", "enough").await;
    cancelled.expect("it is accepted");
    scene
        .is("a", "turn-due", false, &["a cancellation is among them"])
        .await;
    scene.turns(&scene.cloud.orchestrator).await;
    scene.is("a", "cancelled", false, &["enough"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_child_is_the_true_cause() {
    let scene = Scene::new().await;
    scene.begun("root", "Parent", "Wait|leaf|go").await;
    pause(&scene, "leaf", None).await;
    let found = scene
        .is("root", "child", false, &["child `leaf`, which has been paused"])
        .await;
    let chain: Vec<&str> = found.chain.iter().map(|link| link.cause.name()).collect();
    assert_eq!(chain, ["child", "paused"]);
    assert_eq!(
        found.next[0].command.as_deref().expect("a command"),
        ["resume", "leaf"],
        "what to do is that of the leaf"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_that_is_not_complete_needs_nobody() {
    let scene = Scene::new().await;
    scene.begun("a", "Wait", "go").await;
    pause(&scene, "a", None).await;
    for (phase, word) in [("parking", "Is being paused"), ("resuming", "Is being resumed")] {
        scene
            .edit("a", "instance", |doc| doc["paused"]["phase"] = json!(phase))
            .await;
        let found = scene.is("a", "pausing", false, &[word]).await;
        assert!(found.next[0].text.contains("completes it"), "{found:#?}");
    }
}
