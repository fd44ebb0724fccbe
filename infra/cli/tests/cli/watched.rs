//! `watch`, and how `wait` waits.

use crate::fixture::Fixture;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn watch_shows_events_until_the_end() {
    let fixture = Fixture::running().await;
    fixture.json(&["start", "Await", "--id", "w/1"]).await;
    fixture.until_running("w/1").await;
    let (watched, ()) = tokio::join!(fixture.run(&["watch", "w/1", "--timeout", "120"]), async {
        fixture.json(&["raise", "w/1", "go", "now"]).await;
    });
    let watched = watched.exits(0).out;
    let lines: Vec<&str> = watched.lines().collect();
    assert_eq!(lines[0], "w/1 (Await), execution 1");
    for part in [
        "OrchestrationStarted",
        "CustomStatusUpdated  waiting",
        "ExternalSubscribed  go",
        "ExternalEvent",
        "OrchestrationCompleted  now",
    ] {
        assert_eq!(watched.matches(part).count(), 1, "{part}: {watched}");
    }
    assert!(lines.last().unwrap().starts_with("Completed after "), "{watched}");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_has_a_json_value_per_line_and_the_exit_code_of_the_end() {
    let fixture = Fixture::running().await;
    fixture
        .run(&["start", "Unlucky", "--id", "u", "--wait", "120"])
        .await
        .exits(3);
    let watched = fixture.run(&["watch", "u", "--json"]).await.exits(3).out;
    // The last value is indented, as of all commands.
    let values: Vec<Value> = serde_json::Deserializer::from_str(&watched)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let (end, events) = values.split_last().unwrap();
    assert_eq!(events[0]["event"]["type"], "OrchestrationStarted", "{watched}");
    assert_eq!(events.len(), 2, "{watched}");
    assert_eq!(end["instance"]["status"], "Failed");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_times_out_and_unknown_instances_are_not_found() {
    let fixture = Fixture::running().await;
    fixture.json(&["start", "Await", "--id", "w"]).await;
    fixture
        .run(&["watch", "w", "--timeout", "0.5"])
        .await
        .exits(4)
        .warns("has not finished after 0.5 s");
    fixture
        .run(&["watch", "nobody", "--timeout", "0.2"])
        .await
        .exits(5)
        .warns("was not found");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_of_seconds_costs_few_requests() {
    let fixture = Fixture::idle().await;
    fixture.json(&["start", "Await", "--id", "w"]).await;
    fixture.server.listener().reset();
    fixture.run(&["wait", "w", "--timeout", "5"]).await.exits(4);
    let requests = fixture.server.listener().counts().requests;
    // One look at once (with its input, as long as it is pending), then one long poll of five reads at most.
    assert!(requests <= 10, "{requests}");
}
