//! Crashes at every step: nothing happens twice, and nothing is left undone.

use crate::support::{fulfil_in, order, outcome, simulation, to};
use duroxide_lambda::testing::{Crash, at_every_crash};
use workflows::ledger::Ledger;
use workflows::{CHARGE_CARD, Order, Outcome, REFUND_CARD, Why};

#[test]
fn an_order_is_shipped_once_whatever_crashes() {
    at_every_crash(|crash| {
        let ledger = Ledger::default();
        let ended = fulfil_in(&mut simulation(&ledger).crashes(crash.clone()), &order("a"));
        assert!(matches!(outcome(&ended), Ok(Outcome::Shipped { .. })), "{crash:?}");
        let once_each = [
            "reserve a/reserve",
            "charge a/charge",
            "pick-up a::sub::parcel-1/pick-up",
        ];
        let mut effects = ledger.effects();
        effects.sort_by_key(|effect| once_each.iter().position(|once| once == effect));
        assert_eq!(effects, once_each, "{crash:?}");
        ended
    });
}

#[test]
fn an_order_is_undone_once_whatever_crashes() {
    let unshippable = Order {
        parcels: vec![to("12 Mill Lane"), to("nowhere")],
        ..order("a")
    };
    at_every_crash(|crash| {
        let ledger = Ledger::default();
        let ended = fulfil_in(&mut simulation(&ledger).crashes(crash.clone()), &unshippable);
        assert!(matches!(outcome(&ended), Ok(Outcome::Refused { .. })), "{crash:?}");
        let last_first = [
            "recall a::sub::parcel-1/pick-up",
            "refund a/charge",
            "release a/reserve",
        ];
        assert_eq!(ledger.undoing(), last_first, "{crash:?}");
        ended
    });
}

#[test]
fn a_charge_that_is_made_and_forgotten_is_asked_for_again_with_the_same_key() {
    let ledger = Ledger::default();
    let ended = fulfil_in(
        &mut simulation(&ledger).crash(Crash::activity(CHARGE_CARD)),
        &order("a"),
    );
    ended.expect_completed();
    let inputs = ended.inputs_of(CHARGE_CARD);
    assert_eq!((inputs.len(), &inputs[0]), (2, &inputs[1]));
    assert_eq!(ledger.count("charge a/charge"), 1);
}

#[test]
fn an_order_is_undone_when_its_charge_never_gets_through() {
    let ledger = Ledger::default();
    let crash = Crash::activity(CHARGE_CARD).times(u32::MAX);
    let ended = fulfil_in(&mut simulation(&ledger).crash(crash), &order("a"));
    let Ok(Outcome::Refused { why, reason, .. }) = outcome(&ended) else {
        panic!("{}", ended.history());
    };
    assert_eq!(why, Why::NoAnswer);
    assert!(reason.contains("killed its process 10 times"), "{reason}");
    assert_eq!(ledger.undoing(), ["refund a/charge", "release a/reserve"]);
}

#[test]
fn everything_delivered_twice_happens_once() {
    let ledger = Ledger::default();
    let ended = fulfil_in(&mut simulation(&ledger).deliver_twice(), &order("a"));
    ended.expect_completed();
    assert_eq!((ended.runs_of(CHARGE_CARD), ledger.effects().len()), (2, 3));
}

#[test]
fn a_refund_that_never_gets_through_is_left_to_a_person() {
    let ledger = Ledger::default();
    let unshippable = Order {
        parcels: vec![to("nowhere")],
        ..order("a")
    };
    let crash = Crash::activity(REFUND_CARD).times(u32::MAX).before_it_runs();
    let ended = fulfil_in(&mut simulation(&ledger).crash(crash), &unshippable);
    assert!(ended.expect_failed().contains("Do by hand: refund 4200 cents"));
    assert_eq!(ledger.undoing(), ["release a/reserve"]);
}
