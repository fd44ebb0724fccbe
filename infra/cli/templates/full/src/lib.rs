//! The workflows: booking a trip, in plain async Rust. Nothing here knows where it runs.
//!
//! ```text
//!   book-leg 1 ─┐
//!   book-leg 2 ─┼─> wait for `confirmation` ──> charge-traveller ──> booked
//!   book-leg 3 ─┘   (reminds at half time)             │
//!        │ sold out         │ no, or no answer         │ declined
//!        └──────────────────┴── release-seat, for each ┴───────────> cancelled
//! ```
//!
//! | module | what it shows |
//! |---|---|
//! | [`trip`] | input and output, as JSON |
//! | [`book_trip`] | the orchestration: children in parallel, an event with a deadline, compensation |
//! | [`book_leg`] | the child orchestration: an activity with retries |
//! | [`activities`] | where the workflow meets the world |
//!
//! An orchestration decides what happens. After each step it runs again from its beginning, and what
//! happened before is answered from its history. So it must always ask for the same things in the
//! same order: no clock, no randomness and no I/O except through `ctx`, and no iteration over a
//! `HashMap`. An activity does the work: it may do anything, and may run more than once.

pub mod activities;
pub mod book_leg;
pub mod book_trip;
pub mod trip;

use duroxide::OrchestrationRegistry;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{BackoffStrategy, RetryPolicy};
use std::time::Duration;

/// What the function `orchestrator` can run.
pub fn orchestrations() -> OrchestrationRegistry {
    // What clients start is not `register_typed`: its error for a wrong input does not name the field.
    OrchestrationRegistry::builder()
        .register(book_trip::NAME, book_trip::book_trip)
        .register_typed(book_leg::NAME, book_leg::book_leg)
        .build()
}

/// What the function `worker` can run.
pub fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register_typed(activities::RESERVE_SEAT, activities::reserve_seat)
        .register_typed(activities::RELEASE_SEAT, activities::release_seat)
        .register_typed(activities::REMIND_TRAVELLER, activities::remind_traveller)
        .register_typed(activities::CHARGE_TRAVELLER, activities::charge_traveller)
        .register_typed(activities::REFUND_TRAVELLER, activities::refund_traveller)
        .build()
}

/// How often a call that got no answer is made: five times, after 1, 2, 4 and 8 seconds.
fn retries() -> RetryPolicy {
    RetryPolicy::new(5).with_backoff(BackoffStrategy::Exponential {
        base: Duration::from_secs(1),
        multiplier: 2.0,
        max: Duration::from_secs(60),
    })
}
