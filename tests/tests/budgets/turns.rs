//! Fetching and committing turns.

use crate::*;

#[tokio::test]
async fn a_turn_is_claimed_with_two_requests_and_begun_with_one() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let (turn, cost) = cost_of(world.listener(), begin_turn(&provider, "i")).await;
    assert_eq!(ready(turn).item.messages.len(), 1);
    cost.is(1, 1);
    let (turn, cost) = cost_of(world.listener(), fetch(&provider, "i")).await;
    assert_eq!(ready(turn).item.messages.len(), 1);
    cost.is(2, 2);
}

#[tokio::test]
async fn a_later_turn_costs_as_much_as_the_first() {
    let world = world().await;
    let provider = world.provider().await;
    begun(&provider, "i", 5).await;
    enqueue(&provider, raised("i", "1")).await;
    let (turn, cost) = cost_of(world.listener(), begin_turn(&provider, "i")).await;
    assert_eq!(ready(turn).item.history.len(), 6);
    cost.is(1, 1);
    let (turn, cost) = cost_of(world.listener(), fetch(&provider, "i")).await;
    assert_eq!(ready(turn).item.history.len(), 6);
    cost.is(2, 2);
}

#[tokio::test]
async fn a_process_that_never_saw_the_instance_fetches_as_cheaply() {
    let world = world().await;
    let (first, second) = (world.provider().await, world.provider().await);
    begun(&first, "i", 5).await;
    enqueue(&first, raised("i", "1")).await;
    let (turn, cost) = cost_of(world.listener(), begin_turn(&second, "i")).await;
    assert_eq!(ready(turn).item.history.len(), 6);
    cost.is(1, 1);
}

#[tokio::test]
async fn a_turn_that_takes_fifty_messages_costs_as_much_as_one_that_takes_one() {
    let world = world().await;
    let provider = world.provider().await;
    begun(&provider, "i", 0).await;
    for _ in 0..50 {
        enqueue(&provider, raised("i", "1")).await;
    }
    let (turn, cost) = cost_of(world.listener(), fetch(&provider, "i")).await;
    let turn = ready(turn);
    assert_eq!(turn.item.messages.len(), 50);
    cost.is_within(3, 2);
    let decision = Decision::of(vec![heard("i", 1, 2)]);
    let ((), cost) = cost_of(world.listener(), commit(&provider, &turn.lock_token, decision)).await;
    cost.is(1, 1);
    assert!(world.documents_of("message").await.is_empty(), "all fifty are consumed");
}

#[tokio::test]
async fn a_commit_of_eighty_activities_is_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let turn = ready(fetch(&provider, "i").await);
    let ((), cost) = cost_of(
        world.listener(),
        commit(&provider, &turn.lock_token, Decision::first("i", 80)),
    )
    .await;
    cost.is(1, 1);
    assert_eq!((cost.counts.batches, world.documents_of("work").await.len()), (1, 80));
}

#[tokio::test]
async fn a_commit_of_ninety_documents_is_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let turn = ready(fetch(&provider, "i").await);
    // With the instance, its history and the consumed start: 93 operations.
    let ((), cost) = cost_of(
        world.listener(),
        commit(&provider, &turn.lock_token, Decision::first("i", 90)),
    )
    .await;
    cost.is(1, 1);
    assert_eq!(cost.counts.batch_operations, 93);
}

#[tokio::test]
async fn a_fan_out_to_a_thousand_activities_commits_in_few_requests() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let turn = ready(fetch(&provider, "i").await);
    world.listener().reset();
    commit(&provider, &turn.lock_token, Decision::first("i", 1_000)).await;
    let counts = world.listener().counts();
    // 1 look at the consumed message, 1 batch that stages, 1 that decides, 10 publications.
    assert!(
        counts.batches <= 12,
        "batches of a commit of 1,000 activities: {counts:?}"
    );
    assert!(
        counts.requests <= 13,
        "requests of a commit of 1,000 activities: {counts:?}"
    );
    assert_eq!(counts.cross_partition_queries, 0);
    assert_eq!(world.documents_of("work").await.len(), 1_000);
    assert_eq!(
        world.documents_of("staged").await.len() + world.documents_of("staged-head").await.len(),
        0
    );
}

#[tokio::test]
async fn a_child_start_adds_its_delivery_and_the_removal_of_the_intent() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("parent")).await;
    let turn = ready(fetch(&provider, "parent").await);
    let mut decision = Decision::first("parent", 0);
    let scheduled = EventKind::SubOrchestrationScheduled {
        name: "Sample".to_owned(),
        instance: "child".to_owned(),
        input: "{}".to_owned(),
    };
    decision.events.push(event("parent", 1, 2, scheduled));
    decision.messages.push(WorkItem::StartOrchestration {
        instance: "child".to_owned(),
        orchestration: "Sample".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: Some("parent".to_owned()),
        parent_id: Some(2),
        parent_execution_id: Some(1),
        execution_id: 1,
    });
    let ((), cost) = cost_of(world.listener(), commit(&provider, &turn.lock_token, decision)).await;
    cost.is(3, 3);
    assert!(world.documents_of("intent").await.is_empty());
    assert_eq!(world.documents_of("message").await.len(), 1, "the child can begin");
}

/// The turns of a fan-in spread over environments: each commit makes the copies of the others old, not useless.
#[tokio::test]
async fn environments_that_take_turns_read_only_what_the_others_have_committed() {
    const ENVIRONMENTS: u64 = 4;
    const TURNS: u64 = 40;
    let world = world().await;
    let mut fleet = Vec::new();
    for _ in 0..ENVIRONMENTS {
        fleet.push(world.provider().await);
    }
    begun(&fleet[0], "i", 200).await;
    let mut bytes = Vec::new();
    for (n, provider) in (0..TURNS).zip(fleet.iter().cycle()) {
        enqueue(provider, raised("i", "1")).await;
        let (turn, cost) = cost_of(world.listener(), begin_turn(provider, "i")).await;
        let turn = ready(turn);
        assert_eq!(turn.item.history.len() as u64, 201 + n);
        bytes.push(cost.counts.response_bytes);
        let decision = Decision::of(vec![heard("i", 1, 202 + n)]);
        commit(provider, &turn.lock_token, decision).await;
    }
    let (first, later) = bytes.split_at(ENVIRONMENTS as usize);
    let whole = first[1..].iter().min().expect("three environments begin cold");
    let most = later.iter().max().expect("there are later turns");
    assert!(
        most * 10 < *whole,
        "a cold read has {whole} bytes, a later one {most}: {bytes:?}"
    );
}
