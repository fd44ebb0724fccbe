//! Sample orders of every outcome.

use serde_json::{Value, json};
use tests::api::Site;

/// An order: what it is called, and what of it differs from a plain one.
pub struct Order {
    pub id: &'static str,
    pub differs: Value,
}

/// One order of each kind; the last one waits for an approval.
pub fn each() -> Vec<Order> {
    let order = |id: &'static str, differs: Value| Order { id, differs };
    vec![
        order("order-1041", json!({})),
        order("order-1042", json!({ "customer": "declined" })),
        order(
            "order-1043",
            json!({ "parcels": [{ "address": "12 Mill Lane" }, { "address": "flaky" }] }),
        ),
        order(
            "order-1044",
            json!({ "lines": [{ "sku": "out-of-stock", "quantity": 2 }] }),
        ),
        order(
            "order-1045",
            json!({ "customer": "unrefundable", "retry_delay_ms": 20, "parcels": [{ "address": "3 Rue de la Paix" }, { "address": "nowhere" }] }),
        ),
        order("order-1046", json!({ "cooling_off_ms": 7_200_000 })),
        order(
            "order-1047",
            json!({ "total_cents": 250_000, "lines": [{ "sku": "piano", "quantity": 1 }] }),
        ),
    ]
}

/// The input of an order.
pub fn input(order: &Order) -> Value {
    let mut input = json!({
        "id": order.id, "customer": "ada", "total_cents": 4_200, "lines": [{ "sku": "teapot", "quantity": 1 }],
        "parcels": [{ "address": "12 Mill Lane" }], "cooling_off_ms": 200, "retry_delay_ms": 200,
    });
    for (name, value) in order.differs.as_object().expect("an object") {
        input[name] = value.clone();
    }
    input
}

/// Starts all orders, and runs them as far as they go.
pub async fn seed(site: &Site) {
    for order in each() {
        let body = json!({ "id": order.id, "input": input(&order), "tags": { "customer": "ada", "channel": "web" } });
        site.post("/v1/orchestrations/fulfil-order/instances", body)
            .await
            .is(202);
    }
    site.cloud.drain().await;
}
