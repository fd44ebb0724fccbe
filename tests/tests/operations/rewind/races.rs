//! A rewind against turns, workers and another operator.

use super::support::*;
use duroxide_cosmos::{Fetched, RewindOutcome, RewindRequest};
use tests::turns::{Decision, LOCK, commit, enqueue, raised};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_operators_one_rewinds() {
    for round in 0..5 {
        let shop = Shop::default();
        shop.break_down("ship");
        let cloud = shop.cloud().await;
        run(&cloud, "order", "Parent", "Steps:pack,ship").await;
        shop.repair("ship");
        let (one, two) = futures::join!(rewind(&cloud, "order"), rewind(&cloud, "order"));
        let mut outcomes = [one.outcome, two.outcome];
        outcomes.sort_by_key(|outcome| *outcome != RewindOutcome::Rewound);
        assert_eq!(
            outcomes,
            [RewindOutcome::Rewound, RewindOutcome::NotFailed],
            "round {round}"
        );
        cloud.drain().await;
        assert_eq!(output(&cloud, "order").await, "pack,ship", "round {round}");
        shop.assert_once(&["pack", "pay", "ship", "thank"]);
    }
}

/// A turn of the failed instance has taken a message, to drop it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_would_drop_a_message_is_fenced_off() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Wait", "").await;
    cloud.client.raise_event("order", "go", "1").await.expect("accepted");
    cloud.drain().await;
    cloud
        .client
        .enqueue_event("order", "more", "2")
        .await
        .expect("accepted");
    cloud.drain().await;
    assert_failed(&summary(&cloud, "order").await);
    enqueue(&cloud.silent, raised("order", "3")).await;
    let turn = match cloud.silent.fetch_turn("order", LOCK, None).await {
        Ok(Fetched::Ready(turn)) => turn,
        other => panic!("{other:?}"),
    };
    shop.repair("ship");
    assert_eq!(rewind(&cloud, "order").await.outcome, RewindOutcome::Rewound);
    let late = Decision {
        metadata: Default::default(),
        ..Decision::of(Vec::new())
    };
    let late = commit(&cloud.silent, &turn.lock_token, late).await;
    assert!(late.is_err(), "the turn is fenced off");
    cloud.drain().await;
    cloud.client.raise_event("order", "go", "4").await.expect("accepted");
    cloud.drain().await;
    // The third event came before the wait for it, so it is skipped, as duroxide does; or it is taken: never lost before.
    let output = output(&cloud, "order").await;
    assert!(["1,2,3", "1,2,4"].contains(&output.as_str()), "{output}");
    shop.assert_once(&["ship"]);
}

/// A rewind and a cancellation at once: it is cancelled, or it goes on; never both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_before_a_rewind_does_not_reach_it_and_one_after_it_does() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Steps", "pay,ship").await;
    cloud.client.cancel_instance("order", "early").await.expect("accepted");
    shop.repair("ship");
    rewound(&cloud, "order").await;
    assert_eq!(output(&cloud, "order").await, "pay,ship");

    run(&cloud, "other", "Wait", "").await;
    cloud.client.cancel_instance("other", "first").await.expect("accepted");
    cloud.drain().await;
    assert_eq!(rewind(&cloud, "other").await.outcome, RewindOutcome::Rewound);
    cloud.client.cancel_instance("other", "second").await.expect("accepted");
    cloud.drain().await;
    let cancelled = summary(&cloud, "other").await;
    assert_eq!(cancelled.status.name(), "Cancelled");
    assert!(
        cancelled.error.as_deref().is_some_and(|error| error.contains("second")),
        "{cancelled:?}"
    );
}

/// A worker still runs an activity that was cancelled when the instance failed: what it reports is dropped, and the activity has a
/// new work item under the same id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_before_the_failure_cannot_complete_what_runs_again() {
    let shop = Shop::default();
    shop.break_down("b");
    let cloud = shop.cloud().await;
    let started = cloud.client.start_orchestration("order", "Fan", "a,b").await;
    started.expect("it starts");
    for sent in cloud.queue.take() {
        cloud.orchestrator.invoke(&[sent.wakeup]).await;
    }
    let id = tests::turns::activity_id("order", 2);
    let claimed = cloud
        .silent
        .fetch_work(&id, LOCK, None, &duroxide::providers::TagFilter::Any)
        .await;
    let Ok(Fetched::Ready(work)) = claimed else {
        panic!("{claimed:?}")
    };
    cloud.client.cancel_instance("order", "enough").await.expect("accepted");
    cloud.drain().await;
    shop.repair("b");
    let request = RewindRequest {
        instance: "order",
        ..RewindRequest::default()
    };
    let result = cloud.notifying.rewind(&request).await.expect("the store answers");
    assert_eq!(result.outcome, RewindOutcome::Rewound);
    let late = duroxide::providers::Provider::ack_work_item(
        &*cloud.silent,
        &work.lock_token,
        Some(tests::turns::done("order", 2)),
    )
    .await;
    assert!(late.is_err(), "its claim is lost");
    cloud.drain().await;
    assert_eq!(output(&cloud, "order").await, "2");
    shop.assert_once(&["a", "b"]);
}
