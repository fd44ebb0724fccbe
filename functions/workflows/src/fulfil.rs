//! The orchestration `fulfil-order`.
//!
//! duroxide keeps no stack between turns: whenever something completes, it runs this code again from the top, and answers
//! from history whatever was answered before. So the code must ask for the same things in the same sequence each time. It
//! takes no clock, no randomness and no I/O except through `ctx`; iterates over `Vec`s, never over `HashMap`s; and keeps no
//! state outside its own variables. Everything else is ordinary async Rust: `?`, loops, functions.
//!
//! Invariant: an order that does not end as shipped has been undone, or fails with an error that says what to do by hand.
//! Neighbours: `order` (in and out), `saga` (undoing), `parcel` (the children), `activities` (by name).

use crate::activities::{CHARGE_CARD, Call, RESERVE_STOCK};
use crate::order::{Decision, Order, Outcome, Why};
use crate::parcel::{self, SHIP_PARCEL, ShipParcel};
use crate::progress::{self, Stage};
use crate::retries;
use crate::saga::{Compensation, Saga};
use crate::shop::{Answer, Charge, Key, Reserve};
use duroxide::{Either2, OrchestrationContext};

/// Fulfils an [`Order`]; the output is an [`Outcome`], both as JSON.
pub const FULFIL_ORDER: &str = "fulfil-order";
/// The queue for a [`Decision`], as JSON. One that comes early waits in the queue.
pub const APPROVAL: &str = "approval";
/// The queue for the customer's change of mind; the message is the reason. It is looked at during the cooling-off.
pub const CANCELLATION: &str = "cancellation";

/// Why the order cannot go on: what the steps return with `?`.
struct Refusal {
    why: Why,
    reason: String,
}

pub async fn fulfil_order(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let order = Order::parse(&ctx.instance_id(), &input)?;
    let mut saga = Saga::new(order.retry_delay());
    let outcome = match fulfil(&ctx, &order, &mut saga).await {
        Ok(tracking) => {
            progress::reach(&ctx, Stage::Shipped);
            Outcome::Shipped {
                order: order.id,
                tracking,
            }
        }
        Err(refusal) => refuse(&ctx, &order, saga, refusal).await?,
    };
    serde_json::to_string(&outcome).map_err(|error| format!("the outcome cannot be written: {error}"))
}

/// The path of an order without incident.
async fn fulfil(ctx: &OrchestrationContext, order: &Order, saga: &mut Saga) -> Result<Vec<String>, Refusal> {
    secure(ctx, order, saga).await?;
    if order.needs_approval() {
        await_approval(ctx, order).await?;
    }
    cool_off(ctx, order).await?;
    ship(ctx, order, saga).await
}

/// Reserves the stock and charges the card, both at once. Both are waited for, even if one is refused: what the other
/// has done by then must be known to be undone.
async fn secure(ctx: &OrchestrationContext, order: &Order, saga: &mut Saga) -> Result<(), Refusal> {
    progress::reach(ctx, Stage::Securing);
    let instance = ctx.instance_id();
    let (reservation, charge) = (Key::of(&instance, "reserve"), Key::of(&instance, "charge"));
    let (lines, customer) = (order.lines.clone(), order.customer.clone());
    let cents = order.total_cents;
    let reserve = Call::new(reservation.clone(), Reserve { lines });
    let pay = Call::new(charge.clone(), Charge { customer, cents });
    let retries = retries::of_a_step(order.retry_delay());
    let (reserved, charged) = ctx
        .join2(
            ctx.schedule_activity_with_retry_typed(RESERVE_STOCK, &reserve, retries.clone()),
            ctx.schedule_activity_with_retry_typed(CHARGE_CARD, &pay, retries),
        )
        .await;
    if may_have_happened(&reserved) {
        saga.push(Compensation::release(&instance, reservation));
    }
    if may_have_happened(&charged) {
        saga.push(Compensation::refund(&instance, charge, order));
    }
    let reserved = reference_of(reserved, Why::OutOfStock, "reserving the stock");
    let charged = reference_of(charged, Why::CardDeclined, "charging the card");
    if let Ok(reference) = &reserved {
        ctx.set_kv_value("reservation", reference);
    }
    if let Ok(reference) = &charged {
        ctx.set_kv_value("charge", reference);
    }
    reserved.and(charged).map(|_| ())
}

