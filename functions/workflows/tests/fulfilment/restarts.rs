//! A runtime that ends in the middle: the next one takes over, and nothing happens twice.

use crate::ledger::{Fault, Ledger};
use crate::world::{World, eventually, large_order, order, to};
use std::time::Duration;
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
    let mut world = World::with(ledger.clone()).await;
    world.place(&large_order("a")).await;
    world.reaches("a", Stage::AwaitingApproval).await;
    world.stop(Duration::from_secs(1)).await;
    world.decide("a", true).await;
    world.start(workflows::activities_on(ledger.clone())).await;
    let outcome = world.outcome("a").await;
    assert!(matches!(outcome, Ok(Outcome::Shipped { .. })), "{outcome:?}");
    assert_eq!(sorted(ledger.effects()), ONCE_EACH);
    assert_eq!((ledger.calls("charge"), ledger.calls("reserve")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_after_it_charged_is_followed_by_one_that_does_not_charge_again() {
    let ledger = Ledger::default();
    ledger.inject("charge", Fault::Hangs, 1);
    let mut world = about_to_be_killed(&ledger).await;
    world.place(&order("a")).await;
    eventually("the card is charged", || ledger.count("charge a/charge") == 1).await;
    world.stop(Duration::ZERO).await;
    world.start(workflows::activities_on(ledger.clone())).await;
    let outcome = world.outcome("a").await;
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
    let mut world = about_to_be_killed(&ledger).await;
    let unshippable = Order {
        parcels: vec![to("12 Mill Lane"), to("nowhere")],
        ..order("a")
    };
    world.place(&unshippable).await;
    eventually("the card is refunded", || ledger.count("refund a/charge") == 1).await;
    world.stop(Duration::ZERO).await;
    world.start(workflows::activities_on(ledger.clone())).await;
    let outcome = world.outcome("a").await;
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

/// A world whose activities are given to another worker soon.
async fn about_to_be_killed(ledger: &Ledger) -> World {
    let mut world = World::idle().await;
    world.worker_lock = Duration::from_secs(3);
    world.start(workflows::activities_on(ledger.clone())).await;
    world
}
