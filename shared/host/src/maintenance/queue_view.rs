//! What a run knows of a queue of wakeups, and which overdue items may still be in it. Pure decisions, no I/O.
//!
//! An overdue item is woken again only if its wakeup cannot be in the queue any more. SQS says how many messages a queue
//! has, but not how old they are. So a run that meets overdue items sends a *probe* with the last of their wakeups: when it
//! has come through the queue, everything that was sent before it has come through as well.
//!
//! | the queue | woken again |
//! |---|---|
//! | is empty | every overdue item |
//! | has messages | what was due, and woken again, no later than the newest probe that came through |
//! | has messages, and a probe is missing for too long (an hour at most) | as if nothing were known |
//! | is unknown | items that reach one of the growing ages (`reminders`); if a probe is awaited, as if there were messages |
//!
//! What can go wrong, and what it costs:
//!
//! - A probe is lost: the next run sends another, so an item waits for one more period. If all are lost (the functions are of
//!   a release that does not know them), [`patience`] ends the waiting.
//! - The queue is not strictly in order, or a function has received an item and not begun it: a wakeup too many. A probe
//!   counts only some time after it came through, which leaves few.
//! - The depth lags behind (SQS: up to a minute): the threshold is the time that it has to catch up.
//! - A queue of activities has *delayed* messages: wakeups that met a busy target and are sent again later. No probe shows
//!   where they are, and each reminder would become one more of them. There, items are woken at the growing ages.

use super::reminders::{EAGER_MS, is_timer};
use crate::notifier::{Depth, QueueName};
use duroxide_cosmos::{AwaitedProbe, DueItem, PassedProbe, QueueState, RemindedSpan};

/// In a queue with at most so many messages a new timer does not wait for a probe: it is late already.
const SHORT: u64 = 100;
/// After so many periods without it, a probe in a short queue is lost.
const LEAST_PATIENCE_PERIODS: u64 = 10;
/// So many runs with reminders are told apart until a probe comes through.
const MOST_SPANS: usize = 16;
/// How long a function may take for each message before a probe, even if there is only one.
const PATIENCE_MS_PER_MESSAGE: u64 = 10_000;

/// The times of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunTimes {
    pub now_ms: u64,
    pub last_run_ms: u64,
    pub period_ms: u64,
    pub threshold_ms: u64,
}

impl RunTimes {
    /// How long ago a probe must have come through: functions have begun by then what came before it.
    fn grace_ms(&self) -> u64 {
        self.threshold_ms.min(self.period_ms / 2)
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueView {
    holds: Holds,
    /// Whether overdue items are woken by every run, rather than at growing ages.
    pub is_every_run: bool,
    is_short: bool,
    has_depth: bool,
    last_run_ms: u64,
    reminded: Vec<RemindedSpan>,
}

/// Which wakeups a queue may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Unknown,
    Nothing,
    /// Only those that were sent later than this (Unix ms).
    SentAfter(u64),
}

impl QueueView {
    /// What state and depth say about a queue.
    pub(super) fn new(queue: &QueueName, state: &QueueState, depth: Option<Depth>, run: &RunTimes) -> QueueView {
        let held = depth.map(|depth| depth.waiting.saturating_add(depth.in_flight));
        let holds = match held {
            Some(0) => Holds::Nothing,
            _ if is_missing(state.awaited, run) => Holds::Unknown,
            // The service does not answer now, but there were messages when the probe was sent.
            None if state.awaited.is_none() => Holds::Unknown,
            _ => Holds::SentAfter(state.passed_ms),
        };
        let has_sent_again = !queue.is_of_turns() && depth.is_some_and(|depth| depth.delayed > 0);
        QueueView {
            holds,
            is_every_run: holds != Holds::Unknown && !has_sent_again,
            is_short: held.is_some_and(|held| held <= SHORT),
            has_depth: held.is_some(),
            last_run_ms: run.last_run_ms,
            reminded: state.reminded.clone(),
        }
    }

    /// Of a queue whose depth is not known.
    pub(super) fn unknown() -> QueueView {
        QueueView {
            holds: Holds::Unknown,
            is_every_run: false,
            is_short: false,
            has_depth: false,
            last_run_ms: 0,
            reminded: Vec::new(),
        }
    }

    /// Whether a probe is sent: where the depth is not known, it would show nothing.
    pub(super) fn wants_probe(&self) -> bool {
        self.has_depth
    }

