//! What a client can watch while an order is fulfilled.
//!
//! The custom status of the instance is the current [`Stage`], as its kebab-case name (`Client::wait_for_status_change`).
//! The key-value entries are what is known so far (`Client::get_kv_all_values`), and stay after the end:
//!
//! | key | value |
//! |---|---|
//! | `reservation`, `charge` | the shop's reference |
//! | `approval` | who approved |
//! | `approval-ignored` | why a message on the queue `approval` was not a decision |
//! | `parcel-1`, `parcel-2`... | the tracking number |
//! | `refused` | the reason, from the moment on when undoing begins |
//!
//! A parcel is an instance of its own, `{order's instance}::sub::parcel-1`: its custom status is the attempt at handing it
//! to the carrier.
//!
//! Invariant: it is for people, and the workflow never reads it. Neighbours: `fulfil` calls it.

use duroxide::OrchestrationContext;

/// Where an order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reserving the stock and charging the card.
    Securing,
    /// Waiting for an approval.
    AwaitingApproval,
    /// Leaving the customer time to change their mind.
    CoolingOff,
    /// Handing the parcels to the carrier.
    Shipping,
    /// Done.
    Shipped,
    /// Undoing what was done.
    Undoing,
    /// Undone.
    Refused,
    /// Could not be undone: the error of the instance says what to do by hand.
    NeedsHelp,
}

impl Stage {
    /// The custom status.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Securing => "securing",
            Stage::AwaitingApproval => "awaiting-approval",
            Stage::CoolingOff => "cooling-off",
            Stage::Shipping => "shipping",
            Stage::Shipped => "shipped",
            Stage::Undoing => "undoing",
            Stage::Refused => "refused",
            Stage::NeedsHelp => "needs-help",
        }
    }
}

pub(crate) fn reach(ctx: &OrchestrationContext, stage: Stage) {
    ctx.set_custom_status(stage.name());
    // Silent while duroxide replays: each line appears once, not once per turn.
    ctx.trace_info(stage.name());
}

/// The key of a parcel's tracking number; parcels count from 1.
pub fn parcel_key(number: usize) -> String {
    format!("parcel-{number}")
}
