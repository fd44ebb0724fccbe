//! Children: the chain to the true cause, and the messages between parent and child.

use super::scene::*;
use cosmos_emulator::Refusing;
use duroxide_cosmos::Explanation;
use serde_json::json;
use std::time::Duration;

/// Longer than it takes until any process may deliver.
const DELIVERABLE: Duration = Duration::from_secs(15);

fn chain(found: &Explanation) -> Vec<(&str, &str)> {
    let links = found.chain.iter();
    links.map(|link| (link.instance.as_str(), link.cause.name())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_of_children_leads_to_the_leaf() {
    let scene = Scene::new().await;
    scene.begun("root", "Parent", "Parent|middle|Act|leaf|Unknown").await;
    let words = [
        "Waits for child `middle`, which waits for child `leaf`",
        "activity `Unknown`, queued",
    ];
    let found = scene.is("root", "child", false, &words).await;
    assert_eq!(
        chain(&found),
        [("root", "child"), ("middle", "child"), ("leaf", "activity-queued")]
    );
    scene.works().await;
    let words = ["child `leaf`, which waits for activity `Unknown`, which no deployed worker has been able to run"];
    let found = scene.is("root", "child", true, &words).await;
    assert_eq!(chain(&found).last(), Some(&("leaf", "activity-blocked")));
    assert_eq!(
        found.next,
        scene.explain("leaf").await.expect("a leaf").next,
        "what to do is that of the leaf"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_children_the_worse_one_leads() {
    let scene = Scene::new().await;
    scene.begun("root", "Parents", "").await;
    let found = scene
        .is(
            "root",
            "several",
            false,
            &["child `fine`, which", "child `worse`, which"],
        )
        .await;
    assert_eq!(found.waits.len(), 2);
    scene.works().await;
    let found = scene.is("root", "child", true, &["2 things at once"]).await;
    assert_eq!(chain(&found), [("root", "child"), ("worse", "activity-blocked")]);
    assert_eq!(found.waits[0].instance.as_deref(), Some("worse"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_without_a_turn_is_pending() {
    let scene = Scene::new().await;
    scene.start("root", "Parent", "Wait|child|go").await;
    scene.turn_by(&scene.cloud.orchestrator, "root").await;
    let found = scene
        .is("root", "child", false, &["child `child`, which was accepted"])
        .await;
    assert_eq!(chain(&found), [("root", "child"), ("child", "first-turn-due")]);
    scene.clock.advance(STUCK);
    scene.is("root", "child", true, &["several wakeups did not help"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_was_not_delivered_is_found_at_the_parent() {
    let scene = Scene::new().await;
    Scene::isolate(&scene.cloud.orchestrator, &["root"], Refusing::with(403));
    scene.start("root", "Parent", "Wait|child|go").await;
    scene.turn_by(&scene.cloud.orchestrator, "root").await;
    let found = scene
        .is(
            "root",
            "child-start-undelivered",
            false,
            &["whose start is not delivered yet"],
        )
        .await;
    assert_eq!(found.waits[0].instance.as_deref(), Some("child"));
    // Maintenance cannot deliver it either, ever.
    scene.clock.advance(DELIVERABLE);
    let child = serde_json::to_string(&["child"]).expect("JSON");
    scene.cloud.client_listener.refuse_when(move |request| {
        let is_child = request.partition_key.as_ref() == Some(&child);
        (is_child && request.kind != cosmos_emulator::RequestKind::Query).then(|| Refusing::with(400))
    });
    tests::recover(&scene.cloud.silent).await;
    scene.cloud.client_listener.refuse_nothing();
    let found = scene
        .is("root", "child-start-given-up", true, &["whose start was given up"])
        .await;
    assert_eq!(
        found.next[0].command.as_deref().expect("a command")[..3],
        ["dead-letters", "redrive", "root"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_was_not_delivered_is_found_at_the_child() {
    let scene = Scene::new().await;
    scene.begun("root", "Parent", "Wait|child|go").await;
    scene.raise("child", "go").await;
    Scene::isolate(&scene.cloud.orchestrator, &["child"], Refusing::with(403));
    scene.turn_by(&scene.cloud.orchestrator, "child").await;
    scene.cloud.orchestrator.listener.refuse_nothing();
    let words = ["child `child`, which ended", "whose result is not delivered yet"];
    let found = scene.is("root", "child-result-undelivered", false, &words).await;
    assert_eq!(chain(&found).last(), Some(&("child", "completed")));
    scene.clock.advance(DELIVERABLE);
    let root = serde_json::to_string(&["root"]).expect("JSON");
    scene.cloud.client_listener.refuse_when(move |request| {
        let is_root = request.partition_key.as_ref() == Some(&root);
        (is_root && request.kind != cosmos_emulator::RequestKind::Query).then(|| Refusing::with(400))
    });
    tests::recover(&scene.cloud.silent).await;
    scene.cloud.client_listener.refuse_nothing();
    let found = scene
        .is("root", "child-result-given-up", true, &["whose result was given up"])
        .await;
    assert_eq!(
        found.next[0].command.as_deref().expect("a command")[..3],
        ["dead-letters", "redrive", "child"]
    );
    scene.remove("child", "dead-letter").await;
    scene
        .is(
            "root",
            "child-result-missing",
            true,
            &["neither delivered nor on its way"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_is_gone_or_belongs_to_another_never_answers() {
    let scene = Scene::new().await;
    scene.begun("root", "Parent", "Wait|child|go").await;
    for kind in ["instance", "history", "message", "receipt"] {
        scene.remove("child", kind).await;
    }
    let found = scene
        .is("root", "child-missing", true, &["child `child`, which does not exist"])
        .await;
    assert_eq!(chain(&found), [("root", "child-missing"), ("child", "child-missing")]);
    assert_eq!(found.next[0].command.as_deref().expect("a command"), ["cancel", "root"]);

    // By hand: duroxide refuses an id that is in use, as far as the child exists then.
    scene.begun("second", "Parent", "Wait|taken|go").await;
    scene
        .edit("taken", "instance", |doc| doc["parent"] = json!("another"))
        .await;
    let words = ["child `taken`, whose id was in use", "belongs to `another`"];
    scene.is("second", "child-taken", true, &words).await;
    scene
        .edit("taken", "instance", |doc| {
            doc.as_object_mut().expect("an object").remove("parent");
        })
        .await;
    scene
        .is("second", "child-taken", true, &["was started without a parent"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_chain_is_followed_so_far_and_no_further() {
    let scene = Scene::new().await;
    let chain_of = |count: usize| -> String {
        let parents: String = (1..count).map(|n| format!("Parent|c{n}|")).collect();
        format!("{parents}Wait|leaf|go")
    };
    scene.begun("root", "Parent", &chain_of(30)).await;
    let found = scene
        .is("root", "child", false, &["the chain of children is long"])
        .await;
    assert_eq!(found.chain.len(), 24, "{:?}", chain(&found));
    assert!(scene.cloud.client_listener.counts().requests <= 48);
    assert_eq!(found.next[0].command.as_deref().expect("a command"), ["explain", "c24"]);
}