    /// Whether the queue may still hold the wakeup of an overdue item.
    pub(super) fn may_hold(&self, item: &DueItem) -> bool {
        let Holds::SentAfter(passed_ms) = self.holds else {
            return false;
        };
        // A timer is woken by the first run after its time, unless there is a backlog.
        if self.is_short && is_timer(item) && item.due_ms > self.last_run_ms {
            return false;
        }
        self.last_sent_ms(item) > passed_ms
    }

    /// Whether it may hold the wakeups of all items that are due at this time or later.
    pub(super) fn may_hold_all_from(&self, due_ms: u64) -> bool {
        let is_closed = matches!(self.holds, Holds::SentAfter(passed_ms) if passed_ms < due_ms);
        // New timers of a short queue are still to be found.
        is_closed && !self.is_short
    }

    /// When the last wakeup of an item was sent, at the latest.
    fn last_sent_ms(&self, item: &DueItem) -> u64 {
        let first_ms = item.due_ms.max(item.queued_ms.unwrap_or(0));
        let of_item = |span: &&RemindedSpan| (span.from_ms..=span.until_ms).contains(&item.due_ms);
        let again_ms = self.reminded.iter().filter(of_item).map(|span| span.at_ms).max();
        first_ms.max(again_ms.unwrap_or(0))
    }
}

/// Takes the probes that came through into the state of their queue.
pub(super) fn absorb(state: &mut QueueState, queue: &str, passed: &[PassedProbe], run: &RunTimes) {
    let is_old_enough = |probe: &&PassedProbe| probe.passed_ms.saturating_add(run.grace_ms()) <= run.now_ms;
    let own = passed.iter().filter(|probe| probe.queue == queue);
    let newest = own.filter(is_old_enough).map(|probe| probe.sent_ms).max();
    state.passed_ms = state.passed_ms.max(newest.unwrap_or(0));
    state.awaited = state.awaited.filter(|probe| probe.sent_ms > state.passed_ms);
    state.reminded.retain(|span| span.at_ms > state.passed_ms);
}

/// The state as if nothing in it were later than now: the clock of an earlier run was ahead.
pub(super) fn not_ahead(state: &mut QueueState, now_ms: u64) {
    state.passed_ms = state.passed_ms.min(now_ms);
    state.awaited = state.awaited.filter(|probe| probe.sent_ms <= now_ms);
    state.reminded.retain(|span| span.at_ms <= now_ms);
}

/// What a run did to a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reminded {
    /// The due times of the oldest and of the newest item that was woken again.
    pub span: Option<(u64, u64)>,
    /// How many wakeups were before the probe, if one was sent.
    pub probe_after: Option<u64>,
}

impl Reminded {
    /// The state of the queue after the run.
    pub(super) fn apply(&self, state: &mut QueueState, now_ms: u64) {
        if let Some((from_ms, until_ms)) = self.span {
            let at_ms = now_ms;
            state.reminded.push(RemindedSpan {
                from_ms,
                until_ms,
                at_ms,
            });
            shorten(&mut state.reminded);
        }
        let probe = |ahead| AwaitedProbe { sent_ms: now_ms, ahead };
        state.awaited = state.awaited.or(self.probe_after.map(probe));
    }
}

/// Joins the oldest of too many spans: what lies between them counts as woken with the later one.
fn shorten(spans: &mut Vec<RemindedSpan>) {
    while spans.len() > MOST_SPANS {
        let oldest = spans.remove(0);
        let next = &mut spans[0];
        next.from_ms = next.from_ms.min(oldest.from_ms);
        next.until_ms = next.until_ms.max(oldest.until_ms);
    }
}

fn is_missing(awaited: Option<AwaitedProbe>, run: &RunTimes) -> bool {
    awaited.is_some_and(|probe| probe.sent_ms.saturating_add(patience(probe.ahead, run.period_ms)) < run.now_ms)
}

/// How long a probe may take that had so many wakeups before it.
fn patience(ahead: u64, period_ms: u64) -> u64 {
    let least = period_ms.saturating_mul(LEAST_PATIENCE_PERIODS);
    let most = EAGER_MS.max(period_ms.saturating_mul(2));
    least.max(ahead.saturating_mul(PATIENCE_MS_PER_MESSAGE)).min(most)
}

#[cfg(test)]
mod tests;
