//! The activities: where the workflow meets the world. Replace these simulations by calls of your
//! own services.
//!
//! An activity can run more than once: its process may end after the call and before the result is
//! recorded. So each call has a key, and a service that gets a key again answers as it did before.
//! A refusal is a result; an error means "no answer", and is tried again.
//!
//! Two values lead down other paths: a leg that names `Atlantis` is sold out, and the card of the
//! traveller `penniless` is declined.

use duroxide::ActivityContext;
use serde::{Deserialize, Serialize};

/// Reserves a seat, under a key.
pub const RESERVE_SEAT: &str = "reserve-seat";
/// Gives back what was reserved under a key, if anything was.
pub const RELEASE_SEAT: &str = "release-seat";
/// Asks the traveller for an answer.
pub const REMIND_TRAVELLER: &str = "remind-traveller";
/// Takes the price, under a key.
pub const CHARGE_TRAVELLER: &str = "charge-traveller";
/// Gives back what was charged under a key, if anything was.
pub const REFUND_TRAVELLER: &str = "refund-traveller";

/// The input of `reserve-seat` and of `book-leg`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReserveSeat {
    pub key: String,
    pub leg: String,
}

/// The output of `reserve-seat` and of `book-leg`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reservation {
    Reserved { seat: String },
    SoldOut,
}

/// The input of `charge-traveller`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Charge {
    pub key: String,
    pub traveller: String,
    pub cents: u64,
}

/// The output of `charge-traveller`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payment {
    Paid { receipt: String },
    Declined,
}

pub async fn reserve_seat(ctx: ActivityContext, ask: ReserveSeat) -> Result<Reservation, String> {
    if ask.leg.contains("Atlantis") {
        return Ok(Reservation::SoldOut);
    }
    let seat = format!("{}, seat 12A", ask.leg);
    ctx.trace_info(format!("{}: reserved {seat}", ask.key));
    Ok(Reservation::Reserved { seat })
}

pub async fn release_seat(ctx: ActivityContext, key: String) -> Result<(), String> {
    ctx.trace_info(format!("{key}: released"));
    Ok(())
}

pub async fn remind_traveller(ctx: ActivityContext, traveller: String) -> Result<(), String> {
    ctx.trace_info(format!("reminded {traveller}"));
    Ok(())
}

pub async fn charge_traveller(ctx: ActivityContext, charge: Charge) -> Result<Payment, String> {
    if charge.traveller == "penniless" {
        return Ok(Payment::Declined);
    }
    ctx.trace_info(format!("{}: charged {} cents", charge.key, charge.cents));
    let receipt = format!("receipt {}", charge.key);
    Ok(Payment::Paid { receipt })
}

pub async fn refund_traveller(ctx: ActivityContext, key: String) -> Result<(), String> {
    ctx.trace_info(format!("{key}: refunded"));
    Ok(())
}
