//! Inputs that are no orders: a clear error, and nothing is done.

use crate::support::{order, simulation};
use workflows::ledger::Ledger;
use workflows::{FULFIL_ORDER, Order, SHIP_PARCEL};

const GOOD: &str = r#"{"id":"A-1","customer":"ada","total_cents":4200,"lines":[{"sku":"teapot","quantity":1}],
    "parcels":[{"address":"12 Mill Lane"}]}"#;

#[test]
fn an_input_that_is_no_json_fails_the_instance_and_says_what_to_do() {
    let ledger = Ledger::default();
    let error = simulation(&ledger).run(FULFIL_ORDER, "{ oops").expect_failed();
    assert!(
        error.contains("the input of instance main is not a valid order"),
        "{error}"
    );
    assert!(error.contains("correct the input and start it again"), "{error}");
    assert_eq!(ledger.effects(), [""; 0]);
}

#[test]
fn a_parcel_started_by_hand_with_a_wrong_input_fails_clearly() {
    let error = simulation(&Ledger::default()).run(SHIP_PARCEL, "[]").expect_failed();
    assert!(error.contains("the input of main is not a parcel"), "{error}");
}

#[test]
fn an_error_names_the_order_and_the_field() {
    let cases = [
        (
            GOOD.replace("4200", "-1"),
            "order A-1 (instance i) is not a valid order: invalid value: integer `-1`",
        ),
        (
            GOOD.replace("4200", "42.5"),
            "invalid type: floating point `42.5`, expected u64",
        ),
        (GOOD.replace("4200", "0"), "`total_cents` is 0"),
        (GOOD.replace("customer", "costumer"), "missing field `customer`"),
        (GOOD.replace("ada", ""), "`customer` is empty"),
        (
            GOOD.replace("A-1", ""),
            "the input of instance i is not a valid order: `id` is empty",
        ),
        (
            GOOD.replace(r#""quantity":1"#, r#""quantity":0"#),
            "a line has `quantity` 0",
        ),
        (GOOD.replace(r#"{"sku":"teapot","quantity":1}"#, ""), "`lines` is empty"),
        (GOOD.replace(r#"{"address":"12 Mill Lane"}"#, ""), "`parcels` is empty"),
        (GOOD.replace("12 Mill Lane", ""), "a parcel's `address` is empty"),
        (
            GOOD.replace(r#""parcels""#, r#""cooling_off_ms":99999999999999,"parcels""#),
            "`cooling_off_ms` is more than a year",
        ),
        (
            "A-1".to_owned(),
            "the input of instance i is not a valid order: expected value",
        ),
        (String::new(), "EOF"),
    ];
    for (input, said) in cases {
        let error = Order::parse("i", &input).expect_err(&input);
        assert!(error.contains(said), "{said:?} is not in {error:?}");
    }
}

#[test]
fn an_unknown_field_is_ignored_and_the_waits_have_defaults() {
    let newer = GOOD.replace(r#""parcels""#, r#""gift_wrap":true,"parcels""#);
    let parsed = Order::parse("i", &newer).expect("an order of a newer client");
    assert_eq!(
        (parsed.cooling_off().as_secs(), parsed.approval_timeout().as_secs()),
        (5, 86_400)
    );
}

#[test]
fn an_order_survives_its_own_json() {
    let written = serde_json::to_string(&order("a")).expect("an order can be written");
    assert_eq!(Order::parse("i", &written), Ok(order("a")));
}
