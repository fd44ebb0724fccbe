//! Instances that have not had a turn, or cannot go on: each command shows them, and says what they wait for.

use crate::fixture::Fixture;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_started_instance_is_pending_everywhere_at_once() {
    let fixture = Fixture::idle().await;
    fixture
        .json(&["start", "Echo", "--id", "p", "--input", "{\"to\":\"Kyoto\"}"])
        .await;
    let status = fixture.json(&["status", "p"]).await;
    assert_eq!(
        (&status["status"], &status["orchestration"], &status["input"]),
        (&json!("Pending"), &json!("Echo"), &json!("{\"to\":\"Kyoto\"}"))
    );
    assert_eq!((&status["startedAt"], &status["version"]), (&json!(null), &json!(null)));
    assert!(status["createdAt"].is_string(), "{status}");
    let shown = fixture.run(&["status", "p"]).await.exits(0).out;
    for part in [
        "orchestration  Echo\n",
        "status         Pending",
        "accepted ",
        "\"to\": \"Kyoto\"",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for list in [&["list"][..], &["list", "--status", "pending"]] {
        let list = fixture.json(list).await;
        assert_eq!(list["instances"][0]["status"], "Pending", "{list}");
    }
    assert_eq!(
        fixture.json(&["list", "--status", "running"]).await["instances"],
        json!([])
    );
    assert_eq!(fixture.json(&["tree", "p"]).await["instances"][0]["status"], "Pending");
    assert_eq!(fixture.json(&["stats"]).await["instances"]["pending"], 1);
    fixture
        .run(&["wait", "p", "--timeout", "0.2"])
        .await
        .exits(4)
        .warns("has not finished after 0.2 s: Pending: accepted ")
        .warns("it waits for its first turn");
    fixture
        .run(&["start", "Echo", "--id", "p"])
        .await
        .exits(1)
        .warns("exists already: Echo, Pending");
    fixture
        .run(&["history", "p"])
        .await
        .exits(5)
        .warns("has no history yet: Pending");
    fixture.run(&["delete", "p"]).await.exits(1).warns("has not ended");
    assert_eq!(fixture.json(&["delete", "p", "--force"]).await["instances"], 1);
    fixture.run(&["status", "p"]).await.exits(5);
    assert_eq!(
        fixture.json(&["stats"]).await["queues"]["orchestrator"],
        0,
        "the start is gone"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_instance_is_waited_for() {
    let mut fixture = Fixture::idle().await;
    fixture.json(&["start", "Echo", "--id", "p", "--input", "x"]).await;
    fixture.run_instances().await;
    let waited = fixture.json(&["wait", "p", "--timeout", "120"]).await;
    assert_eq!(
        (&waited["status"], &waited["input"]),
        (&json!("Completed"), &json!(null))
    );
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_instance_says_why() {
    let fixture = Fixture::idle().await;
    fixture.json(&["start", "Echo", "--id", "b"]).await;
    fixture.block("b").await;
    let blocked = json!({
        "cause": "unknown-name",
        "reason": "no deployed function registers `Echo`",
        "build": "b7",
        "since": "2023-11-14T22:13:20.000Z",
        "tries": 3,
        "nextTry": "2023-11-14T22:18:20.000Z",
    });
    let status = fixture.json(&["status", "b"]).await;
    assert_eq!((&status["status"], &status["blocked"]), (&json!("Blocked"), &blocked));
    let shown = fixture.run(&["status", "b"]).await.exits(0).out;
    for part in [
        "status         Blocked",
        "blocked        unknown-name, since 2023-11-14",
        "build b7; tries so far: 3",
        "no deployed function registers `Echo`",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let list = fixture.json(&["list", "--status", "blocked"]).await;
    assert_eq!(
        (
            list["instances"].as_array().unwrap().len(),
            &list["instances"][0]["blocked"]
        ),
        (1, &blocked)
    );
    let shown = fixture.run(&["list"]).await.exits(0).out;
    assert!(shown.contains("unknown-name: no deployed function"), "{shown}");
    assert_eq!(fixture.json(&["tree", "b"]).await["instances"][0]["blocked"], blocked);
    assert_eq!(fixture.json(&["stats"]).await["instances"]["blocked"], 1);
    fixture
        .run(&["wait", "b", "--timeout", "0.2"])
        .await
        .exits(4)
        .warns("(unknown-name, build b7): no deployed function registers `Echo`");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_paused_and_resumed_and_says_so() {
    let mut fixture = Fixture::idle().await;
    fixture.run(&["pause", "p"]).await.exits(5);
    fixture.run(&["resume", "p"]).await.exits(5);
    fixture.json(&["start", "Echo", "--id", "p", "--input", "x"]).await;
    let paused = fixture
        .json(&["pause", "p", "--children", "--reason", "the shop is down"])
        .await;
    assert_eq!(paused, json!({ "instance": "p", "changed": 1 }));
    let again = fixture.run(&["pause", "p"]).await.exits(0).out;
    assert_eq!(again, "p was paused before\n");
    let status = fixture.json(&["status", "p"]).await;
    assert_eq!(
        (&status["status"], &status["paused"]["reason"]),
        (&json!("Paused"), &json!("the shop is down"))
    );
    let shown = fixture.run(&["status", "p"]).await.exits(0).out;
    assert!(
        shown.contains("status         Paused\npaused         since "),
        "{shown}"
    );
    assert!(shown.contains("ago): the shop is down"), "{shown}");
    let list = fixture.json(&["list", "--status", "paused"]).await;
    assert_eq!(list["instances"][0]["paused"]["reason"], "the shop is down", "{list}");
    assert_eq!(fixture.json(&["stats"]).await["instances"]["paused"], 1);
    let waited = fixture.run(&["wait", "p", "--timeout", "0"]).await.exits(4);
    waited.warns("`resume` lets it go on");

    fixture.wakeups.take();
    assert_eq!(
        fixture.run(&["resume", "p", "--children"]).await.exits(0).out,
        "resumed 1 instances: p and its descendants\n"
    );
    assert_eq!(fixture.wakeups.take(), ["p"]);
    let again = fixture.run(&["resume", "p"]).await.exits(0).out;
    assert!(again.starts_with("p was not paused"), "{again}");
    fixture.run_instances().await;
    let waited = fixture.json(&["wait", "p", "--timeout", "120"]).await;
    assert_eq!(waited["status"], "Completed");
    fixture.run(&["pause", "p"]).await.exits(1).warns("has ended");
    fixture.stop().await;
}
