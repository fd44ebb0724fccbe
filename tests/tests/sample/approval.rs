//! Waiting for people: approvals and cancellations, in time, early, late and never.

use crate::ledger::Ledger;
use crate::site::{Site, large_order, order};
use std::time::Duration;
use tests::until;
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
    let site = Site::with(ledger.clone()).await;
    site.place(&large_order("a")).await;
    site.reaches("a", Stage::AwaitingApproval).await;
    assert_eq!(
        ledger.calls("pick-up"),
        0,
        "nothing is shipped before somebody approves"
    );
    site.decide("a", true).await;
    assert_eq!(why(site.outcome("a").await), None);
    assert_eq!(ledger.count("pick-up a::sub::parcel-1/pick-up"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_order_is_refunded_and_then_released() {
    let ledger = Ledger::default();
    let site = Site::with(ledger.clone()).await;
    site.place(&large_order("a")).await;
    site.reaches("a", Stage::AwaitingApproval).await;
    site.decide("a", false).await;
    let refused = Outcome::Refused {
        order: "a".to_owned(),
        why: Why::ApprovalRefused,
        reason: "grace did not approve it".to_owned(),
        undone: vec!["refund-card".to_owned(), "release-stock".to_owned()],
    };
    assert_eq!(site.outcome("a").await, Ok(refused));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
    assert_eq!(
        site.kv("a", "refused").await.as_deref(),
        Some("grace did not approve it")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_nobody_approves_in_time_is_undone() {
    let ledger = Ledger::default();
    let site = Site::with(ledger.clone()).await;
    let impatient = Order {
        approval_timeout_ms: Some(50),
        ..large_order("a")
    };
    assert_eq!(why(site.fulfil(&impatient).await), Some(Why::ApprovalTimedOut));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
    assert_eq!(ledger.calls("pick-up"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_comes_before_it_is_waited_for_is_kept() {
    // No runtime is there yet: the approval is in the store before the first turn begins.
    let mut site = Site::idle().await;
    site.place(&large_order("a")).await;
    site.decide("a", true).await;
    let ledger = Ledger::default();
    site.start(workflows::activities_on(ledger.clone())).await;
    assert_eq!(why(site.outcome("a").await), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_no_decision_is_reported_and_does_not_decide() {
    let site = Site::with(Ledger::default()).await;
    site.place(&large_order("a")).await;
    site.client
        .enqueue_event("a", APPROVAL, "yes, please!")
        .await
        .expect("the message is taken");
    let message = site
        .client
        .wait_for_kv_value("a", "approval-ignored", tests::PATIENCE)
        .await;
    let message = message.expect("the approver gets a message");
    assert!(message.contains(r#"send {"approved": true"#), "{message}");
    site.decide("a", true).await;
    assert_eq!(why(site.outcome("a").await), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_customer_can_change_their_mind_during_the_cooling_off() {
    let ledger = Ledger::default();
    let site = Site::with(ledger.clone()).await;
    let slow = Order {
        cooling_off_ms: Some(3_600_000),
        ..order("a")
    };
    site.place(&slow).await;
    site.reaches("a", Stage::CoolingOff).await;
    site.client
        .enqueue_event("a", CANCELLATION, "too blue")
        .await
        .expect("the message is taken");
    assert_eq!(why(site.outcome("a").await), Some(Why::Cancelled));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
    assert_eq!(ledger.calls("pick-up"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_that_comes_early_wins_over_an_elapsed_cooling_off() {
    let mut site = Site::idle().await;
    let at_once = Order {
        cooling_off_ms: Some(0),
        ..order("a")
    };
    site.place(&at_once).await;
    site.client
        .enqueue_event("a", CANCELLATION, "too blue")
        .await
        .expect("the message is taken");
    let ledger = Ledger::default();
    site.start(workflows::activities_on(ledger.clone())).await;
    assert_eq!(why(site.outcome("a").await), Some(Why::Cancelled));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_within_the_cooling_off_wins_even_if_nobody_reads_it_before_the_end() {
    let ledger = Ledger::default();
    let mut site = Site::with(ledger.clone()).await;
    let slow = Order {
        cooling_off_ms: Some(3_600_000),
        ..order("a")
    };
    site.place(&slow).await;
    site.reaches("a", Stage::CoolingOff).await;
    site.stop(Duration::ZERO).await;
    site.client
        .enqueue_event("a", CANCELLATION, "too blue")
        .await
        .expect("the message is taken");
    // Now the timer is due as well: one turn takes both.
    site.clock.advance(Duration::from_secs(2 * 3_600));
    site.start(workflows::activities_on(ledger.clone())).await;
    assert_eq!(why(site.outcome("a").await), Some(Why::Cancelled));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
    assert_eq!(ledger.calls("pick-up"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_below_the_limit_waits_for_nobody() {
    let ledger = Ledger::default();
    let site = Site::with(ledger.clone()).await;
    let just_below = Order {
        total_cents: workflows::order::APPROVAL_FROM_CENTS - 1,
        ..order("a")
    };
    site.place(&just_below).await;
    until("the parcel is picked up", async || ledger.calls("pick-up") == 1).await;
    assert_eq!(why(site.outcome("a").await), None);
}
