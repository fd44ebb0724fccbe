//! Orders that end well, and what can be watched meanwhile.

use crate::support::{HOUR_MS, decide, fulfil, fulfil_in, large_order, order, outcome, simulation, to};
use duroxide_lambda::testing::Simulation;
use std::time::Duration;
use workflows::ledger::Ledger;
use workflows::{CHARGE_CARD, Line, Order, Outcome, RESERVE_STOCK, Why};

#[test]
fn an_order_is_reserved_charged_and_shipped_once_each() {
    let ledger = Ledger::default();
    let two_parcels = Order {
        parcels: vec![to("12 Mill Lane"), to("3 Hill Road")],
        ..order("a")
    };
    let shipped = Outcome::Shipped {
        order: "a".to_owned(),
        tracking: vec![
            "tracking:a::sub::parcel-1/pick-up".to_owned(),
            "tracking:a::sub::parcel-2/pick-up".to_owned(),
        ],
    };
    let ended = fulfil(&ledger, &two_parcels);
    assert_eq!(outcome(&ended), Ok(shipped));
    let once_each = [
        "reserve a/reserve",
        "charge a/charge",
        "pick-up a::sub::parcel-1/pick-up",
        "pick-up a::sub::parcel-2/pick-up",
    ];
    assert_eq!(ledger.effects(), once_each);
    assert_eq!(ended.elapsed(), Duration::from_millis(HOUR_MS), "the cooling-off");
}

#[test]
fn the_card_is_charged_while_the_stock_is_being_reserved() {
    let ledger = Ledger::default();
    let long = Duration::from_secs(600);
    let mut simulation = simulation(&ledger)
        .activity_takes(RESERVE_STOCK, long)
        .activity_takes(CHARGE_CARD, long);
    let ended = fulfil_in(&mut simulation, &order("a"));
    assert_eq!(ended.elapsed(), long + Duration::from_millis(HOUR_MS));
}

#[test]
fn a_client_can_watch_an_order_from_stage_to_stage() {
    let mut simulation = simulation(&Ledger::default());
    let watched = Order {
        parcels: vec![to("flaky")],
        ..large_order("a")
    };
    simulation.start_typed("a", workflows::FULFIL_ORDER, &watched);
    simulation.advance(Duration::from_secs(1));
    let waiting = simulation.instance("a");
    assert_eq!(waiting.custom_status(), Some("awaiting-approval"));
    assert_eq!(waiting.key("reservation"), Some("reservation:a/reserve"));
    assert_eq!(waiting.key("charge"), Some("charge:a/charge"));
    assert_eq!(waiting.key("parcel-1"), None);

    decide(&mut simulation, "a", true);
    let ended = simulation.run_to_end("a");
    ended.expect_completed();
    let stages = ["securing", "awaiting-approval", "cooling-off", "shipping", "shipped"];
    assert_eq!(ended.custom_statuses(), stages);
    assert_eq!(ended.key("approval"), Some("grace"));
    assert_eq!(ended.key("parcel-1"), Some("tracking:a::sub::parcel-1/pick-up"));
    assert_eq!(ended.children()[0].custom_status(), Some("attempt 3 of 4"));
}

#[test]
fn every_documented_value_has_its_documented_effect() {
    let of_customer = |id: &str, customer: &str| Order {
        customer: customer.to_owned(),
        ..order(id)
    };
    let of_sku = |order: Order, sku: &str| Order {
        lines: vec![Line {
            sku: sku.to_owned(),
            quantity: 2,
        }],
        ..order
    };
    let to_address = |id: &str, address: &str| Order {
        parcels: vec![to(address)],
        ..order(id)
    };
    let orders = [
        (order("any"), Ok(None)),
        (of_sku(order("sku"), "out-of-stock"), Ok(Some(Why::OutOfStock))),
        (of_customer("declined", "declined"), Ok(Some(Why::CardDeclined))),
        (of_customer("offline", "offline"), Ok(Some(Why::NoAnswer))),
        (of_customer("unrefundable", "unrefundable"), Ok(None)),
        (of_sku(of_customer("stuck", "unrefundable"), "out-of-stock"), Err(())),
        (to_address("flaky", "flaky"), Ok(None)),
        (to_address("nowhere", "nowhere"), Ok(Some(Why::NotShippable))),
    ];
    let mut simulation = Simulation::of(workflows::orchestrations(), workflows::activities());
    for (order, expected) in orders {
        let outcome = outcome(&fulfil_in(&mut simulation, &order));
        let why = outcome.as_ref().map_err(|_| ()).map(|outcome| match outcome {
            Outcome::Shipped { .. } => None,
            Outcome::Refused { why, .. } => Some(*why),
        });
        assert_eq!(why, expected, "{}: {outcome:?}", order.id);
    }
}
