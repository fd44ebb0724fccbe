//! The orders of the demo: all kinds in turn, each with the outcome that it must have.

use workflows::{Line, Order, Parcel};

/// An order and what must become of it.
#[derive(Clone, Debug)]
pub(super) struct PlacedOrder {
    pub(super) order: Order,
    /// `shipped`, why it is refused, or [`FAILED`].
    pub(super) expected: &'static str,
    /// Whether the customer cancels during the cooling-off period.
    pub(super) cancelled: bool,
}

/// What must become of an order that needs a person: its refund never succeeds.
pub(super) const FAILED: &str = "failed";

#[derive(Clone, Copy)]
struct Kind {
    expected: &'static str,
    customer: &'static str,
    total_cents: u64,
    sku: &'static str,
    addresses: &'static [&'static str],
    cooling_off_ms: u64,
    retry_delay_ms: u64,
    cancelled: bool,
}

const PLAIN: Kind = Kind {
    expected: "shipped",
    customer: "ada",
    total_cents: 4_200,
    sku: "teapot",
    addresses: &["12 Mill Lane"],
    cooling_off_ms: 1_000,
    retry_delay_ms: 500,
    cancelled: false,
};

const KINDS: [Kind; 9] = [
    PLAIN,
    Kind {
        total_cents: 250_000,
        sku: "piano",
        cooling_off_ms: 2_000,
        ..PLAIN
    },
    Kind {
        addresses: &["12 Mill Lane", "3 Rue de la Paix", "Zürich"],
        cooling_off_ms: 3_000,
        ..PLAIN
    },
    Kind {
        expected: "card-declined",
        customer: "declined",
        ..PLAIN
    },
    Kind {
        addresses: &["flaky"],
        cooling_off_ms: 1_500,
        ..PLAIN
    },
    Kind {
        expected: "out-of-stock",
        sku: "out-of-stock",
        ..PLAIN
    },
    Kind {
        expected: "cancelled",
        cooling_off_ms: 20_000,
        cancelled: true,
        ..PLAIN
    },
    Kind {
        expected: "not-shippable",
        addresses: &["12 Mill Lane", "nowhere"],
        ..PLAIN
    },
    Kind {
        expected: FAILED,
        customer: "unrefundable",
        addresses: &["nowhere"],
        // A compensation is tried ten times, with pauses that double.
        retry_delay_ms: 5,
        ..PLAIN
    },
];

/// This many orders, whose ids begin with the prefix.
pub(super) fn orders(count: usize, id_prefix: &str) -> Vec<PlacedOrder> {
    (0..count)
        .map(|index| {
            let kind = &KINDS[index % KINDS.len()];
            PlacedOrder {
                order: kind.order(format!("{id_prefix}-{:02}", index + 1)),
                expected: kind.expected,
                cancelled: kind.cancelled,
            }
        })
        .collect()
}

/// Orders that wait for an approval, for a day.
pub(super) fn open(id_prefix: &str) -> Vec<Order> {
    let open = ["grand-piano", "harpsichord"].map(|sku| {
        let kind = Kind { sku, ..KINDS[1] };
        Order {
            approval_timeout_ms: Some(24 * 3_600_000),
            ..kind.order(format!("{id_prefix}-{sku}"))
        }
    });
    open.into()
}

impl Kind {
    fn order(&self, id: String) -> Order {
        let parcel = |address: &&str| Parcel {
            address: (*address).to_owned(),
        };
        Order {
            id,
            customer: self.customer.to_owned(),
            total_cents: self.total_cents,
            lines: vec![Line {
                sku: self.sku.to_owned(),
                quantity: 1,
            }],
            parcels: self.addresses.iter().map(parcel).collect(),
            cooling_off_ms: Some(self.cooling_off_ms),
            approval_timeout_ms: Some(120_000),
            retry_delay_ms: Some(self.retry_delay_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_orders_wait_for_an_approval() {
        for order in open("run") {
            assert!(order.needs_approval(), "{order:?}");
            let text = serde_json::to_string(&order).unwrap();
            assert_eq!(Order::parse(&order.id, &text).unwrap(), order);
        }
    }

    #[test]
    fn orders_of_all_kinds_have_distinct_ids_and_valid_inputs() {
        let orders = orders(30, "run");
        let names: std::collections::BTreeSet<&str> = orders.iter().map(|placed| placed.order.id.as_str()).collect();
        assert_eq!(names.len(), 30);
        let kinds: std::collections::BTreeSet<&str> = orders.iter().map(|placed| placed.expected).collect();
        assert_eq!(kinds.len(), 6, "{kinds:?}");
        assert!(orders.iter().any(|placed| placed.order.needs_approval()));
        for placed in &orders {
            let text = serde_json::to_string(&placed.order).unwrap();
            assert_eq!(Order::parse(&placed.order.id, &text).unwrap(), placed.order);
        }
    }
}