/// Waits for somebody's decision, until the order's deadline.
async fn await_approval(ctx: &OrchestrationContext, order: &Order) -> Result<(), Refusal> {
    progress::reach(ctx, Stage::AwaitingApproval);
    let mut deadline = ctx.schedule_timer(order.approval_timeout());
    loop {
        // A queue and not `schedule_wait`: duroxide drops an event that nothing waits for yet, and keeps a queued one.
        // Not `dequeue_event_typed` either, which panics when the message is something else.
        let Either2::First(message) = ctx.select2(ctx.dequeue_event(APPROVAL), &mut deadline).await else {
            return Err(Refusal {
                why: Why::ApprovalTimedOut,
                reason: format!("nobody approved it within {} ms", order.approval_timeout().as_millis()),
            });
        };
        match serde_json::from_str::<Decision>(&message) {
            Ok(Decision { approved: true, by }) => {
                ctx.set_kv_value("approval", by);
                return Ok(());
            }
            Ok(Decision { approved: false, by }) => {
                return Err(Refusal {
                    why: Why::ApprovalRefused,
                    reason: format!("{by} did not approve it"),
                });
            }
            // A malformed decision does not cost the customer the order: the deadline still stands.
            Err(error) => ctx.set_kv_value(
                "approval-ignored",
                format!("{error}; send {{\"approved\": true, \"by\": \"your name\"}}"),
            ),
        }
    }
}

/// Leaves the customer time to change their mind. A timer is durable: nothing runs and nothing is billed meanwhile.
async fn cool_off(ctx: &OrchestrationContext, order: &Order) -> Result<(), Refusal> {
    progress::reach(ctx, Stage::CoolingOff);
    let cancelled = ctx.dequeue_event(CANCELLATION);
    match ctx.select2(cancelled, ctx.schedule_timer(order.cooling_off())).await {
        Either2::First(reason) => Err(Refusal {
            why: Why::Cancelled,
            reason: format!("the customer cancelled: {reason}"),
        }),
        Either2::Second(()) => Ok(()),
    }
}

/// Ships all parcels at once, one child orchestration each. All are waited for, so that all that left can be recalled.
async fn ship(ctx: &OrchestrationContext, order: &Order, saga: &mut Saga) -> Result<Vec<String>, Refusal> {
    progress::reach(ctx, Stage::Shipping);
    let instance = ctx.instance_id();
    let children = order.parcels.iter().enumerate().map(|(index, to)| {
        let input = ShipParcel {
            address: to.address.clone(),
            retry_delay: order.retry_delay(),
        };
        let child = parcel::instance_of(&instance, index + 1);
        ctx.schedule_sub_orchestration_with_id_typed(SHIP_PARCEL, child, &input)
    });
    let answers = ctx.join(children.collect()).await;
    let mut tracking = Vec::new();
    let mut refusal = None;
    for (number, answer) in (1..).zip(answers) {
        if may_have_happened(&answer) {
            saga.push(Compensation::recall(&instance, number));
        }
        match reference_of(answer, Why::NotShippable, &format!("shipping parcel {number}")) {
            Ok(reference) => {
                ctx.set_kv_value(progress::parcel_key(number), &reference);
                tracking.push(reference);
            }
            Err(first) => refusal = refusal.or(Some(first)),
        }
    }
    match refusal {
        Some(refusal) => Err(refusal),
        None => Ok(tracking),
    }
}

/// Undoes what was done, and says how it ended.
async fn refuse(ctx: &OrchestrationContext, order: &Order, saga: Saga, refusal: Refusal) -> Result<Outcome, String> {
    let Refusal { why, reason } = refusal;
    progress::reach(ctx, Stage::Undoing);
    ctx.set_kv_value("refused", &reason);
    match saga.undo(ctx).await {
        Ok(undone) => {
            progress::reach(ctx, Stage::Refused);
            Ok(Outcome::Refused {
                order: order.id.clone(),
                why,
                reason,
                undone,
            })
        }
        Err(by_hand) => {
            progress::reach(ctx, Stage::NeedsHelp);
            Err(format!(
                "order {} was refused ({reason}), and could not be undone. Do by hand: {}",
                order.id,
                by_hand.join("; ")
            ))
        }
    }
}

/// Whether a step has to be undone: it succeeded, or nobody knows.
fn may_have_happened(answer: &Result<Answer, String>) -> bool {
    !matches!(answer, Ok(Answer::Refused { .. }))
}

/// The reference of a step that succeeded.
fn reference_of(answer: Result<Answer, String>, refused: Why, step: &str) -> Result<String, Refusal> {
    match answer {
        Ok(Answer::Done { reference }) => Ok(reference),
        Ok(Answer::Refused { reason }) => Err(Refusal { why: refused, reason }),
        Err(error) => Err(Refusal {
            why: Why::NoAnswer,
            reason: format!("{step}: {error}"),
        }),
    }
}
