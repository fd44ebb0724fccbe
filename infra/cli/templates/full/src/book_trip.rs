//! The orchestration `book-trip`: seats on every leg, the traveller's confirmation, the payment.
//!
//! It either books everything or nothing: a trip that cannot be booked has its seats released and
//! its payment refunded, the last step first.

use crate::activities::{
    CHARGE_TRAVELLER, Charge, Payment, REFUND_TRAVELLER, RELEASE_SEAT, REMIND_TRAVELLER,
    Reservation, ReserveSeat,
};
use crate::trip::{Outcome, Trip};
use crate::{book_leg, retries};
use duroxide::{Either2, OrchestrationContext};

/// Books a [`Trip`]; the output is an [`Outcome`].
pub const NAME: &str = "book-trip";
/// The queue for the traveller's answer: `yes`, or anything else for no.
pub const CONFIRMATION: &str = "confirmation";

/// A compensation: an activity, and the key of what it undoes.
type Undo = (&'static str, String);

pub async fn book_trip(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let trip = Trip::parse(&input)?;
    let mut undo = Vec::new();
    let outcome = match book(&ctx, &trip, &mut undo).await {
        Ok((seats, receipt)) => {
            ctx.set_custom_status("booked");
            Outcome::Booked { seats, receipt }
        }
        Err(reason) => {
            ctx.set_custom_status("cancelling");
            compensate(&ctx, undo).await?;
            ctx.set_custom_status("cancelled");
            Outcome::Cancelled { reason }
        }
    };
    serde_json::to_string(&outcome).map_err(|error| error.to_string())
}

/// The path without incident. `Err` is the reason why the trip cannot be booked.
async fn book(
    ctx: &OrchestrationContext,
    trip: &Trip,
    undo: &mut Vec<Undo>,
) -> Result<(Vec<String>, String), String> {
    let seats = reserve(ctx, trip, undo).await?;
    confirm(ctx, trip).await?;
    let receipt = charge(ctx, trip, undo).await?;
    Ok((seats, receipt))
}

/// Reserves a seat on every leg, all at once, one child orchestration each. All are waited for, even
/// if one is sold out: whatever the others have reserved must be known to be released.
async fn reserve(
    ctx: &OrchestrationContext,
    trip: &Trip,
    undo: &mut Vec<Undo>,
) -> Result<Vec<String>, String> {
    ctx.set_custom_status("reserving seats");
    let trip_id = ctx.instance_id();
    let asks = (1..).zip(&trip.legs).map(|(number, leg)| ReserveSeat {
        key: format!("{trip_id}/leg-{number}"),
        leg: leg.clone(),
    });
    let asks: Vec<_> = asks.collect();
    let children = asks
        .iter()
        .map(|ask| ctx.schedule_sub_orchestration_typed(book_leg::NAME, ask));
    let answers = ctx.join(children.collect()).await;

    let mut seats = Vec::new();
    let mut problem = None;
    for (ReserveSeat { key, leg }, answer) in asks.into_iter().zip(answers) {
        match answer {
            Ok(Reservation::Reserved { seat }) => {
                undo.push((RELEASE_SEAT, key));
                seats.push(seat);
            }
            Ok(Reservation::SoldOut) => problem = Some(format!("{leg} is sold out")),
            Err(error) => {
                // Nobody knows whether the seat is reserved. Releasing it is right in both cases.
                undo.push((RELEASE_SEAT, key));
                problem = Some(format!("{leg} got no answer: {error}"));
            }
        }
    }
    match problem {
        Some(problem) => Err(problem),
        None => Ok(seats),
    }
}

/// Waits for the traveller's answer as long as the seats are held, and reminds them at half time.
/// Timers are durable: nothing runs and nothing is billed meanwhile.
async fn confirm(ctx: &OrchestrationContext, trip: &Trip) -> Result<(), String> {
    ctx.set_custom_status("waiting for the confirmation");
    let deadline = ctx.schedule_timer(trip.hold());
    let half_time = ctx.schedule_timer(trip.hold() / 2);
    // A queue keeps an answer that arrives before anybody waits for it.
    let mut answer = ctx.dequeue_event(CONFIRMATION);

    let answer = match ctx.select2(&mut answer, half_time).await {
        Either2::First(answer) => answer,
        Either2::Second(()) => {
            remind(ctx, trip).await;
            match ctx.select2(answer, deadline).await {
                Either2::First(answer) => answer,
                Either2::Second(()) => return Err("there was no answer in time".to_owned()),
            }
        }
    };
    match answer.as_str() {
        "yes" => Ok(()),
        other => Err(format!("the traveller answered {other}")),
    }
}

/// Asks the traveller for an answer. The trip can be booked without it.
async fn remind(ctx: &OrchestrationContext, trip: &Trip) {
    let reminded: Result<(), String> = ctx
        .schedule_activity_with_retry_typed(REMIND_TRAVELLER, &trip.traveller, retries())
        .await;
    if let Err(error) = reminded {
        ctx.trace_warn(format!("the reminder was not sent: {error}"));
    }
}

/// Takes the price.
async fn charge(
    ctx: &OrchestrationContext,
    trip: &Trip,
    undo: &mut Vec<Undo>,
) -> Result<String, String> {
    ctx.set_custom_status("charging");
    let charge = Charge {
        key: format!("{}/charge", ctx.instance_id()),
        traveller: trip.traveller.clone(),
        cents: trip.price_cents,
    };
    let answer = ctx
        .schedule_activity_with_retry_typed(CHARGE_TRAVELLER, &charge, retries())
        .await;
    match answer {
        Ok(Payment::Paid { receipt }) => Ok(receipt),
        Ok(Payment::Declined) => Err("the card was declined".to_owned()),
        Err(error) => {
            // Nobody knows whether the card was charged.
            undo.push((REFUND_TRAVELLER, charge.key));
            Err(format!("the payment got no answer: {error}"))
        }
    }
}

/// Undoes what was done, the last step first. An error names what a person has to do.
async fn compensate(ctx: &OrchestrationContext, undo: Vec<Undo>) -> Result<(), String> {
    let mut by_hand = Vec::new();
    for (activity, key) in undo.into_iter().rev() {
        let undone: Result<(), String> = ctx
            .schedule_activity_with_retry_typed(activity, &key, retries())
            .await;
        if let Err(error) = undone {
            by_hand.push(format!("{activity} {key} ({error})"));
        }
    }
    if by_hand.is_empty() {
        return Ok(());
    }
    Err(format!("do this by hand: {}", by_hand.join(", ")))
}
