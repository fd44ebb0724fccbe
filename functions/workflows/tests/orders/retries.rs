//! Steps that fail at first: tried again, done once.

use crate::support::{fulfil, order, outcome, to};
use workflows::ledger::{Fault, Ledger};
use workflows::shop::{Charge, Key};
use workflows::{Order, Outcome, Shop, SimulatedShop};

#[test]
fn a_charge_whose_answer_was_lost_is_asked_for_again_and_made_once() {
    let ledger = Ledger::default();
    ledger.inject("charge", Fault::LostAfter, 2);
    let outcome = outcome(&fulfil(&ledger, &order("a")));
    assert!(matches!(outcome, Ok(Outcome::Shipped { .. })), "{outcome:?}");
    assert_eq!((ledger.calls("charge"), ledger.count("charge a/charge")), (3, 1));
    assert_eq!(ledger.undoing(), [""; 0]);
}

#[test]
fn a_carrier_that_answers_the_third_attempt_gets_the_parcel_once() {
    let ledger = Ledger::default();
    let flaky = Order {
        parcels: vec![to("flaky")],
        ..order("a")
    };
    let outcome = outcome(&fulfil(&ledger, &flaky));
    assert!(matches!(outcome, Ok(Outcome::Shipped { .. })), "{outcome:?}");
    assert_eq!(
        (
            ledger.calls("pick-up"),
            ledger.count("pick-up a::sub::parcel-1/pick-up")
        ),
        (3, 1)
    );
}

#[test]
fn a_carrier_whose_answer_was_lost_does_not_take_a_second_parcel() {
    let ledger = Ledger::default();
    ledger.inject("pick-up", Fault::LostAfter, 2);
    let outcome = outcome(&fulfil(&ledger, &order("a")));
    assert!(matches!(outcome, Ok(Outcome::Shipped { .. })), "{outcome:?}");
    assert_eq!(
        (ledger.calls("pick-up"), ledger.effects().len()),
        (3, 3),
        "{:?}",
        ledger.effects()
    );
}

#[tokio::test]
async fn the_simulated_shop_answers_a_repeated_key_alike_in_any_process() {
    let charge = Charge {
        customer: "ada".to_owned(),
        cents: 4200,
    };
    let key = Key::of("a", "charge");
    let first = SimulatedShop.charge(&key, &charge).await;
    assert_eq!(SimulatedShop.charge(&key, &charge).await, first);
    assert_ne!(SimulatedShop.charge(&Key::of("b", "charge"), &charge).await, first);
}
