//! The sample: order fulfilment as a durable workflow, in plain async Rust on duroxide. Nothing here knows where it runs
//! (a Lambda function, a test) nor where its state is kept (Cosmos DB): a host takes [`orchestrations`] and [`activities`]
//! and does the rest.
//!
//! ```text
//!                      fulfil-order                                              when a step fails, in reverse order:
//!
//!        +------------------+------------------+
//!        | reserve-stock    |    charge-card   |  in parallel, each retried     release-stock, refund-card
//!        +------------------+------------------+
//!                           |
//!             from 1,000.00: wait for `approval`, or time out
//!                           |
//!             cooling-off: a timer, or `cancellation`
//!                           |
//!        +------------------+------------------+
//!        | ship-parcel 1    |   ship-parcel 2  |  one child orchestration       recall-parcel, of those that left
//!        | (pick-up-parcel) | (pick-up-parcel) |  per parcel, in parallel
//!        +------------------+------------------+
//!                           |
//!                 Outcome::Shipped                                               Outcome::Refused
//! ```
//!
//! # Where to read
//!
//! | module | what it shows |
//! |---|---|
//! | [`order`] | input and output: typed, checked, money in integer cents |
//! | `fulfil` | the orchestration: parallel steps, an event with a deadline, a timer, children |
//! | `parcel` | the child orchestration: a retry loop that says how far it is |
//! | `retries` | how often anything is tried |
//! | `saga` | compensation: what was done is undone, last first |
//! | [`progress`] | what a client can watch while it runs |
//! | [`shop`] | the world outside, and why every call of it carries an idempotency key |
//! | `activities` | the only place where an orchestration meets that world |
//! | `ledger` | a shop for tests that remembers what was done, behind the feature `ledger` |
//!
//! `tests/orders` has the tests, on `duroxide_lambda::testing`.
//!
//! # Using it
//!
//! Start [`FULFIL_ORDER`] with an [`Order`] as JSON. Take the order's id as the instance id: an order that is
//! started twice is then fulfilled once. Approve or cancel with `Client::enqueue_event` on the queues
//! [`APPROVAL`] and [`CANCELLATION`] (never `raise_event`: that is lost unless the workflow is waiting at that moment), after
//! `start_orchestration` has returned. Do not stop an order with `Client::cancel_instance`: duroxide then ends the
//! orchestration where it stands, and nothing is refunded.
//!
//! ```json
//! { "id": "A-1001", "customer": "ada", "total_cents": 4200,
//!   "lines": [ { "sku": "teapot", "quantity": 1 } ],
//!   "parcels": [ { "address": "12 Mill Lane" } ],
//!   "cooling_off_ms": 5000, "approval_timeout_ms": 86400000, "retry_delay_ms": 1000 }
//! ```
//!
//! # Values with a meaning
//!
//! The default shop is simulated, and these values lead down each path (see [`shop::SimulatedShop`]):
//!
//! | value | what happens | outcome |
//! |---|---|---|
//! | any other | every step succeeds | `shipped` |
//! | `total_cents` from 100000 | waits for `{"approved": true, "by": "grace"}` on the queue `approval` | `shipped`, or `refused`: `approval-refused`, `approval-timed-out` |
//! | an event on the queue `cancellation` | honoured at the cooling-off | `refused`: `cancelled` |
//! | sku `out-of-stock` | stock is not reserved, though the card was charged: refunded | `refused`: `out-of-stock` |
//! | customer `declined` | the card is not charged; the stock is released | `refused`: `card-declined` |
//! | customer `offline` | the bank never answers: refunded in case it did charge, and the stock is released | `refused`: `no-answer` |
//! | customer `unrefundable` | as any other; but should a refund be due, it never succeeds | fails, and says what to do by hand |
//! | address `flaky` | the carrier answers the third attempt only | `shipped` |
//! | address `nowhere` | the carrier refuses: parcels that left are recalled, the card refunded, the stock released | `refused`: `not-shippable` |

// docs.rs labels what needs a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod activities;
mod fulfil;
#[cfg(feature = "ledger")]
pub mod ledger;
pub mod order;
mod parcel;
pub mod progress;
mod retries;
mod saga;
pub mod shop;

pub use activities::{CHARGE_CARD, PICK_UP_PARCEL, RECALL_PARCEL, REFUND_CARD, RELEASE_STOCK, RESERVE_STOCK};
pub use fulfil::{APPROVAL, CANCELLATION, FULFIL_ORDER};
pub use order::{Decision, Line, Order, Outcome, Parcel, Why};
pub use parcel::SHIP_PARCEL;
pub use shop::{Shop, SimulatedShop};

use duroxide::runtime::OrchestrationRegistry;
use duroxide::runtime::registry::ActivityRegistry;

/// The orchestrations: [`FULFIL_ORDER`] and its child [`SHIP_PARCEL`].
pub fn orchestrations() -> OrchestrationRegistry {
    // Not `register_typed`: its error for a bad input names neither the order nor the field.
    OrchestrationRegistry::builder()
        .register(FULFIL_ORDER, fulfil::fulfil_order)
        .register(SHIP_PARCEL, parcel::ship_parcel)
        .build()
}

/// The activities, on the simulated shop.
pub fn activities() -> ActivityRegistry {
    activities_on(SimulatedShop)
}

/// The activities, on a shop of your own.
pub fn activities_on<S: Shop>(shop: S) -> ActivityRegistry {
    activities::registry(shop)
}

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
