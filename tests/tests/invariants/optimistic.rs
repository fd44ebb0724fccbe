//! Turns without a claim: of several that run the same turn one commits, and whoever must be counted is.

use cosmos_emulator::{Lag, RequestKind, ServerOptions};
use duroxide::providers::Provider as _;
use duroxide_cosmos::{CosmosProvider, Fetched, PendingCommit, TurnDecision, TurnItem};
use std::sync::Arc;
use std::time::Duration;
use tests::World;
use tests::turns::*;

async fn begin_turn(provider: &CosmosProvider, instance: &str) -> Fetched<TurnItem> {
    let begun = provider.begin_turn(instance, None, LOCK, None).await;
    begun.expect("the fetch succeeds")
}

/// Commits like a function. Returns whether it was written, and whether another was faster.
async fn outcome_of(commit: PendingCommit<'_>) -> (bool, bool) {
    let done = commit.done.await;
    assert_eq!(done.is_ok(), commit.decided.is_set(), "{done:?}");
    (commit.decided.is_set(), commit.decided.is_raced())
}

fn decision(decided: Decision) -> TurnDecision {
    TurnDecision {
        execution: decided.execution,
        events: decided.events,
        work: decided.work,
        messages: decided.messages,
        metadata: decided.metadata,
        ..TurnDecision::default()
    }
}

const WRITTEN: (bool, bool) = (true, false);
const RACED: (bool, bool) = (false, true);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_that_run_the_same_turn_one_commits() {
    let world = World::start().await;
    let providers = futures::future::join_all((0..8).map(|_| world.provider())).await;
    enqueue(&providers[0], start_of("i")).await;
    let mut turns = Vec::new();
    for n in 0..200 {
        let provider = Arc::clone(&providers[n % providers.len()]);
        turns.push((ready(begin_turn(&provider, "i").await), provider));
    }
    let commits = turns
        .iter()
        .map(|(turn, provider)| outcome_of(provider.commit_turn(&turn.lock_token, decision(Decision::first("i", 3)))));
    let outcomes = futures::future::join_all(commits).await;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == WRITTEN).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == RACED).count(), 199);
    assert_eq!(world.documents_of("history").await.len(), 1);
    assert_eq!(world.documents_of("work").await.len(), 3);
    let (turn, provider) = &turns[0];
    let late = provider.commit_turn(&turn.lock_token, decision(Decision::first("i", 3)));
    assert!(late.done.await.is_err(), "a token that has lost stays lost");
}

#[tokio::test]
async fn a_commit_of_many_batches_claims_first_and_only_the_winner_stages() {
    let world = World::start().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let (one, two) = (
        ready(begin_turn(&provider, "i").await),
        ready(begin_turn(&provider, "i").await),
    );
    world.listener().reset();
    let wide = || decision(Decision::first("i", 300));
    assert_eq!(outcome_of(provider.commit_turn(&one.lock_token, wide())).await, WRITTEN);
    let first = world.listener().log().first().map(|record| record.kind);
    assert_eq!(first, Some(RequestKind::Replace), "the claim");
    world.listener().reset();
    assert_eq!(outcome_of(provider.commit_turn(&two.lock_token, wide())).await, RACED);
    assert_eq!(world.listener().counts().requests, 1, "{:?}", world.listener().log());
    assert_eq!(world.documents_of("work").await.len(), 300);
    assert!(world.documents_of("staged").await.is_empty());
}

#[tokio::test]
async fn a_turn_that_is_given_back_without_a_claim_is_counted_and_claimed_the_next_time() {
    let world = World::start().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    for attempt in 1..4 {
        let turn = ready(begin_turn(&provider, "i").await);
        assert_eq!(turn.attempt, attempt);
        let instance = world.document("i", "instance").await.expect("it was started");
        assert_eq!(
            instance["holder"].is_null(),
            attempt == 1,
            "only the first is not claimed"
        );
        let given_back = provider.abandon_orchestration_item(&turn.lock_token, None, false);
        given_back.await.expect("it is given back");
    }
    let turn = ready(begin_turn(&provider, "i").await);
    let put_off = provider.abandon_orchestration_item(&turn.lock_token, Some(Duration::from_secs(60)), true);
    put_off.await.expect("it is put off");
    assert!(matches!(begin_turn(&provider, "i").await, Fetched::Nothing));
}

#[tokio::test]
async fn whoever_gives_back_a_turn_that_another_has_committed_changes_nothing() {
    let world = World::start().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let (late, first) = (
        ready(begin_turn(&provider, "i").await),
        ready(begin_turn(&provider, "i").await),
    );
    let committed = provider.commit_turn(&first.lock_token, decision(Decision::first("i", 1)));
    assert_eq!(outcome_of(committed).await, WRITTEN);
    let before = snapshot(&world).await;
    let delay = Some(Duration::from_secs(5));
    let given_back = provider.abandon_orchestration_item(&late.lock_token, delay, false);
    given_back.await.expect("there is nothing to give back");
    assert_eq!(snapshot(&world).await, before);
}

