//! The world outside: warehouse, bank and carrier.
//!
//! duroxide runs an activity *at least* once: a worker that crashes after the bank has charged, and before its result is
//! recorded, is followed by another that charges again. So every call carries a [`Key`], and the invariant of every
//! implementation is: **a call with a key that was seen before has no further effect, and gets the same answer.**
//!
//! The key names the step of the instance (`A-1001/charge`), not the attempt. An activity's id would not do: each retry of
//! an orchestration is a new activity with a new id, and the charge whose answer was lost would be made once more.
//!
//! Compensations name the *key* of what they undo, not its reference, because they are also due when the answer, and with
//! it the reference, never arrived. Undoing closes that key: it has no effect where nothing had been done, and a late
//! duplicate of the call is refused from then on.
//!
//! Neighbours: `activities` calls it; `fulfil` and `parcel` choose the keys.

use crate::order::Line;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::future::Future;

/// What makes a repeated call recognisable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(String);

impl Key {
    /// The key of a step of an instance. An instance takes each of its steps once.
    pub fn of(instance: &str, step: &str) -> Key {
        Key(format!("{instance}/{step}"))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A definite answer. A *no* is a result like any other: asking again would not change it, so it is not an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// It was done.
    Done {
        /// What the other side calls it: a reservation, a charge, a tracking number.
        reference: String,
    },
    /// It was not done, and will not be.
    Refused {
        /// Why.
        reason: String,
    },
}

/// There was no answer: it may or may not have been done. Ask again, with the same key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer: {0}")]
pub struct NoAnswer(pub String);

/// Reserve these articles.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reserve {
    /// What to reserve.
    pub lines: Vec<Line>,
}

/// Charge this card.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Charge {
    /// Whose card.
    pub customer: String,
    /// How much.
    pub cents: u64,
}

/// Hand a parcel to the carrier.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PickUp {
    /// Where to.
    pub address: String,
    /// Which attempt this is, from 1, for the carrier to see.
    pub attempt: u32,
}

/// Give back what was reserved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Release {
    /// The key of the reservation.
    pub reservation: Key,
}

/// Give back what was charged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refund {
    /// The key of the charge.
    pub charge: Key,
    /// Whose card.
    pub customer: String,
    /// How much.
    pub cents: u64,
}

/// Call a parcel back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recall {
    /// The key of its pick-up.
    pub pick_up: Key,
}

/// Warehouse, bank and carrier; see the module's invariant.
pub trait Shop: Send + Sync + 'static {
    /// Reserves all lines, or none.
    fn reserve(&self, key: &Key, ask: &Reserve) -> impl Future<Output = Result<Answer, NoAnswer>> + Send;
    /// Charges the card.
    fn charge(&self, key: &Key, ask: &Charge) -> impl Future<Output = Result<Answer, NoAnswer>> + Send;
    /// Hands a parcel to the carrier.
    fn pick_up(&self, key: &Key, ask: &PickUp) -> impl Future<Output = Result<Answer, NoAnswer>> + Send;
    /// Undoes a reservation.
    fn release(&self, key: &Key, ask: &Release) -> impl Future<Output = Result<(), NoAnswer>> + Send;
    /// Undoes a charge.
    fn refund(&self, key: &Key, ask: &Refund) -> impl Future<Output = Result<(), NoAnswer>> + Send;
    /// Undoes a pick-up.
    fn recall(&self, key: &Key, ask: &Recall) -> impl Future<Output = Result<(), NoAnswer>> + Send;
}

/// The default: a shop that keeps nothing, because each call of a function may be in another process. Every answer is
/// calculated from the request alone, so a repeated call gets the same one. The crate's documentation lists the values
/// that make it refuse or fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedShop;

/// The attempt that the carrier answers for the address `flaky`.
const FLAKY_CARRIER_ANSWERS: u32 = 3;

impl Shop for SimulatedShop {
    async fn reserve(&self, key: &Key, ask: &Reserve) -> Result<Answer, NoAnswer> {
        match ask.lines.iter().find(|line| line.sku == "out-of-stock") {
            Some(line) => Ok(refused(format!("{} of {} are not in stock", line.quantity, line.sku))),
            None => Ok(done("reservation", key)),
        }
    }

    async fn charge(&self, key: &Key, ask: &Charge) -> Result<Answer, NoAnswer> {
        match ask.customer.as_str() {
            "declined" => Ok(refused(format!("the bank declined {} cents", ask.cents))),
            "offline" => Err(NoAnswer("the bank is offline".to_owned())),
            _ => Ok(done("charge", key)),
        }
    }

    async fn pick_up(&self, key: &Key, ask: &PickUp) -> Result<Answer, NoAnswer> {
        match ask.address.as_str() {
            "nowhere" => Ok(refused("the carrier does not go nowhere".to_owned())),
            "flaky" if ask.attempt < FLAKY_CARRIER_ANSWERS => Err(NoAnswer("the carrier hung up".to_owned())),
            _ => Ok(done("tracking", key)),
        }
    }

    async fn release(&self, _: &Key, _: &Release) -> Result<(), NoAnswer> {
        Ok(())
    }

    async fn refund(&self, _: &Key, ask: &Refund) -> Result<(), NoAnswer> {
        match ask.customer.as_str() {
            "unrefundable" => Err(NoAnswer("the bank takes no refunds".to_owned())),
            _ => Ok(()),
        }
    }

    async fn recall(&self, _: &Key, _: &Recall) -> Result<(), NoAnswer> {
        Ok(())
    }
}

fn done(what: &str, key: &Key) -> Answer {
    Answer::Done {
        reference: format!("{what}:{key}"),
    }
}

fn refused(reason: String) -> Answer {
    Answer::Refused { reason }
}
