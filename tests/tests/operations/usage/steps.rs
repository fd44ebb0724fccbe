//! Steps by hand: every request is counted once, and a crash loses what is documented.

use super::support::*;
use cosmos_emulator::{Faults, ServerOptions};
use duroxide::EventKind;
use duroxide::providers::{Provider as _, ProviderAdmin as _};
use duroxide_cosmos::{Fetched, TurnDecision};
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World};

const I: &str = "order";

fn completed(id: u64, activity: u64) -> duroxide::Event {
    let kind = EventKind::ActivityCompleted {
        result: "out".to_owned(),
    };
    duroxide::Event::with_event_id(id, I, 1, Some(activity), kind)
}

async fn scene() -> (World, Arc<ManualClock>) {
    let world = World::local(ServerOptions::default()).await;
    (world, Arc::new(ManualClock::default()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_of_one_process_is_counted_but_the_answer_of_the_last_commit() {
    let (world, clock) = scene().await;
    let (listener, provider) = world.process_at(&clock).await;
    begin_with(&provider, I, 2, named()).await;
    clock.advance(Duration::from_secs(5));
    for id in [2, 3] {
        let claimed = work(&provider, I, id).await;
        clock.advance(Duration::from_secs(2));
        let done = provider.ack_work_item(&claimed.lock_token, Some(done(I, id))).await;
        done.expect("it completes");
    }
    let turn = turn(&provider, I).await;
    clock.advance(Duration::from_secs(1));
    let before = Store::counted([&listener]);
    let decision = Decision {
        metadata: ended("Completed", "ok"),
        ..Decision::of(vec![completed(4, 2), completed(5, 3)])
    };
    commit(&provider, &turn.lock_token, decision).await.expect("it commits");
    let usage = usage_of(&provider, I).await;
    assert_eq!(Store::of(usage), before.and_commit());
    assert_eq!(
        (usage.turns, usage.activities, usage.attempts, usage.wakeups),
        (2, 2, 2, 0),
        "nobody sends wakeups here"
    );
    assert_eq!((usage.turn_ms, usage.activity_ms), (1_000, 4_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn released_attempts_are_counted_and_the_requests_of_a_killed_one_are_lost() {
    let (world, clock) = scene().await;
    let (listener, provider) = world.process_at(&clock).await;
    begin_with(&provider, I, 1, named()).await;
    let first = work(&provider, I, 2).await;
    clock.advance(Duration::from_secs(3));
    let released = provider.abandon_work_item(&first.lock_token, None, false).await;
    released.expect("it is released");
    let known = Store::counted([&listener]);
    let (killed, victim) = world.process_at(&clock).await;
    work(&victim, I, 2).await;
    drop(victim);
    clock.advance(LATER);
    let third = work(&provider, I, 2).await;
    clock.advance(Duration::from_secs(1));
    let completed_now = provider.ack_work_item(&third.lock_token, Some(done(I, 2))).await;
    completed_now.expect("it completes");
    let turn = turn(&provider, I).await;
    let before = Store::counted([&listener]);
    let last = Decision::of(vec![completed(3, 2)]);
    commit(&provider, &turn.lock_token, last).await.expect("it commits");
    let usage = usage_of(&provider, I).await;
    assert_eq!(Store::of(usage), before.and_commit());
    assert!(known.requests < before.requests && Store::counted([&killed]).requests > 0);
    assert_eq!((usage.activities, usage.attempts), (1, 3));
    assert_eq!(usage.activity_ms, 4_000, "nobody knows how long the killed one ran");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_raced_turn_has_spent_is_counted_by_the_next_turn_of_its_process() {
    let (world, clock) = scene().await;
    let (first, winner) = world.process_at(&clock).await;
    let (second, loser) = world.process_at(&clock).await;
    begin(&winner, I).await;
    enqueue(&winner, raised(I, "a")).await;
    let begun = async |provider: &duroxide_cosmos::CosmosProvider| {
        ready(provider.begin_turn(I, None, LOCK, None).await.expect("a fetch"))
    };
    let (won, lost) = (begun(&winner).await, begun(&loser).await);
    let decision = |id: u64| TurnDecision {
        execution: 1,
        events: vec![heard(I, 1, id)],
        metadata: named(),
        ..TurnDecision::default()
    };
    let commit = winner.commit_turn(&won.lock_token, decision(2));
    commit.done.await.expect("the first wins");
    let raced = loser.commit_turn(&lost.lock_token, decision(2));
    raced.done.await.expect_err("the second loses");
    assert!(raced.decided.is_raced());
    let turns = usage_of(&winner, I).await.turns;
    assert_eq!(turns, 2, "a raced turn is no turn");
    // The late usage of the winner's commit comes with a wakeup.
    loser.absorb_late_usage(I, &winner.late_usage(I));
    loser.absorb_late_usage(I, &winner.late_usage(I));
    enqueue(&loser, raised(I, "b")).await;
    let next = begun(&loser).await;
    let before = Store::counted([&first, &second]);
    let commit = loser.commit_turn(&next.lock_token, decision(3));
    commit.done.await.expect("it commits");
    // Reading the summary above was no request of a step.
    let shown = 1;
    let usage = usage_of(&loser, I).await;
    assert_eq!(usage.requests, before.and_commit().requests - shown);
    assert_eq!(usage.turns, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_many_batches_is_counted_as_what_it_is() {
    let (world, clock) = scene().await;
    let (listener, provider) = world.process_at(&clock).await;
    begin_with(&provider, I, 250, named()).await;
    assert!(listener.counts().batches > 3, "it was staged");
    enqueue(&provider, raised(I, "a")).await;
    let turn = turn(&provider, I).await;
    let before = Store::counted([&listener]);
    let decision = Decision::of(vec![heard(I, 1, 252)]);
    commit(&provider, &turn.lock_token, decision).await.expect("it commits");
    assert_eq!(Store::of(usage_of(&provider, I).await), before.and_commit());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_after_its_commit_loses_the_charge_of_that_commit_only() {
    let (world, clock) = scene().await;
    let (first, victim) = world.process_at(&clock).await;
    enqueue(&victim, start_of(I)).await;
    let begun = turn(&victim, I).await;
    let read = Store::counted([&first]);
    commit(&victim, &begun.lock_token, Decision::first(I, 0))
        .await
        .expect("it commits");
    drop(victim);
    let (second, provider) = world.process_at(&clock).await;
    enqueue(&provider, raised(I, "a")).await;
    let next = turn(&provider, I).await;
    let before = Store::counted([&second]);
    commit(&provider, &next.lock_token, Decision::of(vec![heard(I, 1, 2)]))
        .await
        .expect("it commits");
    let usage = usage_of(&provider, I).await;
    assert_eq!(usage.requests, read.requests + 1 + before.requests + 1);
    assert_eq!(
        usage.milli_request_units,
        read.milli_request_units + before.milli_request_units
    );
    assert_eq!(usage.turns, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetches_that_find_nothing_are_counted_by_the_next_turn_of_their_process() {
    let (world, clock) = scene().await;
    let (listener, provider) = world.process_at(&clock).await;
    begin(&provider, I).await;
    for _ in 0..3 {
        assert!(matches!(fetch_turn(&provider, I).await, Fetched::Nothing));
    }
    enqueue(&provider, raised(I, "a")).await;
    let turn = turn(&provider, I).await;
    let before = Store::counted([&listener]);
    commit(&provider, &turn.lock_token, Decision::of(vec![heard(I, 1, 2)]))
        .await
        .expect("it commits");
    assert_eq!(Store::of(usage_of(&provider, I).await), before.and_commit());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_whose_answers_are_lost_are_counted_once_with_their_repetitions() {
    let lost = Faults {
        seed: 8,
        lost_after: 1.0,
        writes_only: true,
        limit: Some(1),
        ..Faults::default()
    };
    let (world, clock) = scene().await;
    let (listener, provider) = world.process_at(&clock).await;
    begin_with(&provider, I, 1, named()).await;
    let claimed = work(&provider, I, 2).await;
    listener.set_faults(lost.clone());
    let done = provider.ack_work_item(&claimed.lock_token, Some(done(I, 2))).await;
    done.expect("the message shows that it was written");
    let first = turn(&provider, I).await;
    listener.set_faults(lost);
    commit(&provider, &first.lock_token, Decision::of(vec![completed(3, 2)]))
        .await
        .expect("the instance shows that it was written");
    let lost = listener.log().iter().filter(|record| record.status.is_none()).count();
    assert_eq!(lost, 2, "both answers were lost");
    listener.clear_faults();
    enqueue(&provider, raised(I, "a")).await;
    let last = turn(&provider, I).await;
    let before = Store::counted([&listener]);
    commit(&provider, &last.lock_token, Decision::of(vec![heard(I, 1, 4)]))
        .await
        .expect("it commits");
    let usage = usage_of(&provider, I).await;
    assert_eq!(usage.requests, before.and_commit().requests);
    // Nobody told the process what the lost ones were charged.
    Store::of(usage).is_within(before.and_commit());
    assert_eq!((usage.turns, usage.activities, usage.attempts), (3, 1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_takes_the_id_of_a_deleted_one_begins_at_nothing() {
    let (world, clock) = scene().await;
    let (_, provider) = world.process_at(&clock).await;
    begin_with(&provider, I, 0, ended("Completed", "ok")).await;
    assert_eq!(usage_of(&provider, I).await.turns, 1);
    provider.delete_instance(I, false).await.expect("it is deleted");
    enqueue(&provider, start_of(I)).await;
    let summary = provider.instance_summary(I).await.expect("the store answers");
    assert_eq!(summary.expect("it is pending").usage, None);
    let turn = turn(&provider, I).await;
    commit(&provider, &turn.lock_token, Decision::first(I, 0))
        .await
        .expect("it commits");
    let usage = usage_of(&provider, I).await;
    assert_eq!((usage.turns, usage.requests), (1, 4), "start, read, claim, commit");
}