/// Every replica but the newest shows the instance as it was before.
#[tokio::test]
async fn a_turn_that_read_from_a_lagging_replica_cannot_commit() {
    let server = ServerOptions {
        lag: Some(Lag {
            min: Duration::from_secs(30),
            max: Duration::from_secs(60),
            seed: 3,
        }),
        ..ServerOptions::default()
    };
    let world = World::local(server).await;
    let (fresh, stale) = (world.provider().await, world.provider().await);
    begin_with(&fresh, "i", 1, named()).await;
    enqueue(&fresh, raised("i", "1")).await;
    // This is all that the other process has seen: the event, and the turn before it.
    if let Some(token) = fresh.recent_consistency_token(2_000) {
        stale.absorb_consistency_token(&token);
    }
    let old = ready(begin_turn(&stale, "i").await);
    let new = ready(begin_turn(&fresh, "i").await);
    let heard_once = || decision(Decision::of(vec![heard("i", 1, 3)]));
    assert_eq!(
        outcome_of(fresh.commit_turn(&new.lock_token, heard_once())).await,
        WRITTEN
    );
    enqueue(&fresh, raised("i", "2")).await;
    assert_eq!(
        outcome_of(stale.commit_turn(&old.lock_token, heard_once())).await,
        RACED
    );
    // The refusal was as new as the store: the next read is, too.
    let again = ready(begin_turn(&stale, "i").await);
    assert_eq!((again.item.history.len(), again.item.messages.len()), (3, 1));
    assert_eq!(fresh.read("i").await.expect("a history").len(), 3);
}

#[tokio::test]
async fn a_known_history_of_an_instance_that_was_deleted_and_started_again_is_not_used() {
    let world = World::start().await;
    let (one, other) = (world.provider().await, world.provider().await);
    begin_with(&one, "i", 2, named()).await;
    enqueue(&one, raised("i", "1")).await;
    assert_eq!(ready(begin_turn(&one, "i").await).item.history.len(), 3);
    let admin = other.as_management_capability().expect("it manages");
    admin.delete_instance("i", true).await.expect("it is deleted");
    begin_with(&other, "i", 4, named()).await;
    enqueue(&other, raised("i", "2")).await;
    let turn = ready(begin_turn(&one, "i").await);
    let same = other.read("i").await.expect("a history");
    assert_eq!((turn.item.history.len(), turn.turn), (5, 2));
    assert_eq!(format!("{:?}", turn.item.history), format!("{same:?}"));
}

/// The other process commits turns in between: what is known is then a part of the history.
#[tokio::test]
async fn a_known_history_grows_by_what_others_have_committed() {
    let world = World::start().await;
    let (one, other) = (world.provider().await, world.provider().await);
    begin(&one, "i").await;
    for n in 0..6 {
        enqueue(&one, raised("i", "x")).await;
        let provider = if n % 3 == 2 { &one } else { &other };
        world.listener().reset();
        let turn = ready(begin_turn(provider, "i").await);
        assert_eq!(world.listener().counts().requests, 1, "{:?}", world.listener().log());
        let ids: Vec<u64> = turn.item.history.iter().map(duroxide::Event::event_id).collect();
        assert_eq!(ids, (1..2 + n).collect::<Vec<u64>>());
        let next = decision(Decision::of(vec![heard("i", 1, 2 + n)]));
        assert_eq!(outcome_of(provider.commit_turn(&turn.lock_token, next)).await, WRITTEN);
    }
}

/// A long history is read once: later turns return as many documents as they need, whatever is stored.
#[tokio::test]
async fn a_warm_process_reads_only_what_is_new() {
    let world = World::start().await;
    let provider = world.provider().await;
    begin(&provider, "i").await;
    let mut read = Vec::new();
    for n in 0..40 {
        enqueue(&provider, raised("i", "x")).await;
        world.listener().reset();
        let turn = ready(begin_turn(&provider, "i").await);
        read.push(world.listener().counts().response_bytes);
        let next = decision(Decision::of(vec![heard("i", 1, 2 + n)]));
        assert_eq!(outcome_of(provider.commit_turn(&turn.lock_token, next)).await, WRITTEN);
    }
    let (least, most) = (read.iter().min(), read.iter().max());
    assert!(most < least.map(|least| least + 500).as_ref(), "{read:?}");
}

#[tokio::test]
async fn a_started_instance_has_a_pending_document_and_does_not_exist_for_duroxide() {
    let world = World::start().await;
    let provider = world.provider().await;
    world.listener().reset();
    enqueue(&provider, start_of("i")).await;
    assert_eq!(world.listener().counts().requests, 1, "one batch");
    let instance = world.document("i", "instance").await.expect("it was started");
    assert_eq!(
        (&instance["startName"], &instance["name"]),
        (&"Sample".into(), &serde_json::Value::Null)
    );
    let admin = provider.as_management_capability().expect("it manages");
    assert!(admin.list_instances().await.expect("a list").is_empty());
    assert!(admin.get_instance_info("i").await.is_err());
    assert!(provider.read("i").await.expect("no history").is_empty());
    // A second start is one more message.
    enqueue(&provider, start_of("i")).await;
    assert_eq!(world.documents_of("message").await.len(), 2);
}
