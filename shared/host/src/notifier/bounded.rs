//! NotifyingProvider within a bound: the one place that sends wakeups.
//!
//! Wakeups follow a commit and never undo it: whatever goes wrong here is logged and counted, and the caller is told in
//! time which wakeups were not taken. A wakeup that was not taken costs time until the sweep finds its target, never work.

use crate::metrics::Metrics;
use crate::notifier::{Delayed, NotSent, Notifier};
use std::sync::Arc;
use std::time::Duration;

/// How many failed wakeups of one call are logged one by one; the rest is a number.
const LOGGED: usize = 10;

/// A notifier with a time limit.
#[derive(Clone, Debug)]
pub struct BoundedNotifier {
    notifier: Arc<dyn Notifier>,
    limit: Duration,
    metrics: Arc<Metrics>,
}

impl BoundedNotifier {
    /// Wakeups this notifier, waiting for it at most `limit` each time.
    pub fn new(notifier: Arc<dyn Notifier>, limit: Duration, metrics: Arc<Metrics>) -> BoundedNotifier {
        BoundedNotifier {
            notifier,
            limit,
            metrics,
        }
    }

    /// Sends the wakeups and answers those that were not taken, after the time limit at the latest.
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
            // Some may have been sent all the same: then the repeated wakeup finds nothing to do.
            Err(_) => not_in_time(&wakeups, limit),
        };
        self.metrics
            .wakeups(wakeups.len().saturating_sub(failed.len()), failed.len());
        for not_sent in failed.iter().take(LOGGED) {
            tracing::warn!(
                instance = not_sent.wakeup.target.instance(),
                activity = not_sent.wakeup.target.activity(),
                reason = not_sent.reason,
                "a wakeup was not taken: its target waits for maintenance, or for its next wakeup"
            );
        }
        if failed.len() > LOGGED {
            tracing::warn!(wakeups = failed.len() - LOGGED, "more wakeups were not taken");
        }
        failed
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
