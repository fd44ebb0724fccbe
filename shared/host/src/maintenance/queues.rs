//! The queues of wakeups in one run: asks for their depth, reads which probes came through, and sends new ones.
//!
//! `queue_view` decides; this module does the requests. All of them are made only when a run has overdue items: one for the
//! depth of each queue concerned, one for all notes of probes. A failure leaves the queue unknown, or the probe not noted.
//!
//! The last reminder of each queue waits until the end of the run and carries the probe, so that the probe is behind all other
//! reminders and costs no message of its own. If all items of a queue were held back, the probe is a wakeup for the oldest
//! of them.

use super::queue_view::{QueueView, Reminded, RunTimes, absorb};
use super::wakeups::{RunWakeups, SentWakeups, reminder};
use crate::notifier::{BoundedNotifier, Delayed, Depth, QueueName};
use crate::wakeup::Probe;
use duroxide_cosmos::{CosmosProvider, DueItem, QueueState, Target};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::{Instant, timeout_at};

/// See the module.
#[derive(Debug)]
pub(super) struct Queues {
    notifier: BoundedNotifier,
    run: RunTimes,
    states: BTreeMap<String, QueueState>,
    has_read_notes: bool,
    met: BTreeMap<QueueName, Met>,
    /// Overdue items whose wakeups may still be in their queue.
    pub(super) held: u64,
}

/// A queue with overdue items.
#[derive(Debug)]
struct Met {
    view: QueueView,
    depth: Depth,
    reminders: u64,
    reminded: Reminded,
    /// The due times of reminders that were taken and perhaps not sent.
    unsent: Option<(u64, u64)>,
    carrier: Option<Carrier>,
}

/// The span of both.
fn joined(span: Option<(u64, u64)>, (from_ms, until_ms): (u64, u64)) -> Option<(u64, u64)> {
    let (from, until) = span.unwrap_or((from_ms, until_ms));
    Some((from.min(from_ms), until.max(until_ms)))
}

/// The wakeup that carries the probe.
#[derive(Debug)]
enum Carrier {
    /// A reminder that was not sent yet.
    Reminder(Delayed),
    /// A wakeup for an item that was held back.
    Held(Delayed),
}

impl Queues {
    pub(super) fn new(states: BTreeMap<String, QueueState>, run: RunTimes, notifier: BoundedNotifier) -> Queues {
        Queues {
            notifier,
            run,
            states,
            has_read_notes: false,
            met: BTreeMap::new(),
            held: 0,
        }
    }

    /// The queue of a target.
    pub(super) fn queue_of(&self, target: &Target) -> QueueName {
        self.notifier.queue_of(target)
    }

    /// Learns about these queues what is not known yet.
    pub(super) async fn learn(&mut self, names: BTreeSet<QueueName>, provider: &CosmosProvider, deadline: Instant) {
        let new: Vec<QueueName> = names.into_iter().filter(|name| !self.met.contains_key(name)).collect();
        if new.is_empty() {
            return;
        }
        self.read_notes(provider, deadline).await;
        let left = deadline.saturating_duration_since(Instant::now());
        let depths = new.iter().map(|name| self.notifier.depth_within(left, name));
        let depths = futures::future::join_all(depths).await;
        for (name, depth) in new.into_iter().zip(depths) {
            let state = self.states.entry(name.as_str().to_owned()).or_default();
            let met = Met {
                view: QueueView::new(&name, state, depth, &self.run),
                depth: depth.unwrap_or_default(),
                reminders: 0,
                reminded: Reminded::default(),
                unsent: None,
                carrier: None,
            };
            tracing::debug!(queue = %name, view = ?met.view, depth = ?met.depth, "a queue with overdue items");
            self.met.insert(name, met);
        }
    }

    /// Reads which probes came through, once in a run, if one is awaited.
    async fn read_notes(&mut self, provider: &CosmosProvider, deadline: Instant) {
        let awaiting = self.states.values().filter(|state| state.awaited.is_some());
        let Some(after_ms) = awaiting.map(|state| state.passed_ms).min() else {
            return;
        };
        if std::mem::replace(&mut self.has_read_notes, true) {
            return;
        }
        match timeout_at(deadline, provider.passed_probes(after_ms)).await {
            Ok(Ok(passed)) => {
                for (name, state) in &mut self.states {
                    absorb(state, name, &passed, &self.run);
                }
            }
            // The next run reads them; until then items may be held back that could be woken.
            Ok(Err(error)) => tracing::warn!(%error, "the notes of probes could not be read"),
            Err(_) => tracing::warn!("the notes of probes could not be read in time"),
        }
    }

