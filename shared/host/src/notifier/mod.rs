//! Notifiers: they send wakeups to the functions.
//!
//! The store is the truth, and a wakeup only saves polling. So a notifier may lose, repeat and reorder wakeups. It need not
//! bound its own time: `bounded.rs` does, and counts the failures.
//!
//! A notifier also answers how many wakeups a queue holds, so that maintenance does not wake what merely waits in it.
//! `coalesce.rs` makes one wakeup of several for the same turn.
//!
//! | implementation | where |
//! |---|---|
//! | [`Sqs`] | production: one queue for turns, one for activities, one per tag that has its own |
//! | `Memory` | tests and benchmarks: keeps the wakeups until they are taken |

mod bounded;
mod coalesce;
mod depth;
#[cfg(any(test, feature = "internals"))]
pub(crate) mod memory;
mod sqs;

use crate::wakeup::Wakeup;
use async_trait::async_trait;
use duroxide_cosmos::{CosmosProvider, Target};
use std::fmt;
use std::time::Duration;

pub use bounded::BoundedNotifier;
pub(crate) use coalesce::{Coalescer, UnderWay};
pub use depth::{Depth, QueueName, QueueSettings};
#[cfg(feature = "internals")]
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

    /// The same with what the process has spent on the instance and no commit has counted.
    pub(crate) fn with_late_usage(self, store: &CosmosProvider) -> Delayed {
        Delayed {
            wakeup: self.wakeup.with_late_usage(store),
            ..self
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

    /// The queue that wakeups for a target go to. By default one for turns and one for activities.
    fn queue_of(&self, target: &Target) -> QueueName {
        QueueName::of(target)
    }

    /// All queues that [`queue_of`](Self::queue_of) names.
    fn queues(&self) -> Vec<QueueName> {
        vec![QueueName::turns(), QueueName::works()]
    }

    /// How many wakeups wait in a queue, for maintenance. `None` (the default) if that is not known: maintenance then
    /// wakes overdue items at growing ages.
    async fn depth(&self, _queue: &QueueName) -> Option<Depth> {
        None
    }

    /// The settings of a queue, for whoever examines a deployment; `None` (the default) if the transport has none.
    ///
    /// # Errors
    /// Why they cannot be read.
    async fn settings(&self, _queue: &QueueName) -> Result<Option<QueueSettings>, String> {
        Ok(None)
    }
}
