//! An order that needs help is rewound after the shop is repaired: it ends as refunded or shipped, each effect once.

use super::site::{Site, order, to};
use duroxide_cosmos::{RewindOutcome, RewindRequest};
use workflows::ledger::{ALWAYS, Fault, Ledger};
use workflows::{Order, Outcome};

async fn rewind(site: &Site, instance: &str) {
    let request = RewindRequest {
        instance,
        reason: Some("the shop is repaired"),
        ..RewindRequest::default()
    };
    let result = site.store.rewind(&request).await.expect("the store answers");
    assert_eq!(result.outcome, RewindOutcome::Rewound, "{result:?}");
}

#[track_caller]
fn assert_each_once(ledger: &Ledger) {
    let effects = ledger.effects();
    for effect in &effects {
        assert_eq!(ledger.count(effect), 1, "{effect} in {effects:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_whose_refund_failed_is_refunded() {
    let ledger = Ledger::default();
    ledger.inject("refund", Fault::LostBefore, ALWAYS);
    let site = Site::with(ledger.clone()).await;
    let unshippable = Order {
        parcels: vec![to("12 Mill Lane"), to("nowhere")],
        ..order("a")
    };
    site.fulfil(&unshippable).await.expect_err("it needs help");
    assert_eq!(site.custom_status("a").await.as_deref(), Some("needs-help"));
    let (released, recalled) = (ledger.calls("release"), ledger.calls("recall"));
    ledger.inject("refund", Fault::LostBefore, 0);
    rewind(&site, "a").await;
    let outcome = site.outcome("a").await.expect("it ends");
    assert!(matches!(outcome, Outcome::Refused { .. }), "{outcome:?}");
    assert_eq!(
        ledger.undoing(),
        [
            "recall a::sub::parcel-1/pick-up",
            "release a/reserve",
            "refund a/charge"
        ]
    );
    assert_eq!(
        (ledger.calls("release"), ledger.calls("recall")),
        (released, recalled),
        "what was undone before is not asked for again"
    );
    assert_each_once(&ledger);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_with_two_failed_compensations_is_undone() {
    let ledger = Ledger::default();
    ledger.inject("refund", Fault::LostBefore, ALWAYS);
    ledger.inject("release", Fault::LostBefore, ALWAYS);
    let site = Site::with(ledger.clone()).await;
    let unshippable = Order {
        parcels: vec![to("nowhere")],
        ..order("a")
    };
    site.fulfil(&unshippable).await.expect_err("it needs help");
    ledger.inject("refund", Fault::LostBefore, 0);
    ledger.inject("release", Fault::LostBefore, 0);
    rewind(&site, "a").await;
    site.outcome("a").await.expect("it ends");
    assert_eq!(ledger.undoing(), ["refund a/charge", "release a/reserve"]);
    assert_each_once(&ledger);
}
