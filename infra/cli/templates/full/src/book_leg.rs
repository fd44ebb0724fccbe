//! The child orchestration `book-leg`: reserves a seat on one leg.
//!
//! A child is an instance of its own, with its own history: a trip of a hundred legs stays small, and
//! each leg can be watched.

use crate::activities::{RESERVE_SEAT, Reservation, ReserveSeat};
use crate::retries;
use duroxide::OrchestrationContext;

pub const NAME: &str = "book-leg";

pub async fn book_leg(ctx: OrchestrationContext, seat: ReserveSeat) -> Result<Reservation, String> {
    ctx.set_custom_status(format!("reserving {}", seat.leg));
    ctx.schedule_activity_with_retry_typed(RESERVE_SEAT, &seat, retries())
        .await
}
