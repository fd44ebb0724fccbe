//! Notifying within a time limit: the one place that sends wakeups.
//!
//! Wakeups follow a commit and never undo it: failures are logged and counted, and returned to the caller within the limit.
//! A wakeup that was not accepted costs time until the sweep finds its target, never work.

use crate::metrics::{Metric, Metrics};
use crate::notifier::{Delayed, Depth, NotSent, Notifier, QueueName};
use duroxide_cosmos::Target;
use std::sync::Arc;
use std::time::Duration;

/// Failed wakeups of one call that are logged one by one; the rest is counted.
const LOGGED: usize = 10;

/// A notifier with a time limit.
#[derive(Clone, Debug)]
pub struct BoundedNotifier {
    notifier: Arc<dyn Notifier>,
    limit: Duration,
    metrics: Arc<Metrics>,
}

impl BoundedNotifier {
    /// Waits for this notifier at most `limit` each time.
    pub fn new(notifier: Arc<dyn Notifier>, limit: Duration, metrics: Arc<Metrics>) -> BoundedNotifier {
        BoundedNotifier {
            notifier,
            limit,
            metrics,
        }
    }

    /// Sends the wakeups and returns those that were not accepted, after the time limit at the latest.
    pub async fn notify(&self, wakeups: Vec<Delayed>) -> Vec<NotSent> {
        self.notify_within(self.limit, wakeups).await
    }

    /// The same in an invocation that has only so much time left.
    pub async fn notify_within(&self, left: Duration, wakeups: Vec<Delayed>) -> Vec<NotSent> {
        if wakeups.is_empty() {
            return Vec::new();
        }
        let limit = self.limit.min(left);
        let failed = match tokio::time::timeout(limit, self.notifier.notify(&wakeups)).await {
            Ok(failed) => failed,
            // Some may have been sent after all: a repeated wakeup finds nothing to do.
            Err(_) => not_in_time(&wakeups, limit),
        };
        let sent = wakeups.len().saturating_sub(failed.len());
        self.metrics.count(Metric::WakeupsSent, sent as u64);
        self.metrics.count(Metric::WakeupsFailed, failed.len() as u64);
        for not_sent in failed.iter().take(LOGGED) {
            tracing::warn!(
                instance = not_sent.wakeup.target.instance(),
                activity = not_sent.wakeup.target.activity(),
                reason = not_sent.reason,
                "a wakeup was not sent: its target waits for its next wakeup, or for maintenance"
            );
        }
        if failed.len() > LOGGED {
            tracing::warn!(wakeups = failed.len() - LOGGED, "more wakeups were not sent");
        }
        failed
    }

    /// The queue of a target.
    pub(crate) fn queue_of(&self, target: &Target) -> QueueName {
        self.notifier.queue_of(target)
    }

    /// All queues.
    pub(crate) fn queues(&self) -> Vec<QueueName> {
        self.notifier.queues()
    }

    /// How many wakeups wait in a queue; `None` if that is not known within the time limit.
    pub(crate) async fn depth_within(&self, left: Duration, queue: &QueueName) -> Option<Depth> {
        let depth = tokio::time::timeout(self.limit.min(left), self.notifier.depth(queue)).await;
        depth.unwrap_or_else(|_| {
            tracing::warn!(%queue, "the depth of a queue was not answered in time: overdue items are woken at growing ages");
            None
        })
    }
}

fn not_in_time(wakeups: &[Delayed], limit: Duration) -> Vec<NotSent> {
    let reason = format!("the notifier did not answer within {} ms", limit.as_millis());
    let not_sent = |delayed: &Delayed| NotSent {
        wakeup: delayed.wakeup.clone(),
        reason: reason.clone(),
    };
    wakeups.iter().map(not_sent).collect()
}
