//! Waiting for people: approvals and cancellations, in time, early, late and never.

use crate::ledger::Ledger;
use crate::world::{World, eventually, large_order, order};
use workflows::progress::Stage;
use workflows::{APPROVAL, CANCELLATION, Order, Outcome, Why};

const REFUND_THEN_RELEASE: [&str; 2] = ["refund a/charge", "release a/reserve"];

fn why(outcome: Result<Outcome, String>) -> Option<Why> {
    match outcome.expect("the order ends without an error") {
        Outcome::Shipped { .. } => None,
        Outcome::Refused { why, .. } => Some(why),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_order_is_shipped() {
    let ledger = Ledger::default();
    let world = World::with(ledger.clone()).await;
    world.place(&large_order("a")).await;
    world.reaches("a", Stage::AwaitingApproval).await;
    assert_eq!(
        ledger.calls("pick-up"),
        0,
        "nothing is shipped before somebody approves"
    );
    world.decide("a", true).await;
    assert_eq!(why(world.outcome("a").await), None);
    assert_eq!(ledger.count("pick-up a::sub::parcel-1/pick-up"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_order_is_refunded_and_then_released() {
    let ledger = Ledger::default();
    let world = World::with(ledger.clone()).await;
    world.place(&large_order("a")).await;
    world.reaches("a", Stage::AwaitingApproval).await;
    world.decide("a", false).await;
    let refused = Outcome::Refused {
        order: "a".to_owned(),
        why: Why::ApprovalRefused,
        reason: "grace did not approve it".to_owned(),
        undone: vec!["refund-card".to_owned(), "release-stock".to_owned()],
    };
    assert_eq!(world.outcome("a").await, Ok(refused));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
    assert_eq!(
        world.kv("a", "refused").await.as_deref(),
        Some("grace did not approve it")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_nobody_approves_in_time_is_undone() {
    let ledger = Ledger::default();
    let world = World::with(ledger.clone()).await;
    let impatient = Order {
        approval_timeout_ms: Some(50),
        ..large_order("a")
    };
    assert_eq!(why(world.fulfil(&impatient).await), Some(Why::ApprovalTimedOut));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
    assert_eq!(ledger.calls("pick-up"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_comes_before_it_is_waited_for_is_kept() {
    // No runtime is there yet: the approval is in the store before the first turn begins.
    let mut world = World::idle().await;
    world.place(&large_order("a")).await;
    world.decide("a", true).await;
    let ledger = Ledger::default();
    world.start(workflows::activities_on(ledger.clone())).await;
    assert_eq!(why(world.outcome("a").await), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_no_decision_is_reported_and_does_not_decide() {
    let world = World::with(Ledger::default()).await;
    world.place(&large_order("a")).await;
    world
        .client
        .enqueue_event("a", APPROVAL, "yes, please!")
        .await
        .expect("the message is taken");
    let told = world
        .client
        .wait_for_kv_value("a", "approval-ignored", crate::world::NEVER)
        .await;
    let told = told.expect("the approver is told");
    assert!(told.contains(r#"send {"approved": true"#), "{told}");
    world.decide("a", true).await;
    assert_eq!(why(world.outcome("a").await), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_customer_can_change_their_mind_during_the_cooling_off() {
    let ledger = Ledger::default();
    let world = World::with(ledger.clone()).await;
    let slow = Order {
        cooling_off_ms: Some(3_600_000),
        ..order("a")
    };
    world.place(&slow).await;
    world.reaches("a", Stage::CoolingOff).await;
    world
        .client
        .enqueue_event("a", CANCELLATION, "too blue")
        .await
        .expect("the message is taken");
    assert_eq!(why(world.outcome("a").await), Some(Why::Cancelled));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
    assert_eq!(ledger.calls("pick-up"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_that_comes_early_wins_over_an_elapsed_cooling_off() {
    let mut world = World::idle().await;
    let at_once = Order {
        cooling_off_ms: Some(0),
        ..order("a")
    };
    world.place(&at_once).await;
    world
        .client
        .enqueue_event("a", CANCELLATION, "too blue")
        .await
        .expect("the message is taken");
    let ledger = Ledger::default();
    world.start(workflows::activities_on(ledger.clone())).await;
    assert_eq!(why(world.outcome("a").await), Some(Why::Cancelled));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_below_the_limit_waits_for_nobody() {
    let ledger = Ledger::default();
    let world = World::with(ledger.clone()).await;
    let just_below = Order {
        total_cents: workflows::order::APPROVAL_FROM_CENTS - 1,
        ..order("a")
    };
    world.place(&just_below).await;
    eventually("the parcel is picked up", || ledger.calls("pick-up") == 1).await;
    assert_eq!(why(world.outcome("a").await), None);
}
