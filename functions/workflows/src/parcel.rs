//! The child orchestration `ship-parcel`: one parcel, handed to the carrier.
//!
//! A child is an instance of its own, with its own history and its own custom status: a parent of a hundred parcels stays
//! small, and a client can watch each. Invariant: the key of the pick-up follows from the parcel's instance id alone, so
//! that the parent can recall a parcel whose result never arrived. Neighbours: `fulfil` starts it.

use crate::activities::{Call, PICK_UP_PARCEL};
use crate::retries;
use crate::shop::{Answer, Key, PickUp};
use duroxide::OrchestrationContext;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Ships one parcel of an order; started by `fulfil-order` as `{order's instance}::sub::parcel-{number}`.
pub const SHIP_PARCEL: &str = "ship-parcel";

/// The input of `ship-parcel`; its output is the carrier's [`Answer`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShipParcel {
    pub address: String,
    pub retry_delay: Duration,
}

/// The instance of a parcel; parcels count from 1.
///
/// A name that a client can guess, and cannot take: duroxide lets no client start an instance with `::sub::` in its id.
pub fn instance_of(order_instance: &str, number: usize) -> String {
    format!("{order_instance}::sub::parcel-{number}")
}

/// The key under which a parcel is picked up.
pub fn pick_up_key(parcel_instance: &str) -> Key {
    Key::of(parcel_instance, "pick-up")
}

pub async fn ship_parcel(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let instance = ctx.instance_id();
    let parcel: ShipParcel = serde_json::from_str(&input).map_err(|error| {
        format!("the input of {instance} is not a parcel: {error}; start {SHIP_PARCEL} by an order")
    })?;
    let answer = pick_up(&ctx, parcel, pick_up_key(&instance)).await?;
    serde_json::to_string(&answer).map_err(|error| format!("the answer for {instance} cannot be written: {error}"))
}

/// Asks the carrier until it answers. `schedule_activity_with_retry` is this same loop; written out, it shows the
/// client and the carrier which attempt this is.
async fn pick_up(ctx: &OrchestrationContext, parcel: ShipParcel, key: Key) -> Result<Answer, String> {
    let policy = retries::of_a_step(parcel.retry_delay);
    let mut attempt = 1;
    loop {
        ctx.set_custom_status(format!("attempt {attempt} of {}", policy.max_attempts));
        let address = parcel.address.clone();
        let call = Call::new(key.clone(), PickUp { address, attempt });
        match ctx.schedule_activity_typed(PICK_UP_PARCEL, &call).await {
            Err(_) if attempt < policy.max_attempts => ctx.schedule_timer(policy.delay_for_attempt(attempt)).await,
            answer => return answer,
        }
        attempt += 1;
    }
}
