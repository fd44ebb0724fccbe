//! Orders that end well, and what can be watched meanwhile.

use crate::ledger::Ledger;
use crate::site::{Site, large_order, order, to};
use workflows::progress::Stage;
use workflows::{Line, Order, Outcome, Why};

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_reserved_charged_and_shipped_once_each() {
    let ledger = Ledger::default();
    let site = Site::with(ledger.clone()).await;
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
    assert_eq!(site.fulfil(&two_parcels).await, Ok(shipped));
    let mut effects = ledger.effects();
    effects.sort();
    let once_each = [
        "charge a/charge",
        "pick-up a::sub::parcel-1/pick-up",
        "pick-up a::sub::parcel-2/pick-up",
        "reserve a/reserve",
    ];
    assert_eq!(effects, once_each);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_placed_again_is_not_charged_again() {
    let ledger = Ledger::default();
    let site = Site::with(ledger.clone()).await;
    site.place(&order("a")).await;
    site.place(&order("a")).await;
    let first = site.outcome("a").await;
    assert!(matches!(first, Ok(Outcome::Shipped { .. })), "{first:?}");
    site.place(&order("a")).await;
    // The one behind it has been fulfilled by the time that the repeated one would have been.
    site.fulfil(&order("b")).await.expect("another order");
    assert_eq!(site.outcome("a").await, first);
    assert_eq!((ledger.calls("charge"), ledger.count("charge a/charge")), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_card_is_charged_while_the_stock_is_being_reserved() {
    let ledger = Ledger::where_both_begin_before_either_ends();
    let site = Site::with(ledger.clone()).await;
    let outcome = site.fulfil(&order("a")).await;
    assert!(matches!(outcome, Ok(Outcome::Shipped { .. })), "{outcome:?}");
    assert_eq!((ledger.calls("reserve"), ledger.calls("charge")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_can_watch_an_order_from_stage_to_stage() {
    let site = Site::with(Ledger::default()).await;
    let watched = Order {
        parcels: vec![to("flaky")],
        ..large_order("a")
    };
    site.place(&watched).await;
    site.reaches("a", Stage::AwaitingApproval).await;
    assert_eq!(
        site.kv("a", "reservation").await.as_deref(),
        Some("reservation:a/reserve")
    );
    assert_eq!(site.kv("a", "charge").await.as_deref(), Some("charge:a/charge"));
    assert_eq!(site.kv("a", "parcel-1").await, None);

    site.decide("a", true).await;
    site.outcome("a").await.expect("the order is shipped");
    assert_eq!(site.custom_status("a").await.as_deref(), Some("shipped"));
    assert_eq!(site.kv("a", "approval").await.as_deref(), Some("grace"));
    let tracking = Some("tracking:a::sub::parcel-1/pick-up");
    assert_eq!(site.kv("a", "parcel-1").await.as_deref(), tracking);
    assert_eq!(
        site.custom_status("a::sub::parcel-1").await.as_deref(),
        Some("attempt 3 of 4")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_value_has_its_documented_effect() {
    let site = Site::of(workflows::activities()).await;
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
    for (order, _) in &orders {
        site.place(order).await;
    }
    for (order, expected) in orders {
        let outcome = site.outcome(&order.id).await;
        let why = outcome.as_ref().map_err(|_| ()).map(|outcome| match outcome {
            Outcome::Shipped { .. } => None,
            Outcome::Refused { why, .. } => Some(*why),
        });
        assert_eq!(why, expected, "{}: {outcome:?}", order.id);
    }
}
