//! Notifiers: how a wakeup reaches the function that serves it.
//!
//! The store is the truth and a wakeup is a hint, so a notifier may lose, repeat and reorder wakeups. It must not block:
//! its caller bounds it in time (`notifier.rs`) and counts what failed.
//!
//! | implementation | where |
//! |---|---|
//! | [`Sqs`] | production: one queue for turns, one for activities, one per tag that has its own |
//! | [`Memory`] | tests and benchmarks: keeps what was notified until it is taken |

mod bounded;
#[cfg(any(test, feature = "testing"))]
mod memory;
mod sqs;

use crate::wakeup::Wakeup;
use async_trait::async_trait;
use std::fmt;
use std::time::Duration;

pub use bounded::BoundedNotifier;
#[cfg(feature = "testing")]
pub use memory::Memory;
pub use sqs::{Queues, Sqs};

/// A wakeup on its way, to arrive after a delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delayed {
    /// What to deliver.
    pub wakeup: Wakeup,
    /// How long the notifier holds it back. Whole seconds count; a fraction is rounded up.
    pub delay: Duration,
}

impl Delayed {
    /// A wakeup that is delivered at once.
    pub fn now(wakeup: Wakeup) -> Delayed {
        Delayed {
            wakeup,
            delay: Duration::ZERO,
        }
    }
}

/// A wakeup that was not taken, and why.
#[derive(Clone, Debug)]
pub struct NotSent {
    /// Which.
    pub wakeup: Wakeup,
    /// Why, in words for the log.
    pub reason: String,
}

/// Delivers wakeups to the functions that serve them.
#[async_trait]
pub trait Notifier: fmt::Debug + Send + Sync {
    /// Sends all of them, in as few calls as the service allows, and answers those that were not taken.
    async fn notify(&self, wakeups: &[Delayed]) -> Vec<NotSent>;
}
