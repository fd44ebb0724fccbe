//! What goes in and what comes out: the order, the decision on it, its outcome.
//!
//! Invariant: an [`Order`] that [`Order::parse`] let through can be fulfilled without further checks. Unknown fields are
//! ignored, so that a newer client can talk to an older workflow. Money is in integer cents, waits in milliseconds.
//! Neighbours: `fulfil` reads it; clients write it.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// From this total on, somebody has to approve the order: 1,000.00.
pub const APPROVAL_FROM_CENTS: u64 = 100_000;

/// The longest wait that an order may ask for: a year. A slip in the unit is refused, not waited for.
const LONGEST_WAIT_MS: u64 = 365 * 24 * 60 * 60 * 1000;

/// One customer's order: the input of `fulfil-order`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The order's own id.
    pub id: String,
    /// Who pays.
    pub customer: String,
    /// What is charged.
    pub total_cents: u64,
    /// What was bought.
    pub lines: Vec<Line>,
    /// Where it goes; one child orchestration each.
    pub parcels: Vec<Parcel>,
    /// How long the customer may change their mind before anything is shipped; default 5 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooling_off_ms: Option<u64>,
    /// How long an approval is waited for; default one day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_timeout_ms: Option<u64>,
    /// The pause before a second attempt of anything; it doubles with each further one, up to five
    /// minutes. Default 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay_ms: Option<u64>,
}

/// So many of one article.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The article.
    pub sku: String,
    /// How many of it.
    pub quantity: u32,
}

/// One parcel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parcel {
    /// Where it goes.
    pub address: String,
}

/// What an approver sends to the queue `approval`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether the order may go on.
    pub approved: bool,
    /// Who decided.
    pub by: String,
}

/// How an order ended: the output of `fulfil-order`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// All of it is on its way.
    Shipped {
        /// The order's id.
        order: String,
        /// The carrier's tracking number of each parcel, in the order's own sequence.
        tracking: Vec<String>,
    },
    /// None of it is: what had been done has been undone.
    Refused {
        /// The order's id.
        order: String,
        /// The kind of reason.
        why: Why,
        /// The reason in words.
        reason: String,
        /// The compensating activities, in the sequence in which they were run.
        undone: Vec<String>,
    },
}

/// Why an order was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// An article could not be reserved.
    OutOfStock,
    /// The bank said no.
    CardDeclined,
    /// The approver said no.
    ApprovalRefused,
    /// The approver said nothing.
    ApprovalTimedOut,
    /// The customer changed their mind.
    Cancelled,
    /// The carrier refused a parcel.
    NotShippable,
    /// The other side did not answer, however often it was asked.
    NoAnswer,
}

impl Order {
    /// The order in `input`, checked. An error names the order (or, when it has no readable name, the instance), what is
    /// wrong, and what to do.
    pub fn parse(instance: &str, input: &str) -> Result<Order, String> {
        serde_json::from_str::<Order>(input)
            .map_err(|error| error.to_string())
            .and_then(|order| order.check().map(|()| order))
            .map_err(|wrong| {
                format!(
                    "{} is not a valid order: {wrong}. Nothing was reserved or charged; correct the input and start it \
                     again as a new instance",
                    name_of(instance, input)
                )
            })
    }

    fn check(&self) -> Result<(), String> {
        let waits = [
            ("cooling_off_ms", self.cooling_off_ms),
            ("approval_timeout_ms", self.approval_timeout_ms),
            ("retry_delay_ms", self.retry_delay_ms),
        ];
        let too_long = waits
            .iter()
            .find(|(_, wait)| wait.is_some_and(|ms| ms > LONGEST_WAIT_MS));
        if let Some((field, _)) = too_long {
            return Err(format!("`{field}` is more than a year ({LONGEST_WAIT_MS})"));
        }
        let wrong = [
            (self.id.is_empty(), "`id` is empty"),
            (self.customer.is_empty(), "`customer` is empty"),
            (self.total_cents == 0, "`total_cents` is 0: there is nothing to charge"),
            (self.lines.is_empty(), "`lines` is empty: there is nothing to reserve"),
            (
                self.lines.iter().any(|line| line.quantity == 0),
                "a line has `quantity` 0",
            ),
            (
                self.parcels.is_empty(),
                "`parcels` is empty: there is nowhere to ship to",
            ),
            (
                self.parcels.iter().any(|parcel| parcel.address.is_empty()),
                "a parcel's `address` is empty",
            ),
        ];
        match wrong.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, what)) => Err((*what).to_owned()),
            None => Ok(()),
        }
    }

    /// Whether somebody has to approve it.
    pub fn needs_approval(&self) -> bool {
        self.total_cents >= APPROVAL_FROM_CENTS
    }

    /// How long the customer may change their mind.
    pub fn cooling_off(&self) -> Duration {
        Duration::from_millis(self.cooling_off_ms.unwrap_or(5_000))
    }

    /// How long an approval is waited for.
    pub fn approval_timeout(&self) -> Duration {
        Duration::from_millis(self.approval_timeout_ms.unwrap_or(24 * 60 * 60 * 1000))
    }

    /// The pause before a second attempt.
    pub fn retry_delay(&self) -> Duration {
        Duration::from_millis(self.retry_delay_ms.unwrap_or(1_000))
    }
}

/// The best name there is for an input that may not be an order at all.
fn name_of(instance: &str, input: &str) -> String {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    match serde_json::from_str::<Named>(input) {
        Ok(Named { id }) if !id.is_empty() => format!("order {id} (instance {instance})"),
        _ => format!("the input of instance {instance}"),
    }
}
