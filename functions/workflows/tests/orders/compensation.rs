//! Orders that fail half-way: what was done is undone, once, last first.

use crate::support::{fulfil, order, outcome, to};
use workflows::ledger::{ALWAYS, Fault, Ledger};
use workflows::{Line, Order, Outcome, Why};

fn refused(outcome: Result<Outcome, String>) -> (Why, Vec<String>) {
    match outcome {
        Ok(Outcome::Refused { why, undone, .. }) => (why, undone),
        other => panic!("the order was not refused: {other:?}"),
    }
}

fn out_of_stock(order: Order) -> Order {
    let line = Line {
        sku: "out-of-stock".to_owned(),
        quantity: 1,
    };
    Order {
        lines: vec![line],
        ..order
    }
}

#[test]
fn a_declined_card_releases_the_stock_and_refunds_nothing() {
    let ledger = Ledger::default();
    let declined = Order {
        customer: "declined".to_owned(),
        ..order("a")
    };
    let (why, undone) = refused(outcome(&fulfil(&ledger, &declined)));
    assert_eq!((why, undone), (Why::CardDeclined, vec!["release-stock".to_owned()]));
    assert_eq!(ledger.effects(), ["reserve a/reserve", "release a/reserve"]);
    assert_eq!(
        ledger.calls("charge"),
        1,
        "a refusal is an answer: it is not asked for again"
    );
}

#[test]
fn a_charge_beside_a_refused_reservation_is_refunded_once() {
    let ledger = Ledger::default();
    let (why, undone) = refused(outcome(&fulfil(&ledger, &out_of_stock(order("a")))));
    assert_eq!((why, undone), (Why::OutOfStock, vec!["refund-card".to_owned()]));
    assert_eq!(ledger.effects(), ["charge a/charge", "refund a/charge"]);
}

#[test]
fn an_order_refused_on_both_sides_undoes_nothing() {
    let ledger = Ledger::default();
    let hopeless = Order {
        customer: "declined".to_owned(),
        ..out_of_stock(order("a"))
    };
    let (why, undone) = refused(outcome(&fulfil(&ledger, &hopeless)));
    assert_eq!((why, undone), (Why::OutOfStock, vec![]));
    assert_eq!(ledger.effects(), [""; 0]);
}

#[test]
fn a_charge_of_which_nobody_heard_is_refunded_once() {
    let ledger = Ledger::default();
    ledger.inject("charge", Fault::LostAfter, ALWAYS);
    let (why, undone) = refused(outcome(&fulfil(&ledger, &order("a"))));
    assert_eq!(
        (why, undone),
        (
            Why::NoAnswer,
            vec!["refund-card".to_owned(), "release-stock".to_owned()]
        )
    );
    assert_eq!(
        (ledger.count("charge a/charge"), ledger.count("refund a/charge")),
        (1, 1)
    );
    assert_eq!(ledger.calls("charge"), 4);
}

#[test]
fn a_charge_that_never_arrived_is_not_refunded() {
    let ledger = Ledger::default();
    ledger.inject("charge", Fault::LostBefore, ALWAYS);
    let (why, _) = refused(outcome(&fulfil(&ledger, &order("a"))));
    assert_eq!(why, Why::NoAnswer);
    assert_eq!(ledger.effects(), ["reserve a/reserve", "release a/reserve"]);
}

#[test]
fn a_parcel_that_cannot_be_shipped_undoes_the_whole_order() {
    let ledger = Ledger::default();
    let scattered = Order {
        parcels: vec![to("12 Mill Lane"), to("nowhere"), to("flaky")],
        ..order("a")
    };
    let ended = fulfil(&ledger, &scattered);
    let (why, undone) = refused(outcome(&ended));
    assert_eq!(why, Why::NotShippable);
    assert_eq!(
        undone,
        ["recall-parcel", "recall-parcel", "refund-card", "release-stock"]
    );
    let last_first = [
        "recall a::sub::parcel-3/pick-up",
        "recall a::sub::parcel-1/pick-up",
        "refund a/charge",
        "release a/reserve",
    ];
    assert_eq!(ledger.undoing(), last_first);
    assert_eq!(
        ended.key("parcel-1"),
        Some("tracking:a::sub::parcel-1/pick-up"),
        "a recalled parcel stays on record"
    );
}

#[test]
fn a_parcel_of_which_nobody_heard_is_recalled() {
    let ledger = Ledger::default();
    ledger.inject("pick-up", Fault::LostAfter, ALWAYS);
    let (why, _) = refused(outcome(&fulfil(&ledger, &order("a"))));
    assert_eq!(why, Why::NoAnswer);
    let last_first = [
        "recall a::sub::parcel-1/pick-up",
        "refund a/charge",
        "release a/reserve",
    ];
    assert_eq!(ledger.undoing(), last_first);
}

#[test]
fn a_compensation_that_fails_is_tried_again() {
    let ledger = Ledger::default();
    ledger.inject("refund", Fault::LostBefore, 3);
    ledger.inject("release", Fault::LostAfter, 3);
    let unshippable = Order {
        parcels: vec![to("nowhere")],
        ..order("a")
    };
    let (_, undone) = refused(outcome(&fulfil(&ledger, &unshippable)));
    assert_eq!(undone, ["refund-card", "release-stock"]);
    assert_eq!(ledger.undoing(), ["refund a/charge", "release a/reserve"]);
    assert_eq!((ledger.calls("refund"), ledger.calls("release")), (4, 4));
}

#[test]
fn a_compensation_that_never_succeeds_is_reported_and_the_others_still_run() {
    let ledger = Ledger::default();
    ledger.inject("refund", Fault::LostBefore, ALWAYS);
    let unshippable = Order {
        parcels: vec![to("12 Mill Lane"), to("nowhere")],
        ..order("a")
    };
    let ended = fulfil(&ledger, &unshippable);
    let error = ended.expect_failed();
    for said in [
        "order a was refused (the carrier does not go nowhere)",
        "Do by hand: refund 4200 cents to ada, charged under a/charge",
        "refund never arrived",
    ] {
        assert!(error.contains(said), "{said:?} is not in {error:?}");
    }
    assert!(!error.contains("release"), "what was undone is not left to do: {error}");
    assert_eq!(
        ledger.undoing(),
        ["recall a::sub::parcel-1/pick-up", "release a/reserve"]
    );
    assert_eq!(ended.custom_status(), Some("needs-help"));
}
