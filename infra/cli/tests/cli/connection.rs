//! Where the commands find their store: the environment, or a running local cloud.

use crate::cloud::Cloud;
use crate::world::{World, binary, dead_address};
use serde_json::json;
use std::collections::BTreeMap;

fn only(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_cloud_is_asked_for_the_variables_and_its_queue_is_notified() {
    let world = World::moving().await;
    let cloud = Cloud::start().await;
    cloud.offer(&world.variables);
    let none = BTreeMap::new();
    let ran = binary(
        &none,
        &["start", "Echo", "--id", "ø/1", "--cloud", &cloud.url, "--json"],
        "",
    )
    .await
    .is(0);
    assert_eq!(ran.err, "");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()["notified"],
        true
    );
    let wakeups = cloud.wakeups();
    assert_eq!(wakeups.len(), 1, "{wakeups:?}");
    assert_eq!(wakeups[0]["turn"], json!({ "instance": "ø/1" }));
    let local = only("LOCAL_CLOUD", &format!("{}/", cloud.url));
    binary(&local, &["wait", "ø/1", "--timeout", "120"], "").await.is(0);
    // What is typed wins over the environment, and the environment's store over the environment's cloud.
    let mut elsewhere = world.variables.clone();
    elsewhere.insert("COSMOS_ENDPOINT".to_owned(), dead_address());
    binary(&elsewhere, &["status", "ø/1", "--cloud", &cloud.url], "")
        .await
        .is(0);
    let mut both = world.variables.clone();
    both.insert("LOCAL_CLOUD".to_owned(), dead_address());
    binary(&both, &["status", "ø/1"], "").await.is(0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_is_not_there_or_is_none_is_told_with_what_to_do() {
    let nobody = only("LOCAL_CLOUD", &dead_address());
    let ran = binary(&nobody, &["list", "--json"], "").await.is(1);
    let ran = ran
        .says("no local cloud listens at")
        .says("cargo run -- up")
        .says("COSMOS_ENDPOINT");
    assert_eq!(ran.out, "");
    let cloud = Cloud::start().await;
    let there = only("LOCAL_CLOUD", &cloud.url);
    for (status, body) in [(404, "{}"), (200, "<html>"), (200, "[]"), (200, "{\"COSMOS_KEY\": 7}")] {
        cloud.answer(status, body);
        binary(&there, &["list"], "").await.is(1).says("is not a local cloud");
    }
    cloud.answer(200, "{}");
    binary(&there, &["list"], "")
        .await
        .is(1)
        .says("COSMOS_ENDPOINT is not set");
    binary(&there, &["list", "--cloud", "http://10.1.2.3:9400"], "")
        .await
        .is(2)
        .says("on another machine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wakeup_that_fails_is_told_and_fails_nothing() {
    let world = World::moving().await;
    let ran = world.run(&["start", "Echo", "--id", "e"]).await.is(0);
    let ran = ran.says("warning: it is queued, but the function could not be notified");
    assert_eq!(ran.out, "started e (Echo)\n");
    assert_eq!(ran.err.matches("warning").count(), 1, "{ran:?}");
    world.json(&["wait", "e", "--timeout", "120"]).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_that_are_missing_are_all_named() {
    let some = only("COSMOS_ENDPOINT", "http://127.0.0.1:1");
    let ran = binary(&some, &["list"], "").await.is(1);
    let ran = ran
        .says("COSMOS_KEY is not set")
        .says("ORCHESTRATOR_QUEUE_URL is not set");
    ran.says("unset it or give --cloud");
}
