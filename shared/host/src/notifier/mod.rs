//! Notifiers: they send wakeups to the functions.
//!
//! The store is the truth, and a wakeup only saves polling. So a notifier may lose, repeat and reorder wakeups. It need not
//! bound its own time: `bounded.rs` does, and counts the failures.
//!
//! | implementation | where |
//! |---|---|
//! | [`Sqs`] | production: one queue for turns, one for activities, one per tag that has its own |
//! | `Memory` | tests and benchmarks: keeps the wakeups until they are taken |

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

/// A wakeup that arrives after a delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delayed {
    /// The wakeup.
    pub wakeup: Wakeup,
    /// The delay. SQS counts in whole seconds; a fraction is rounded up.
    pub delay: Duration,
}

impl Delayed {
    /// A wakeup without delay.
    pub fn now(wakeup: Wakeup) -> Delayed {
        Delayed {
            wakeup,
            delay: Duration::ZERO,
        }
    }
}

/// A wakeup that was not accepted.
#[derive(Clone, Debug)]
pub struct NotSent {
    /// The wakeup.
    pub wakeup: Wakeup,
    /// Why, for the log.
    pub reason: String,
}

/// Sends wakeups to the functions that serve them. Implement it to use another transport than SQS.
#[async_trait]
pub trait Notifier: fmt::Debug + Send + Sync {
    /// Sends the wakeups in as few calls as the service allows, and returns those that were not accepted.
    async fn notify(&self, wakeups: &[Delayed]) -> Vec<NotSent>;
}
