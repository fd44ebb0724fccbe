//! Wakeups, activities and locks of single steps, and one whole orchestration.

use crate::*;

#[tokio::test]
async fn a_wakeup_that_finds_nothing_costs_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    let (nothing, cost) = cost_of(world.listener(), fetch(&provider, "unknown")).await;
    assert!(matches!(nothing, Fetched::Nothing), "{nothing:?}");
    cost.is(1, 1);

    begun(&provider, "i", 1).await;
    let (nothing, cost) = cost_of(world.listener(), fetch(&provider, "i")).await;
    assert!(matches!(nothing, Fetched::Nothing), "{nothing:?}");
    cost.is(1, 1);

    let (nothing, cost) = cost_of(world.listener(), fetch_work(&provider, "i", 99)).await;
    assert!(matches!(nothing, Fetched::Nothing), "{nothing:?}");
    cost.is(1, 1);
}

#[tokio::test]
async fn a_wakeup_that_meets_a_lock_costs_one_request() {
    let world = world().await;
    let (holder, other) = (world.provider().await, world.provider().await);
    begun(&holder, "i", 1).await;
    enqueue(&holder, raised("i", "1")).await;
    ready(fetch(&holder, "i").await);
    for provider in [&holder, &other] {
        let (busy, cost) = cost_of(world.listener(), fetch(provider, "i")).await;
        assert!(matches!(busy, Fetched::Busy { .. }), "{busy:?}");
        cost.is(1, 1);
    }
    ready(fetch_work(&holder, "i", 2).await);
    for provider in [&holder, &other] {
        let (busy, cost) = cost_of(world.listener(), fetch_work(provider, "i", 2)).await;
        assert!(matches!(busy, Fetched::Busy { .. }), "{busy:?}");
        cost.is(1, 1);
    }
}

#[tokio::test]
async fn an_activity_whose_wakeup_names_its_version_takes_two_requests() {
    let world = world().await;
    let (orchestrator, worker) = (world.provider().await, world.provider().await);
    let works = written_work(&orchestrator, "i", Decision::first("i", 1)).await;
    let ((), cost) = cost_of(world.listener(), async {
        let claimed = worker.fetch_written_work(&works[0], LOCK, None, &TagFilter::Any).await;
        complete(&worker, &ready(claimed.expect("the fetch succeeds")), "i", 2).await;
    })
    .await;
    cost.is(2, 2);
    // The item is claimed, deleted, and its result is created.
    assert_eq!(cost.counts.documents_written, 3, "{cost:?}");
    assert_eq!(world.documents_of("message").await.len(), 1, "its result is queued");
}

#[tokio::test]
async fn an_activity_without_a_version_is_fetched_and_completed_with_three_requests() {
    let world = world().await;
    let (orchestrator, worker) = (world.provider().await, world.provider().await);
    begun(&orchestrator, "i", 1).await;
    let ((), cost) = cost_of(world.listener(), async {
        let claimed = ready(fetch_work(&worker, "i", 2).await);
        complete(&worker, &claimed, "i", 2).await;
    })
    .await;
    cost.is_within(3, 3);
    assert_eq!(world.documents_of("message").await.len(), 1, "its result is queued");
}

#[tokio::test]
async fn a_renewal_is_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    begun(&provider, "i", 1).await;
    enqueue(&provider, raised("i", "1")).await;
    let turn = ready(fetch(&provider, "i").await);
    let claimed = ready(fetch_work(&provider, "i", 2).await);
    for _ in 0..2 {
        let (renewed, cost) = cost_of(
            world.listener(),
            provider.renew_orchestration_item_lock(&turn.lock_token, LOCK),
        )
        .await;
        renewed.expect("the turn is renewed");
        cost.is(1, 1);
        let (renewed, cost) = cost_of(
            world.listener(),
            provider.renew_work_item_lock(&claimed.lock_token, LOCK),
        )
        .await;
        renewed.expect("the activity is renewed");
        cost.is(1, 1);
    }
    // What was renewed commits as cheaply as ever.
    let ((), cost) = cost_of(world.listener(), commit(&provider, &turn.lock_token, last("i"))).await;
    cost.is(1, 1);
    let ((), cost) = cost_of(world.listener(), complete(&provider, &claimed, "i", 2)).await;
    cost.is(1, 1);
}

#[tokio::test]
async fn abandoning_is_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    begun(&provider, "i", 1).await;
    enqueue(&provider, raised("i", "1")).await;
    let turn = ready(fetch(&provider, "i").await);
    let (done, cost) = cost_of(
        world.listener(),
        provider.abandon_orchestration_item(&turn.lock_token, None, false),
    )
    .await;
    done.expect("the turn is abandoned");
    cost.is(1, 1);
    let claimed = ready(fetch_work(&provider, "i", 2).await);
    let (done, cost) = cost_of(
        world.listener(),
        provider.abandon_work_item(&claimed.lock_token, None, false),
    )
    .await;
    done.expect("the activity is abandoned");
    cost.is(1, 1);
}

#[tokio::test]
async fn a_one_activity_orchestration_that_is_claimed_at_each_step_takes_ten_requests() {
    let world = world().await;
    // As in functions: each step runs in a process of its own.
    let client = world.provider().await;
    let orchestrator = world.provider().await;
    let worker = world.provider().await;
    let second_orchestrator = world.provider().await;
    let listener = world.listener();
    listener.reset();

    enqueue(&client, start_of("i")).await;
    let turn = ready(fetch(&orchestrator, "i").await);
    commit(&orchestrator, &turn.lock_token, Decision::first("i", 1)).await;
    let claimed = ready(fetch_work(&worker, "i", 2).await);
    complete(&worker, &claimed, "i", 2).await;
    let turn = ready(fetch(&second_orchestrator, "i").await);
    commit(&second_orchestrator, &turn.lock_token, last("i")).await;

    let counts = listener.counts();
    assert_eq!(counts.requests, 10, "{counts:?}");
    assert_eq!(
        (counts.cross_partition_queries, counts.pkranges, counts.metadata),
        (0, 0, 0),
        "{counts:?}"
    );
    let info = client.get_instance_info("i").await.expect("the instance is known");
    assert_eq!(
        (info.status.as_str(), info.output.as_deref()),
        ("Completed", Some("out"))
    );
}
