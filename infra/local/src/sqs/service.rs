//! All queues of one account, behind one lock.

use super::queue::{Depth, Message, Now, Queue, QueueSettings, Received};
use cosmos::{Clock, SystemClock};
use duroxide_cosmos::{Ids, RandomIds};
use fastrand::Rng;
use serde::Serialize;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Messages to lose on purpose: accepted and never delivered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// The share that is lost, from 0 to 1.
    pub share: f64,
    /// Decides which ones.
    pub seed: u64,
}

/// Counts of one queue since the cloud started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueCounts {
    /// Accepted from senders.
    pub sent: u64,
    /// Of these, lost on purpose.
    pub lost: u64,
    /// Moved to the dead-letter queue.
    pub dead: u64,
}

/// The queue does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no queue {0:?}")]
pub(crate) struct NoQueue(pub(crate) String);

/// See the module.
#[derive(Debug)]
pub(crate) struct Sqs {
    queues: Mutex<BTreeMap<String, Entry>>,
    loss: Option<Mutex<Rng>>,
    share: f64,
}

#[derive(Debug)]
struct Entry {
    queue: Queue,
    counts: QueueCounts,
    /// Notified of every message that may become visible sooner than a waiting receiver expects.
    changed: Arc<Notify>,
}

impl Sqs {
    pub(crate) fn new(queues: Vec<QueueSettings>, loss: Option<Loss>) -> Sqs {
        let entries = queues.into_iter().map(|settings| {
            let entry = Entry {
                counts: QueueCounts::default(),
                changed: Arc::new(Notify::new()),
                queue: Queue::new(settings),
            };
            (entry.queue.settings.name.clone(), entry)
        });
        Sqs {
            queues: Mutex::new(entries.collect()),
            loss: loss.map(|loss| Mutex::new(Rng::with_seed(loss.seed))),
            share: loss.map_or(0.0, |loss| loss.share),
        }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.entries().keys().cloned().collect()
    }

    pub(crate) fn settings(&self, name: &str) -> Result<QueueSettings, NoQueue> {
        self.with(name, |entry| entry.queue.settings.clone())
    }

    pub(crate) fn depth(&self, name: &str) -> Result<Depth, NoQueue> {
        self.with(name, |entry| entry.queue.depth(now()))
    }

    pub(crate) fn counts(&self, name: &str) -> Result<QueueCounts, NoQueue> {
        self.with(name, |entry| entry.counts)
    }

    /// Accepts a message and returns its id.
    pub(crate) fn send(&self, name: &str, body: String, delay: Duration) -> Result<String, NoQueue> {
        let lost = self.loses_one();
        self.with(name, |entry| {
            let now = now();
            let message = Message {
                id: RandomIds.unique(),
                body,
                sent_ms: now.unix_ms,
                receives: 0,
                first_received_ms: None,
            };
            let id = message.id.clone();
            entry.counts.sent += 1;
            entry.counts.lost += u64::from(lost);
            if !lost {
                entry.queue.send(message, delay, now);
                entry.changed.notify_waiters();
            }
            id
        })
    }

    /// Receives up to `most` messages; waits up to `wait` for the first.
    pub(crate) async fn receive(
        &self,
        name: &str,
        most: usize,
        visibility: Option<Duration>,
        wait: Duration,
    ) -> Result<Vec<Received>, NoQueue> {
        let end = Instant::now() + wait;
        let changed = self.with(name, |entry| Arc::clone(&entry.changed))?;
        loop {
            // Registered before the queue is read, so that no change in between is missed.
            let mut notified = pin!(changed.notified());
            notified.as_mut().enable();
            let taken = self.take(name, most, visibility)?;
            if !taken.is_empty() || Instant::now() >= end {
                return Ok(taken);
            }
            let next = self.with(name, |entry| entry.queue.next_visible())?;
            let until = next.map_or(end, |next| next.min(end));
            // A notification and a timeout both lead to another look at the queue.
            tokio::time::timeout_at(until, notified).await.unwrap_or_default();
        }
    }

    /// Receives what is visible now; moves what was received as often as allowed to the dead-letter queue.
    fn take(&self, name: &str, most: usize, visibility: Option<Duration>) -> Result<Vec<Received>, NoQueue> {
        let mut entries = self.entries();
        let entry = entries.get_mut(name).ok_or_else(|| NoQueue(name.to_owned()))?;
        let now = now();
        let taken = entry.queue.receive(most, visibility, now);
        entry.counts.dead += taken.dead.len() as u64;
        let redrive = entry.queue.settings.redrive.as_ref();
        let dead_letters = redrive.map(|redrive| redrive.dead_letters.clone());
        for message in taken.dead {
            tracing::warn!(
                queue = name,
                id = message.id,
                "a message was received as often as allowed; it goes to the dead-letter queue"
            );
            if let Some(target) = dead_letters.as_ref().and_then(|target| entries.get_mut(target)) {
                target.counts.sent += 1;
                target.queue.send(message, Duration::ZERO, now);
                target.changed.notify_waiters();
            }
        }
        Ok(taken.received)
    }

    /// Removes a message. An outdated receipt returns false and is no error, as with the service.
    pub(crate) fn delete(&self, name: &str, receipt: &str) -> Result<bool, NoQueue> {
        self.with(name, |entry| entry.queue.delete(receipt))
    }

    pub(crate) fn change_visibility(&self, name: &str, receipt: &str, hidden: Duration) -> Result<bool, NoQueue> {
        self.with(name, |entry| {
            let changed = entry.queue.change_visibility(receipt, hidden, now());
            entry.changed.notify_waiters();
            changed
        })
    }

    pub(crate) fn purge(&self, name: &str) -> Result<(), NoQueue> {
        self.with(name, |entry| entry.queue.purge())
    }

    fn loses_one(&self) -> bool {
        let Some(loss) = &self.loss else {
            return false;
        };
        loss.lock().unwrap_or_else(PoisonError::into_inner).f64() < self.share
    }

    fn with<T>(&self, name: &str, work: impl FnOnce(&mut Entry) -> T) -> Result<T, NoQueue> {
        let mut entries = self.entries();
        let entry = entries.get_mut(name).ok_or_else(|| NoQueue(name.to_owned()))?;
        Ok(work(entry))
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        // Queues are consistent after every statement, so a panic elsewhere leaves them usable.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now() -> Now {
    Now {
        instant: Instant::now(),
        unix_ms: SystemClock.now_ms(),
    }
}
