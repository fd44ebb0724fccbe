//! `list`: newest first, filters, paging.

use crate::fixture::Fixture;
use serde_json::{Value, json};

fn ids(list: &Value) -> Vec<String> {
    let instances = list["instances"].as_array().unwrap();
    let id = |one: &Value| one["instance"].as_str().unwrap().to_owned();
    instances.iter().map(id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn list_shows_newest_first_by_status_and_limit_and_continues_at_a_cursor() {
    let fixture = Fixture::running().await;
    for id in ["one", "two\u{7}", "three"] {
        fixture.json(&["start", "Echo", "--id", id, "--wait", "120"]).await;
    }
    fixture
        .run(&["start", "Unlucky", "--id", "four", "--wait", "120"])
        .await
        .exits(3);
    let first = fixture.json(&["list", "--limit", "3"]).await;
    assert_eq!(ids(&first), ["four", "three", "two\u{7}"]);
    let cursor = first["next"].as_str().unwrap();
    let rest = fixture.json(&["list", "--limit", "3", "--cursor", cursor]).await;
    assert_eq!(ids(&rest), ["one"]);
    let all = fixture.json(&["list"]).await;
    assert_eq!((ids(&all).len(), &all["next"]), (4, &json!(null)));
    assert_eq!(ids(&fixture.json(&["list", "--status", "failed"]).await), ["four"]);
    assert_eq!(
        fixture.run(&["list", "--status", "running"]).await.exits(0).out,
        "no instances\n"
    );
    let shown = fixture.run(&["list", "--limit", "3"]).await.exits(0).out;
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].starts_with("INSTANCE") && lines[1].starts_with("four "),
        "{shown}"
    );
    assert!(
        lines[3].starts_with("two\\u{7}") && lines[4].starts_with("more: --limit, or --cursor "),
        "{shown}"
    );
    fixture
        .run(&["list", "--cursor", "nonsense"])
        .await
        .exits(1)
        .warns("cursor");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn list_filters_by_name_version_prefix_tag_time_and_parent() {
    let fixture = Fixture::running().await;
    let start = async |orchestration: &str, id: &str, more: &[&str]| {
        let command = [&["start", orchestration, "--id", id, "--wait", "120"], more].concat();
        fixture.json(&command).await;
    };
    start("Echo", "order-1", &["--tag", "customer=ada", "--tag", "size=s"]).await;
    start("Echo", "order-2", &["--tag", "customer=bob"]).await;
    start("Greet", "greeting", &["--tag", "customer=ada"]).await;
    start("Parent", "p", &[]).await;
    let list = async |filter: &[&str]| ids(&fixture.json(&[&["list"], filter].concat()).await);
    assert_eq!(list(&["--name", "Greet"]).await, ["greeting"]);
    assert_eq!(list(&["--prefix", "order-"]).await, ["order-2", "order-1"]);
    assert_eq!(list(&["--tag", "customer=ada"]).await, ["greeting", "order-1"]);
    assert_eq!(list(&["--tag", "customer=ada", "--tag", "size=s"]).await, ["order-1"]);
    let children = list(&["--parent", "p"]).await;
    assert!(children.len() == 1 && children[0].starts_with("p"), "{children:?}");
    assert!(list(&["--created-from", "2100-01-01T00:00:00Z"]).await.is_empty());
    assert_eq!(list(&["--created-to", "2100-01-01T00:00:00Z"]).await.len(), 5);
    let status = fixture.json(&["status", "order-1"]).await;
    assert_eq!(status["tags"], json!({ "customer": "ada", "size": "s" }));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn list_sorts_out_what_needs_attention_with_reasons_and_sentences() {
    let fixture = Fixture::running().await;
    fixture.json(&["start", "Echo", "--id", "fine", "--wait", "120"]).await;
    fixture
        .run(&["start", "Unlucky", "--id", "bad", "--wait", "120"])
        .await
        .exits(3);
    let found = fixture.json(&["list", "--attention"]).await;
    assert_eq!(
        (ids(&found), &found["truncated"]),
        (vec!["bad".to_owned()], &json!(false))
    );
    assert_eq!(found["instances"][0]["attention"], json!(["failed"]));
    let shown = fixture.run(&["list", "--attention"]).await.exits(0).out;
    assert!(shown.contains("ATTENTION") && !shown.contains("fine"), "{shown}");
    let shown = fixture.run(&["list", "--attention", "--explain"]).await.exits(0).out;
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].starts_with("bad (Unlucky, Failed, ") && lines[0].ends_with(", failed)"),
        "{shown}"
    );
    assert!(lines[1].starts_with("  Failed ") && lines.len() == 2, "{shown}");
    // More than a page that is explained.
    let all = fixture.json(&["list", "--explain", "--limit", "60"]).await;
    assert_eq!(ids(&all), ["bad", "fine"]);
    let ended = async |filter: &[&str]| ids(&fixture.json(&[&["list"], filter].concat()).await);
    assert!(ended(&["--ended-to", "2020-01-01T00:00:00Z"]).await.is_empty());
    assert_eq!(
        ended(&["--ended-from", "2020-01-01T00:00:00Z", "--status", "failed"]).await,
        ["bad"]
    );
    fixture.stop().await;
}
