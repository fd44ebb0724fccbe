//! Restarts and batches.

use crate::fixture::Fixture;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn restart_runs_the_same_input_again() {
    let fixture = Fixture::running().await;
    fixture
        .json(&["start", "Echo", "--id", "a", "--input", "x", "--wait", "120"])
        .await;
    let new = fixture.json(&["restart", "a", "--new-id", "b", "--wait", "120"]).await;
    assert_eq!((&new["instance"], &new["output"]), (&json!("b"), &json!("x")));
    let again = fixture.json(&["restart", "a", "--in-place"]).await;
    assert_eq!(again, json!({ "instance": "a", "restartedFrom": "a", "execution": 2 }));
    let done = fixture.json(&["wait", "a", "--timeout", "120"]).await;
    assert_eq!((&done["execution"], &done["output"]), (&json!(2), &json!("x")));
    fixture.run(&["restart", "none"]).await.exits(5);
    fixture.run(&["restart", "a", "--new-id", "b"]).await.exits(1);
    fixture.run(&["restart", "a", "--alone"]).await.exits(2);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_begun_shown_listed_and_cancelled() {
    // duroxide's own runtime takes no steps of batches: they stay where they begin.
    let fixture = Fixture::running().await;
    let begun = fixture
        .json(&[
            "batch",
            "start",
            "pause",
            "--version",
            "1.2.0",
            "--reason",
            "why",
            "--rate",
            "5",
        ])
        .await;
    assert_eq!(
        (&begun["state"], &begun["action"]),
        (&json!("Running"), &json!("pause"))
    );
    assert_eq!(begun["filter"], json!({ "version": "1.2.0" }));
    let id = begun["batch"].as_str().unwrap();
    let shown = fixture.run(&["batch", "status", id]).await.exits(0).out;
    assert!(shown.contains("Running") && shown.contains("0 examined"), "{shown}");
    let listed = fixture.json(&["batch", "list"]).await;
    assert_eq!(listed["batches"][0]["batch"], begun["batch"]);
    let text = fixture.run(&["batch", "list"]).await.exits(0).out;
    assert!(text.contains("PROGRESS") && text.contains("pause"), "{text}");
    let cancelled = fixture.json(&["batch", "cancel", id]).await;
    assert_eq!(cancelled["state"], "Cancelling");
    let failures = fixture.json(&["batch", "failures", id]).await;
    assert_eq!(failures, json!({ "failures": [], "next": null }));
    fixture.run(&["batch", "status", "none"]).await.exits(5);
    fixture.run(&["batch", "start", "pause"]).await.exits(1).warns("all");
    fixture.run(&["batch", "start", "explode", "--all"]).await.exits(2);
    fixture.stop().await;
}
