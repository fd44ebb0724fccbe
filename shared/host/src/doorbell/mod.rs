//! Doorbells: how a ring reaches the function that serves it.
//!
//! The store is the truth and a ring is a hint, so a doorbell may lose, repeat and reorder rings. It must not block:
//! its caller bounds it in time (`ringer.rs`) and counts what failed.
//!
//! | implementation | where |
//! |---|---|
//! | [`Sqs`] | production: one queue for turns, one for activities, one per tag that has its own |
//! | [`Memory`] | tests and benchmarks: keeps what was rung until it is taken |

mod memory;
mod sqs;

use crate::ring::Ring;
use async_trait::async_trait;
use std::fmt;
use std::time::Duration;

pub use memory::Memory;
pub use sqs::{Queues, Sqs};

/// A ring on its way, to arrive after a delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delayed {
    /// What to deliver.
    pub ring: Ring,
    /// How long the doorbell holds it back. Whole seconds count; a fraction is rounded up.
    pub delay: Duration,
}

impl Delayed {
    /// A ring that is delivered at once.
    pub fn now(ring: Ring) -> Delayed {
        Delayed {
            ring,
            delay: Duration::ZERO,
        }
    }
}

/// A ring that was not taken, and why.
#[derive(Clone, Debug)]
pub struct NotRung {
    /// Which.
    pub ring: Ring,
    /// Why, in words for the log.
    pub reason: String,
}

/// Delivers rings to the functions that serve them.
#[async_trait]
pub trait Doorbell: fmt::Debug + Send + Sync {
    /// Sends all of them, in as few calls as the service allows, and answers those that were not taken.
    async fn ring(&self, rings: &[Delayed]) -> Vec<NotRung>;
}