    /// What is known of a queue.
    pub(super) fn view(&self, queue: &QueueName) -> QueueView {
        self.met
            .get(queue)
            .map_or_else(QueueView::unknown, |met| met.view.clone())
    }

    /// Holds an item back.
    pub(super) fn hold(&mut self, queue: &QueueName, item: &DueItem) {
        self.held += 1;
        let Some(met) = self.met.get_mut(queue).filter(|met| met.carrier.is_none()) else {
            return;
        };
        let mut held = reminder(item, 0);
        // Not a reminder: its own wakeup is probably in the queue. If it is busy, this one need not come again.
        held.wakeup.overdue = false;
        met.carrier = Some(Carrier::Held(held));
    }

    /// Takes a reminder, and returns what to send now.
    pub(super) fn remind(&mut self, queue: &QueueName, due_ms: u64, reminder: Delayed) -> Option<Delayed> {
        let Some(met) = self.met.get_mut(queue) else {
            return Some(reminder);
        };
        met.reminders += 1;
        met.unsent = joined(met.unsent, (due_ms, due_ms));
        if !met.view.wants_probe() {
            return Some(reminder);
        }
        match met.carrier.replace(Carrier::Reminder(reminder)) {
            Some(Carrier::Reminder(earlier)) => Some(earlier),
            Some(Carrier::Held(_)) | None => None,
        }
    }

    /// The reminders that were taken since the last call were sent, or some were not: those count as never woken.
    pub(super) fn note_sent(&mut self, is_whole: bool) {
        for met in self.met.values_mut() {
            if let Some(span) = met.unsent.take().filter(|_| is_whole) {
                met.reminded.span = joined(met.reminded.span, span);
            }
        }
    }

    /// Whether all messages, and whether all activities, that are due at `from_ms` or later may still be in their queues. The
    /// run need not read them then.
    pub(super) async fn closed_from(
        &mut self,
        from_ms: u64,
        provider: &CosmosProvider,
        deadline: Instant,
    ) -> (bool, bool) {
        if !self.met.values().any(|met| met.view.may_hold_all_from(from_ms)) {
            return (false, false);
        }
        let all = self.notifier.queues();
        self.learn(all.iter().cloned().collect(), provider, deadline).await;
        let is_closed = |name: &QueueName| {
            self.met
                .get(name)
                .is_some_and(|met| met.view.may_hold_all_from(from_ms))
        };
        let (turns, works): (Vec<_>, Vec<_>) = all.iter().partition(|name| name.is_of_turns());
        (turns.into_iter().all(is_closed), works.into_iter().all(is_closed))
    }

    /// Sends the probes. Returns what became of the reminders that carry them.
    pub(super) async fn send_probes(&mut self, wakeups: &mut RunWakeups) -> SentWakeups {
        let mut sent = SentWakeups::default();
        for (name, met) in &mut self.met {
            let Some(carrier) = met.carrier.take() else {
                continue;
            };
            let is_reminder = matches!(carrier, Carrier::Reminder(_));
            let (Carrier::Reminder(mut delayed) | Carrier::Held(mut delayed)) = carrier;
            delayed.wakeup.probe = Some(Probe {
                queue: name.as_str().to_owned(),
                sent_ms: self.run.now_ms,
            });
            let of_probe = wakeups.notify(vec![delayed]).await;
            if of_probe.sent > 0 {
                let ahead = met.depth.waiting.saturating_add(met.depth.in_flight);
                met.reminded.probe_after = Some(ahead.saturating_add(met.reminders));
            }
            if is_reminder {
                sent.sent += of_probe.sent;
                sent.failed += of_probe.failed;
                sent.left += of_probe.left;
            }
        }
        sent
    }

    /// The state for the next run. `is_whole`: this run has examined all overdue items.
    pub(super) fn into_states(mut self, is_whole: bool) -> BTreeMap<String, QueueState> {
        for (name, state) in &mut self.states {
            let met = self.met.get(&QueueName::from_kept(name));
            match met.map(|met| met.reminded) {
                Some(reminded) => reminded.apply(state, self.run.now_ms),
                // Without overdue items nobody waits for a probe.
                None if is_whole => state.awaited = None,
                None => {}
            }
        }
        self.states
    }
}
