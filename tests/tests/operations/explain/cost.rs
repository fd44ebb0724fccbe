//! What an explanation costs: two requests for each instance, whatever is stored elsewhere.

use super::scene::*;
use duroxide::EventKind;
use serde_json::json;
use tests::cost::cost_of;
use tests::turns::{Decision, commit, enqueue, event, start_of, started, turn};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_costs_two_requests_at_once_and_each_child_two_more() {
    let scene = Scene::new().await;
    scene.start("pending", "Wait", "go").await;
    scene.begun("waiting", "Wait", "go").await;
    scene.begun("acting", "Act", "Fine").await;
    scene.begun("done", "Refuses", "no").await;
    let explain = |id: &'static str| scene.cloud.silent.explain(id, &scene.settings);
    for id in ["pending", "waiting", "acting", "done", "nobody"] {
        let (explained, cost) = cost_of(&scene.cloud.client_listener, explain(id)).await;
        assert_eq!(explained.expect("no error").is_some(), id != "nobody");
        cost.is(2, 1);
    }
    scene.begun("root", "Parent", "Parent|middle|Wait|leaf|go").await;
    let (_, cost) = cost_of(&scene.cloud.client_listener, explain("root")).await;
    cost.is(6, 3);
    scene.begun("session", "Act", "Fine@cart").await;
    let (_, cost) = cost_of(&scene.cloud.client_listener, explain("session")).await;
    cost.is(3, 2);
    // What looks lost is read again before it is said.
    scene.begun("lost", "Nothing", "").await;
    let (_, cost) = cost_of(&scene.cloud.client_listener, explain("lost")).await;
    cost.is(4, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wide_instance_and_a_long_history_are_bounded() {
    let scene = Scene::new().await;
    let provider = &scene.cloud.silent;
    enqueue(provider, start_of("wide")).await;
    let first = turn(provider, "wide").await;
    let decision = Decision::first("wide", 1_500);
    commit(provider, &first.lock_token, decision).await.expect("it commits");
    let found = scene
        .is("wide", "several", false, &["1500 things at once", "and 1497 more"])
        .await;
    assert_eq!((found.waits.len(), found.more_waits), (20, 1_480));
    let requests = scene.cloud.client_listener.counts().requests;
    assert!(requests <= 8, "{requests} requests");

    // By hand: an execution of far more events than were found.
    scene.begun("cut", "Wait", "approval").await;
    scene.edit("cut", "instance", |doc| doc["events"] = json!(5_000)).await;
    let found = scene.is("cut", "event", false, &["event `approval`"]).await;
    let partial = found.evidence.iter().find(|fact| fact.what == "history");
    assert!(
        partial.is_some_and(|fact| fact.value == "the newest 2 of 5000 events were examined"),
        "{found:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a thousand turns"]
async fn of_a_long_history_the_newest_part_decides() {
    let scene = Scene::new().await;
    let provider = &scene.cloud.silent;
    // Far more turns than are read: the newest ones decide.
    enqueue(provider, start_of("long")).await;
    for n in 0..1_050 {
        let item = turn(provider, "long").await;
        let kind = match n {
            0 => started("long", 1).kind,
            1_049 => EventKind::ExternalSubscribed {
                name: "approval".to_owned(),
            },
            _ => EventKind::KeyValuesCleared,
        };
        let decision = Decision::of(vec![event("long", 1, n + 1, kind)]);
        commit(provider, &item.lock_token, decision).await.expect("it commits");
        if n < 1_049 {
            enqueue(provider, tests::turns::raised("long", "x")).await;
        }
    }
    let found = scene.is("long", "event", false, &["event `approval`"]).await;
    let partial = found.evidence.iter().find(|fact| fact.what == "history");
    assert!(
        partial.is_some_and(|fact| fact.value.contains("of 1050 events were examined")),
        "{found:#?}"
    );
    let requests = scene.cloud.client_listener.counts().requests;
    assert!(requests <= 6, "{requests} requests");
}
