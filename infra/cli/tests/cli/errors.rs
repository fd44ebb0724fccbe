//! Errors: on stderr, in time, each kind with its exit code.

use crate::fixture::{Fixture, LONG, dead_address};
use std::time::Instant;

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_instance_is_not_found() {
    let fixture = Fixture::running().await;
    for command in [
        &["status", "nobody"][..],
        &["history", "nobody"],
        &["tree", "nobody"],
        &["delete", "nobody"],
        &["delete", "nobody", "--force"],
        &["prune", "nobody"],
        &["wait", "nobody", "--timeout", "0.2"],
        &["raise", "nobody", "go"],
        &["enqueue", "nobody", "notes", "x"],
        &["cancel", "nobody"],
        &["status", "--json", "nobody"],
        &["status", "no\u{1b}[2Jbody"],
    ] {
        let ran = fixture.run(command).await.exits(5).warns("was not found");
        assert_eq!(ran.out, "", "{command:?}");
        assert!(!ran.err.contains('\u{1b}'), "{ran:?}");
    }
    assert_eq!(
        fixture.json(&["stats"]).await["queues"]["orchestrator"],
        0,
        "nothing was queued"
    );
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_for_a_finished_instance_is_refused() {
    let fixture = Fixture::running().await;
    fixture.json(&["start", "Echo", "--id", "over", "--wait", "120"]).await;
    for command in [
        &["raise", "over", "go"][..],
        &["enqueue", "over", "notes"],
        &["cancel", "over"],
    ] {
        fixture.run(command).await.exits(1).warns("has ended");
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_instance_times_out_and_is_deleted_only_by_force() {
    let fixture = Fixture::running().await;
    let ran = fixture
        .run(&["start", "Await", "--id", "w", "--wait", "1", "--json"])
        .await
        .exits(4);
    assert_eq!(ran.out, "");
    fixture.until_running("w").await;
    fixture
        .run(&["wait", "w", "--timeout", "0.1"])
        .await
        .exits(4)
        .warns("has not finished after 0.1 s: Running");
    fixture
        .run(&["delete", "w"])
        .await
        .exits(1)
        .warns("delete it with force");
    assert_eq!(fixture.json(&["delete", "w", "--force"]).await["instances"], 1);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_exits_with_2_and_sends_no_request() {
    let fixture = Fixture::idle().await;
    fixture.server.listener().reset();
    for command in [
        &["status", ""][..],
        &["start"],
        &["start", "", "--id", "x"],
        &["raise", "i"],
        &["wait", "i", "--timeout", "-1"],
        &["list", "--limit", "many"],
        &["dead-letters", "redrive", "i"],
        &["nonsense"],
    ] {
        let ran = fixture.run(command).await.exits(2);
        assert!(ran.out.is_empty() && ran.err.contains("error:"), "{ran:?}");
    }
    assert_eq!(fixture.server.listener().counts().requests, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_and_ids_that_the_api_refuses_are_reported() {
    let fixture = Fixture::idle().await;
    let huge = "x".repeat(3 << 20);
    let ran = fixture
        .run_with(&["start", "Echo", "--id", "huge", "--input", "-"], &huge)
        .await;
    ran.exits(1).warns("large");
    let long = "i".repeat(2_100);
    fixture
        .run(&["start", "Echo", "--id", &long])
        .await
        .exits(1)
        .warns("1024");
    fixture
        .run(&["start", "Echo", "--input", "@/no/such/file"])
        .await
        .exits(1)
        .warns("cannot be read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_answer_is_reported_in_time() {
    let fixture = Fixture::idle().await;
    fixture.server.listener().set_faults(cosmos_emulator::Faults {
        throttled: 1.0,
        ..cosmos_emulator::Faults::default()
    });
    let begun = Instant::now();
    fixture.run(&["status", "i"]).await.exits(1).warns("store");
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_does_not_answer_times_out() {
    let mut fixture = Fixture::idle().await;
    fixture.set("DUROXIDE_LAMBDA_URL", dead_address());
    let begun = Instant::now();
    for command in [
        &["status", "i"][..],
        &["wait", "i", "--timeout", "3600"],
        &["start", "Echo"],
    ] {
        fixture.run(command).await.exits(1).warns("does not answer");
    }
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
}
