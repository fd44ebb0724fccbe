//! Writes whose answer is lost, while reads lag: the writer recognises its own write.

use cosmos_emulator::{Faults, Lag, Listener, ServerOptions};
use duroxide::providers::{Provider, TagFilter};
use duroxide_cosmos::{CosmosProvider, Fetched};
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{World, connect};

/// An instance with activity 2 and an event to take, and an instance that was only started, on a store whose reads lag;
/// and a process that knows neither.
async fn lagging() -> (World, Listener, Arc<CosmosProvider>) {
    let lag = Lag {
        min: Duration::from_millis(300),
        max: Duration::from_millis(600),
        seed: 7,
    };
    let world = World::local(ServerOptions {
        lag: Some(lag),
        ..ServerOptions::default()
    })
    .await;
    let provider = world.provider().await;
    begin_with(&provider, "i", 1, named()).await;
    enqueue(&provider, raised("i", "1")).await;
    enqueue(&provider, start_of("new")).await;
    world.server().catch_up().await;
    let listener = world.open_listener().await;
    let other = connect(world.builder_through(&listener)).await;
    (world, listener, other)
}

/// Reads lag, and the answer of the next write is lost.
fn next_answer_is_lost() -> Faults {
    Faults {
        seed: 8,
        lost_after: 1.0,
        writes_only: true,
        limit: Some(1),
        stale_reads: true,
        ..Faults::default()
    }
}

/// Fails unless the fault was met.
#[track_caller]
fn assert_one_lost(listener: &Listener) {
    let lost = listener.log().iter().filter(|record| record.status.is_none()).count();
    assert_eq!(lost, 1, "one answer was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_answer_is_lost_is_recognised_although_reads_lag() {
    for instance in ["i", "new"] {
        let (_world, listener, other) = lagging().await;
        listener.set_faults(next_answer_is_lost());
        let turn = other.fetch_turn(instance, LOCK, None).await;
        assert!(
            matches!(turn, Ok(Fetched::Ready(_))),
            "'{instance}' is claimed: {turn:?}"
        );
        assert_one_lost(&listener);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claimed_activity_whose_answer_is_lost_is_recognised_although_reads_lag() {
    let (_world, listener, other) = lagging().await;
    listener.set_faults(next_answer_is_lost());
    let claimed = other
        .fetch_work(&activity_id("i", 2), LOCK, None, &TagFilter::Any)
        .await;
    assert!(
        matches!(claimed, Ok(Fetched::Ready(_))),
        "the activity is claimed: {claimed:?}"
    );
    assert_one_lost(&listener);
}

/// The claim of a wakeup that names the version: it counts one attempt, whether its request or its answer was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_without_a_read_whose_answer_is_lost_is_recognised_although_reads_lag() {
    for faults in [
        next_answer_is_lost(),
        Faults {
            lost_after: 0.0,
            lost_before: 1.0,
            ..next_answer_is_lost()
        },
    ] {
        let (world, _, writer) = lagging().await;
        let works = written_work(&writer, "work", Decision::first("work", 1)).await;
        let listener = world.open_listener().await;
        let other = connect(world.builder_through(&listener)).await;
        listener.set_faults(faults);
        let claimed = other.fetch_written_work(&works[0], LOCK, None, &TagFilter::Any).await;
        let Ok(Fetched::Ready(claimed)) = claimed else {
            panic!("the activity is claimed: {claimed:?}");
        };
        assert_one_lost(&listener);
        assert_eq!(claimed.attempt, 1);
        listener.clear_faults();
        let doc = world.document("work", "w:1:2").await.expect("the item");
        assert_eq!(doc["attempts"], 1, "{doc}");
        let completed = other.ack_work_item(&claimed.lock_token, Some(done("work", 2))).await;
        completed.expect("the activity completes");
    }
}

/// Somebody claims the item between the lost attempt and the next: the claim is theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_first_attempt_was_lost_does_not_take_the_item_from_who_was_faster() {
    let (world, _, writer) = lagging().await;
    let works = written_work(&writer, "work", Decision::first("work", 1)).await;
    let listener = world.open_listener().await;
    let slow = connect(world.builder_through(&listener)).await;
    listener.set_faults(Faults {
        lost_after: 0.0,
        lost_before: 1.0,
        ..next_answer_is_lost()
    });
    listener.reset();
    let pause = listener.pause_when(|log| log.len() == 1);
    let faster = async {
        tests::until("the second attempt is there", async || pause.is_reached()).await;
        let claimed = writer.fetch_written_work(&works[0], LOCK, None, &TagFilter::Any).await;
        drop(pause);
        claimed
    };
    let (late, won) = futures::join!(slow.fetch_written_work(&works[0], LOCK, None, &TagFilter::Any), faster);
    assert!(matches!(won, Ok(Fetched::Ready(_))), "{won:?}");
    assert!(matches!(late, Ok(Fetched::Busy { .. })), "{late:?}");
    let doc = world.document("work", "w:1:2").await.expect("the item");
    assert_eq!(doc["attempts"], 1, "{doc}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_whose_answer_is_lost_is_recognised_although_reads_lag() {
    let (world, listener, other) = lagging().await;
    let claimed = work(&other, "i", 2).await;
    listener.set_faults(next_answer_is_lost());
    let completed = other.ack_work_item(&claimed.lock_token, Some(done("i", 2))).await;
    completed.expect("the result was recorded");
    assert_one_lost(&listener);
    assert!(world.documents_of("work").await.is_empty(), "the activity is done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_recognised_although_reads_lag() {
    let (world, listener, other) = lagging().await;
    let turn = turn(&other, "i").await;
    listener.set_faults(next_answer_is_lost());
    let committed = commit(&other, &turn.lock_token, Decision::of(vec![heard("i", 1, 3)])).await;
    committed.expect("the turn was committed");
    assert_one_lost(&listener);
    let lock = world.document("i", "instance").await.expect("the instance has a lock");
    assert!(lock["holder"].is_null(), "the lock is free: {lock:#}");
}
