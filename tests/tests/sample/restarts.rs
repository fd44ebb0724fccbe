//! A runtime that ends in the middle: the next one takes over, and nothing happens twice.

use crate::site::{Site, large_order, order, to};
use std::time::Duration;
use tests::until;
use workflows::ledger::{Fault, Ledger};
use workflows::progress::Stage;
use workflows::{Order, Outcome};

const ONCE_EACH: [&str; 3] = [
    "charge a/charge",
    "pick-up a::sub::parcel-1/pick-up",
    "reserve a/reserve",
];

fn sorted(mut effects: Vec<String>) -> Vec<String> {
    effects.sort();
    effects
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_started_after_the_charge_replays_it_and_does_not_repeat_it() {
    let ledger = Ledger::default();
    let mut site = Site::with(ledger.clone()).await;
    site.place(&large_order("a")).await;
    site.reaches("a", Stage::AwaitingApproval).await;
    site.stop(Duration::from_secs(1)).await;
    site.decide("a", true).await;
    site.start(workflows::activities_on(ledger.clone())).await;
    let outcome = site.outcome("a").await;
    assert!(matches!(outcome, Ok(Outcome::Shipped { .. })), "{outcome:?}");
    assert_eq!(sorted(ledger.effects()), ONCE_EACH);
    assert_eq!((ledger.calls("charge"), ledger.calls("reserve")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_after_it_charged_is_followed_by_one_that_does_not_charge_again() {
    let ledger = Ledger::default();
    ledger.inject("charge", Fault::Hangs, 1);
    let mut site = about_to_be_killed(&ledger).await;
    site.place(&order("a")).await;
    until("the card is charged", async || ledger.count("charge a/charge") == 1).await;
    site.stop(Duration::ZERO).await;
    site.start(workflows::activities_on(ledger.clone())).await;
    let outcome = site.outcome("a").await;
    assert!(matches!(outcome, Ok(Outcome::Shipped { .. })), "{outcome:?}");
    assert_eq!(sorted(ledger.effects()), ONCE_EACH);
    assert!(
        ledger.calls("charge") > 1,
        "another worker asked again, with the same key"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_after_it_refunded_is_followed_by_one_that_finishes_the_undoing() {
    let ledger = Ledger::default();
    ledger.inject("refund", Fault::Hangs, 1);
    let mut site = about_to_be_killed(&ledger).await;
    let unshippable = Order {
        parcels: vec![to("12 Mill Lane"), to("nowhere")],
        ..order("a")
    };
    site.place(&unshippable).await;
    until("the card is refunded", async || ledger.count("refund a/charge") == 1).await;
    site.stop(Duration::ZERO).await;
    site.start(workflows::activities_on(ledger.clone())).await;
    let outcome = site.outcome("a").await;
    assert!(matches!(outcome, Ok(Outcome::Refused { .. })), "{outcome:?}");
    let last_first = [
        "recall a::sub::parcel-1/pick-up",
        "refund a/charge",
        "release a/reserve",
    ];
    assert_eq!(ledger.undoing(), last_first);
    assert!(
        ledger.calls("refund") > 1,
        "another worker asked again, with the same key"
    );
}

/// A site whose activities are given to another worker soon.
async fn about_to_be_killed(ledger: &Ledger) -> Site {
    let mut site = Site::idle().await;
    site.worker_lock = Duration::from_secs(3);
    site.start(workflows::activities_on(ledger.clone())).await;
    site
}
