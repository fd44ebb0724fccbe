//! Orders that end well.

use crate::site::{Site, order, to};
use workflows::ledger::Ledger;
use workflows::{Order, Outcome};

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
