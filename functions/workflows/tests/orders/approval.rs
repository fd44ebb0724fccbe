//! Waiting for people: approvals and cancellations, in time, early, late and never.

use crate::support::{DAY_MS, HOUR_MS, decide, fulfil, fulfil_in, large_order, order, outcome, simulation};
use duroxide_lambda::testing::{Instance, Simulation};
use std::time::Duration;
use workflows::ledger::Ledger;
use workflows::{APPROVAL, CANCELLATION, FULFIL_ORDER, Order, Outcome, Why};

const REFUND_THEN_RELEASE: [&str; 2] = ["refund a/charge", "release a/reserve"];

fn why(ended: &Instance) -> Option<Why> {
    match outcome(ended).expect("the order ends without an error") {
        Outcome::Shipped { .. } => None,
        Outcome::Refused { why, .. } => Some(why),
    }
}

/// A large order that waits for its approval.
fn waiting(ledger: &Ledger) -> Simulation {
    let mut simulation = simulation(ledger);
    simulation.start_typed("a", FULFIL_ORDER, &large_order("a"));
    simulation.advance(Duration::from_millis(3 * DAY_MS));
    let waits = simulation.instance("a").expect_waiting();
    assert_eq!(waits, ["timer due in 4d", "queue approval"]);
    simulation
}

#[test]
fn an_approved_order_is_shipped() {
    let ledger = Ledger::default();
    let mut simulation = waiting(&ledger);
    assert_eq!(
        ledger.calls("pick-up"),
        0,
        "nothing is shipped before somebody approves"
    );
    decide(&mut simulation, "a", true);
    assert_eq!(why(&simulation.run_to_end("a")), None);
    assert_eq!(ledger.count("pick-up a::sub::parcel-1/pick-up"), 1);
}

#[test]
fn a_refused_order_is_refunded_and_then_released() {
    let ledger = Ledger::default();
    let mut simulation = waiting(&ledger);
    decide(&mut simulation, "a", false);
    let refused = Outcome::Refused {
        order: "a".to_owned(),
        why: Why::ApprovalRefused,
        reason: "grace did not approve it".to_owned(),
        undone: vec!["refund-card".to_owned(), "release-stock".to_owned()],
    };
    let ended = simulation.run_to_end("a");
    assert_eq!(outcome(&ended), Ok(refused));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
    assert_eq!(ended.key("refused"), Some("grace did not approve it"));
}

#[test]
fn an_order_that_nobody_approves_in_time_is_undone() {
    let ledger = Ledger::default();
    let ended = fulfil(&ledger, &large_order("a"));
    assert_eq!(why(&ended), Some(Why::ApprovalTimedOut));
    assert_eq!(ended.elapsed(), Duration::from_millis(7 * DAY_MS));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
    assert_eq!(ledger.calls("pick-up"), 0);
}

#[test]
fn an_approval_that_comes_before_it_is_waited_for_is_kept() {
    let mut simulation = simulation(&Ledger::default());
    simulation.start_typed("a", FULFIL_ORDER, &large_order("a"));
    // Before the first turn.
    decide(&mut simulation, "a", true);
    assert_eq!(why(&simulation.run_to_end("a")), None);
}

#[test]
fn a_message_that_is_no_decision_is_reported_and_does_not_decide() {
    let mut simulation = waiting(&Ledger::default());
    simulation.enqueue("a", APPROVAL, "yes, please!");
    simulation.advance(Duration::ZERO);
    let waiting = simulation.instance("a");
    let message = waiting.key("approval-ignored").expect("the approver gets a message");
    assert!(message.contains(r#"send {"approved": true"#), "{message}");
    decide(&mut simulation, "a", true);
    assert_eq!(why(&simulation.run_to_end("a")), None);
}

#[test]
fn the_customer_can_change_their_mind_during_the_cooling_off() {
    let ledger = Ledger::default();
    let mut simulation = simulation(&ledger);
    simulation.start_typed("a", FULFIL_ORDER, &order("a"));
    simulation.advance(Duration::from_millis(HOUR_MS - 1));
    assert_eq!(simulation.instance("a").custom_status(), Some("cooling-off"));
    simulation.enqueue("a", CANCELLATION, "too blue");
    assert_eq!(why(&simulation.run_to_end("a")), Some(Why::Cancelled));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
    assert_eq!(ledger.calls("pick-up"), 0);
}

#[test]
fn a_cancellation_that_comes_early_wins_over_an_elapsed_cooling_off() {
    let ledger = Ledger::default();
    let at_once = Order {
        cooling_off_ms: Some(0),
        ..order("a")
    };
    let mut simulation = simulation(&ledger);
    simulation.start_typed("a", FULFIL_ORDER, &at_once);
    simulation.enqueue("a", CANCELLATION, "too blue");
    assert_eq!(why(&simulation.run_to_end("a")), Some(Why::Cancelled));
    assert_eq!(ledger.undoing(), REFUND_THEN_RELEASE);
}

/// One turn takes both the message and the timer.
#[test]
fn a_cancellation_in_the_moment_in_which_the_cooling_off_ends_wins() {
    let ledger = Ledger::default();
    let end = Duration::from_millis(HOUR_MS);
    let mut simulation = simulation(&ledger).enqueue_after(end, CANCELLATION, "too blue");
    let ended = simulation.run_typed(FULFIL_ORDER, &order("a"));
    assert_eq!((why(&ended), ended.elapsed()), (Some(Why::Cancelled), end));
    assert_eq!(ledger.calls("pick-up"), 0);
}

#[test]
fn an_order_below_the_limit_waits_for_nobody() {
    let ledger = Ledger::default();
    let just_below = Order {
        total_cents: workflows::order::APPROVAL_FROM_CENTS - 1,
        ..order("a")
    };
    let ended = fulfil_in(&mut simulation(&ledger), &just_below);
    assert_eq!(why(&ended), None);
    assert!(!ended.custom_statuses().contains(&"awaiting-approval".to_owned()));
}
