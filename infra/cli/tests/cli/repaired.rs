//! Rewinds and forks.

use crate::fixture::Fixture;
use serde_json::json;

/// An order whose charge fails the first time that it is called.
async fn failed(fixture: &Fixture, id: &str) {
    let arguments = ["start", "Order", "--id", id, "--input", "Ada", "--wait", "120"];
    fixture.run(&arguments).await.exits(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn rewind_lists_what_runs_again_and_status_shows_that_it_was_done() {
    let fixture = Fixture::running().await;
    failed(&fixture, "a").await;
    let explained = fixture.run(&["explain", "a"]).await.exits(0).out;
    assert!(explained.contains(" rewind a\n"), "{explained}");
    let would = fixture.run(&["rewind", "a", "--dry-run"]).await.exits(0).out;
    assert!(would.contains("would run again: activity Charge"), "{would}");
    assert_eq!(fixture.json(&["status", "a"]).await["rewinds"], json!([]));

    fixture.run(&["rewind", "a", "--reason", "it is open"]).await.exits(0);
    let done = fixture.json(&["wait", "a", "--timeout", "120"]).await;
    assert_eq!(done["output"], "Hello, Ada! charged");
    let rewind = &done["rewinds"][0];
    assert_eq!(
        (&rewind["number"], &rewind["reason"]),
        (&json!(1), &json!("it is open"))
    );
    let status = fixture.run(&["status", "a"]).await.exits(0).out;
    assert!(
        status.contains("rewinds ") && status.contains("undone: it is open"),
        "{status}"
    );
    let undone = fixture.run(&["history", "a", "--undone"]).await.exits(0).out;
    assert!(undone.contains("the bank is closed"), "{undone}");
    let history = fixture.run(&["history", "a"]).await.exits(0).out;
    assert!(!history.contains("the bank is closed"), "{history}");
    fixture.run(&["rewind", "a"]).await.exits(1).warns("has not failed");
    fixture.run(&["rewind", "none"]).await.exits(5);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_begins_with_an_edited_result_and_says_where_it_comes_from() {
    let fixture = Fixture::running().await;
    failed(&fixture, "a").await;
    let would = fixture
        .run(&["fork", "a", "--new-id", "b", "--at", "3", "--dry-run"])
        .await
        .exits(0)
        .out;
    assert!(would.contains("would fork b from a"), "{would}");
    fixture.run(&["status", "b"]).await.exits(5);

    let arguments = ["fork", "a", "--new-id", "b", "--at", "3", "--result", "3=Good morning"];
    fixture.run(&arguments).await.exits(0);
    let done = fixture.json(&["wait", "b", "--timeout", "120"]).await;
    assert_eq!(done["output"], "Good morning charged");
    assert_eq!(done["forkedFrom"]["instance"], "a");
    let status = fixture.run(&["status", "b"]).await.exits(0).out;
    assert!(status.contains("forked from "), "{status}");
    assert_eq!(fixture.json(&["status", "a"]).await["status"], "Failed");
    fixture.run(&arguments).await.exits(1).warns("exists");
    fixture.stop().await;
}
