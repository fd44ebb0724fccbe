//! `explain`, and the hint of `status`.

use crate::fixture::Fixture;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_instance_is_explained_with_what_to_do() {
    let fixture = Fixture::running().await;
    fixture.json(&["start", "Await", "--id", "a b"]).await;
    fixture.until_running("a b").await;
    let shown = fixture.run(&["explain", "a b"]).await.exits(0).out;
    assert!(shown.starts_with("Waits for event `go` for "), "{shown}");
    for part in [
        "FACT",
        "execution  1, ",
        "Next:\n- Raise the event.\n",
        " raise 'a b' go DATA",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let explained = fixture.json(&["explain", "a b"]).await;
    assert_eq!(
        (
            &explained["cause"],
            &explained["needsAttention"],
            &explained["waits"][0]["name"]
        ),
        (&json!("event"), &json!(false), &json!("go"))
    );
    let status = fixture.run(&["status", "a b"]).await.exits(0).out;
    assert!(status.contains(" explain a b` says what it waits for."), "{status}");
    fixture.run(&["raise", "a b", "go", "now"]).await.exits(0);
    fixture.run(&["wait", "a b", "--timeout", "120"]).await.exits(0);
    let shown = fixture.run(&["explain", "a b"]).await.exits(0).out;
    assert!(shown.starts_with("Completed ") && !shown.contains("Next:"), "{shown}");
    let status = fixture.run(&["status", "a b"]).await.exits(0).out;
    assert!(!status.contains("explain"), "{status}");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_and_an_unknown_instance_are_told_apart() {
    let fixture = Fixture::idle().await;
    fixture.json(&["start", "Echo", "--id", "b"]).await;
    fixture.block("b").await;
    let shown = fixture.run(&["explain", "b"]).await.exits(0).out;
    for part in [
        "Has been blocked for",
        "build `b7`",
        "Deploy a build that registers `Echo`",
        " cancel b",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    fixture
        .run(&["explain", "nobody"])
        .await
        .exits(5)
        .warns("instance 'nobody' was not found");
}
