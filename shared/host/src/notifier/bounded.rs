//! Notifying within a time limit: the one place that sends wakeups.
//!
//! Wakeups follow a commit and never undo it: failures are logged and counted, and returned to the caller within the limit.
//! A wakeup that was not accepted costs time until the sweep finds its target, never work.

use crate::metrics::{Metric, Metrics};
use crate::notifier::{Delayed, Depth, NotSent, Notifier, QueueName};
use duroxide_cosmos::Target;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most wakeups that the time limit is for: a turn with thousands of activities gets more time to wake them, instead of
/// leaving all of them to maintenance.
const SLICE: usize = 500;

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
    /// Waits for this notifier at most `limit` for each 500 wakeups.
    pub fn new(notifier: Arc<dyn Notifier>, limit: Duration, metrics: Arc<Metrics>) -> BoundedNotifier {
        BoundedNotifier {
            notifier,
            limit,
            metrics,
        }
    }

    /// Sends the wakeups and returns those that were not accepted. Once some were not accepted in time, the rest is not tried.
    pub async fn notify(&self, wakeups: Vec<Delayed>) -> Vec<NotSent> {
        self.notify_within(self.limit, wakeups).await
    }

    /// The same in an invocation that has only so much time left.
    pub async fn notify_within(&self, left: Duration, wakeups: Vec<Delayed>) -> Vec<NotSent> {
        if wakeups.is_empty() {
            return Vec::new();
        }
        let begun = Instant::now();
        let mut failed = Vec::new();
        for from in (0..wakeups.len()).step_by(SLICE) {
            let slice = &wakeups[from..wakeups.len().min(from + SLICE)];
            let limit = self.limit.min(left.saturating_sub(begun.elapsed()));
            match tokio::time::timeout(limit, self.notifier.notify(slice)).await {
                Ok(refused) => failed.extend(refused),
                // Some may have been sent after all: a repeated wakeup finds nothing to do.
                Err(_) => {
                    failed.extend(not_in_time(&wakeups[from..], limit));
                    break;
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup::Wakeup;
    use async_trait::async_trait;
    use std::sync::Mutex;

    const LIMIT: Duration = Duration::from_secs(2);

    /// Takes its time for each call.
    #[derive(Debug)]
    struct Slow {
        time: Duration,
        calls: Mutex<Vec<usize>>,
    }

    #[async_trait]
    impl Notifier for Slow {
        async fn notify(&self, wakeups: &[Delayed]) -> Vec<NotSent> {
            self.calls.lock().unwrap().push(wakeups.len());
            tokio::time::sleep(self.time).await;
            Vec::new()
        }

        fn queue_of(&self, _: &Target) -> QueueName {
            QueueName::turns()
        }

        fn queues(&self) -> Vec<QueueName> {
            vec![QueueName::turns()]
        }

        async fn depth(&self, _: &QueueName) -> Option<Depth> {
            None
        }
    }

    /// Sends so many wakeups. Returns the sizes of the calls, and how many wakeups were not sent.
    async fn send(count: usize, time: Duration, left: Duration) -> (Vec<usize>, usize) {
        let calls = Mutex::default();
        let slow = Arc::new(Slow { time, calls });
        let notifier = Arc::clone(&slow) as Arc<dyn Notifier>;
        let bounded = BoundedNotifier::new(notifier, LIMIT, Arc::new(Metrics::new(None)));
        let wakeups = (0..count).map(|n| Delayed::now(Wakeup::turn(format!("i{n}"))));
        let failed = bounded.notify_within(left, wakeups.collect()).await.len();
        let calls = slow.calls.lock().unwrap().clone();
        (calls, failed)
    }

    #[tokio::test(start_paused = true)]
    async fn each_slice_has_the_time_limit_and_the_first_that_exceeds_it_is_the_last() {
        let (in_time, late) = (LIMIT * 9 / 10, LIMIT * 2);
        assert_eq!(send(1_200, in_time, LIMIT * 10).await, (vec![500, 500, 200], 0));
        assert_eq!(send(1_200, late, LIMIT * 10).await, (vec![500], 1_200));
        let two = in_time * 2 + Duration::from_millis(1);
        assert_eq!(
            send(1_200, in_time, two).await,
            (vec![500, 500, 200], 200),
            "the invocation ends"
        );
    }
}
