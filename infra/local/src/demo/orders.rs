//! The demo's orders: one of each way that an order can go, in turn, with the outcome that each must have.

use workflows::{Line, Order, Parcel};

/// An order, and what is to become of it.
#[derive(Clone, Debug)]
pub struct Placed {
    pub order: Order,
    /// `shipped`, or why it is refused.
    pub expected: &'static str,
    /// Whether the customer changes their mind during the cooling-off.
    pub cancelled: bool,
}

struct Way {
    expected: &'static str,
    customer: &'static str,
    total_cents: u64,
    sku: &'static str,
    addresses: &'static [&'static str],
    cooling_off_ms: u64,
    cancelled: bool,
}

const PLAIN: Way = Way {
    expected: "shipped",
    customer: "ada",
    total_cents: 4_200,
    sku: "teapot",
    addresses: &["12 Mill Lane"],
    cooling_off_ms: 1_000,
    cancelled: false,
};

const WAYS: [Way; 8] = [
    PLAIN,
    Way {
        total_cents: 250_000,
        sku: "piano",
        cooling_off_ms: 2_000,
        ..PLAIN
    },
    Way {
        addresses: &["12 Mill Lane", "3 Rue de la Paix", "Zürich"],
        cooling_off_ms: 3_000,
        ..PLAIN
    },
    Way {
        expected: "card-declined",
        customer: "declined",
        ..PLAIN
    },
    Way {
        addresses: &["flaky"],
        cooling_off_ms: 1_500,
        ..PLAIN
    },
    Way {
        expected: "out-of-stock",
        sku: "out-of-stock",
        ..PLAIN
    },
    Way {
        expected: "cancelled",
        cooling_off_ms: 20_000,
        cancelled: true,
        ..PLAIN
    },
    Way {
        expected: "not-shippable",
        addresses: &["12 Mill Lane", "nowhere"],
        ..PLAIN
    },
];

/// So many orders; `run` tells them from those of another run on the same store.
pub fn orders(count: usize, run: &str) -> Vec<Placed> {
    (0..count)
        .map(|index| {
            let way = &WAYS[index % WAYS.len()];
            let order = Order {
                id: format!("{run}-{:02}", index + 1),
                customer: way.customer.to_owned(),
                total_cents: way.total_cents,
                lines: vec![Line {
                    sku: way.sku.to_owned(),
                    quantity: 1,
                }],
                parcels: way
                    .addresses
                    .iter()
                    .map(|address| Parcel {
                        address: (*address).to_owned(),
                    })
                    .collect(),
                cooling_off_ms: Some(way.cooling_off_ms),
                approval_timeout_ms: Some(120_000),
                retry_delay_ms: Some(500),
            };
            Placed {
                order,
                expected: way.expected,
                cancelled: way.cancelled,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_all_kinds_have_names_of_their_own_and_can_be_fulfilled() {
        let orders = orders(30, "run");
        let names: std::collections::BTreeSet<&str> = orders.iter().map(|placed| placed.order.id.as_str()).collect();
        assert_eq!(names.len(), 30);
        let kinds: std::collections::BTreeSet<&str> = orders.iter().map(|placed| placed.expected).collect();
        assert_eq!(kinds.len(), 5, "{kinds:?}");
        assert!(orders.iter().any(|placed| placed.order.needs_approval()));
        for placed in &orders {
            let text = serde_json::to_string(&placed.order).unwrap();
            assert_eq!(Order::parse(&placed.order.id, &text).unwrap(), placed.order);
        }
    }
}
