//! Where commands find the store: the environment, or a running local cloud.

use crate::fake_cloud::FakeCloud;
use crate::fixture::{Fixture, binary, dead_address};
use serde_json::json;
use std::collections::BTreeMap;

fn only(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_cloud_provides_the_variables_and_gets_the_wakeup() {
    let fixture = Fixture::running().await;
    let cloud = FakeCloud::start().await;
    cloud.offer(&fixture.variables);
    let none = BTreeMap::new();
    let ran = binary(
        &none,
        &["start", "Echo", "--id", "ø/1", "--cloud", &cloud.url, "--json"],
        "",
    )
    .await
    .exits(0);
    assert_eq!(ran.err, "");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()["notified"],
        true
    );
    let wakeups = cloud.wakeups();
    assert_eq!(wakeups.len(), 1, "{wakeups:?}");
    assert_eq!(wakeups[0]["turn"], json!({ "instance": "ø/1" }));
    let local = only("LOCAL_CLOUD", &format!("{}/", cloud.url));
    binary(&local, &["wait", "ø/1", "--timeout", "120"], "").await.exits(0);
    // --cloud overrides the environment, and COSMOS_ENDPOINT overrides LOCAL_CLOUD.
    let mut elsewhere = fixture.variables.clone();
    elsewhere.insert("COSMOS_ENDPOINT".to_owned(), dead_address());
    binary(&elsewhere, &["status", "ø/1", "--cloud", &cloud.url], "")
        .await
        .exits(0);
    let mut both = fixture.variables.clone();
    both.insert("LOCAL_CLOUD".to_owned(), dead_address());
    binary(&both, &["status", "ø/1"], "").await.exits(0);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_cloud_is_reported_with_what_to_do() {
    let nobody = only("LOCAL_CLOUD", &dead_address());
    let ran = binary(&nobody, &["list", "--json"], "").await.exits(1);
    let ran = ran
        .warns("no local cloud listens at")
        .warns("`duroxide-lambda up`")
        .warns("COSMOS_ENDPOINT");
    assert_eq!(ran.out, "");
    let mut by_cargo = nobody;
    by_cargo.insert("CARGO_PKG_NAME".to_owned(), env!("CARGO_PKG_NAME").to_owned());
    binary(&by_cargo, &["list"], "")
        .await
        .exits(1)
        .warns("`cargo run -- up`");
    let cloud = FakeCloud::start().await;
    let there = only("LOCAL_CLOUD", &cloud.url);
    for (status, body) in [(404, "{}"), (200, "<html>"), (200, "[]"), (200, "{\"COSMOS_KEY\": 7}")] {
        cloud.answer(status, body);
        binary(&there, &["list"], "")
            .await
            .exits(1)
            .warns("is not a local cloud");
    }
    cloud.answer(200, "{}");
    binary(&there, &["list"], "")
        .await
        .exits(1)
        .warns("COSMOS_ENDPOINT is not set");
    binary(&there, &["list", "--cloud", "http://10.1.2.3:9400"], "")
        .await
        .exits(2)
        .warns("on another machine");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsent_wakeup_is_a_warning_and_not_an_error() {
    let fixture = Fixture::running().await;
    let ran = fixture.run(&["start", "Echo", "--id", "e"]).await.exits(0);
    let ran = ran.warns("warning: the message is stored, but the wakeup was not sent");
    assert_eq!(ran.out, "started e (Echo)\n");
    assert_eq!(ran.err.matches("warning").count(), 1, "{ran:?}");
    fixture.json(&["wait", "e", "--timeout", "120"]).await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_missing_variables_are_named() {
    let some = only("COSMOS_ENDPOINT", "http://127.0.0.1:1");
    let ran = binary(&some, &["list"], "").await.exits(1);
    let ran = ran
        .warns("COSMOS_KEY is not set")
        .warns("ORCHESTRATOR_QUEUE_URL is not set");
    ran.warns("unset it or pass --cloud");
}
