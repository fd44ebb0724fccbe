//! Deciding how an execution goes on from an earlier point of its history: the core of rewind and fork. No I/O.
//!
//! ```text
//!   started  schedule A, B, timer  | A completed | B failed, failed
//!   └───────── kept ──────────────┘└── undone ──────────────────┘     A's result is delivered again, B runs again,
//!                                                                     the timer is created again
//! ```
//!
//! Events are *incoming* (results, timers, events, queue messages, a cancellation) or made by the code. The kept part never ends with
//! incoming events: these become messages again, in their order, so that a turn is due and takes them as at first. What the kept
//! part has scheduled and not heard of is *open*:
//!
//! | open | incoming event after the cut | becomes |
//! |---|---|---|
//! | activity | completed | its result as a message |
//! | activity | failed, or none | it is scheduled again, under the same id: for what it calls, a retry of the same call |
//! | timer | fired | its message |
//! | timer | none | its message, due at the original time |
//! | child | completed | its result as a message |
//! | child | failed, or none | the caller settles it: rewinds it, waits for it, starts it |
//! | event, queue | any | the message, whoever waits for it |
//! | cancellation | | nothing: it is undone |
//!
//! A result whose activity was scheduled after the cut is kept as well: when the code schedules an activity with the same name and
//! input again, it gets that result, and the activity does not run a second time. Likewise an event that a subscription after the cut
//! has taken: duroxide drops an event that comes before the subscription, so it waits until the code subscribes again.
//!
//! If only the beginning is kept, no message may be left. Then `nudge` asks for a message that duroxide drops: the turn that it makes
//! due runs the code from its beginning.

mod cut;
mod messages;
#[cfg(test)]
mod tests;

pub(crate) use cut::{before, beginning, default_cut, settle};
pub(crate) use messages::{activity_of, again, nudge, start_of};

use duroxide::{Event, EventKind};
use std::collections::{HashMap, HashSet, VecDeque};

/// How an execution goes on. Numbers are positions in its history.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reopened {
    /// So many events are kept.
    pub kept: usize,
    /// Incoming events that become messages again, in order.
    pub delivered: Vec<usize>,
    /// Activities that are scheduled again: the events that scheduled them.
    pub activities: Vec<usize>,
    /// Timers that have not fired.
    pub timers: Vec<usize>,
    /// Children that have not completed.
    pub children: Vec<usize>,
    /// Results of activities whose scheduling is undone, and events whose subscription is: they are kept for when the code schedules
    /// the same activity, or subscribes, again.
    pub reused: Vec<usize>,
    /// Children that were started and whose start is undone.
    pub undone_children: Vec<usize>,
    /// Failures of activities and children that are kept: the code has handled them, or fails by them again.
    pub kept_failures: Vec<usize>,
    /// Only the beginning is kept: a turn must be made due.
    pub nudge: bool,
}

/// Whether the event came from outside of the code.
pub(crate) fn is_incoming(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::TimerFired { .. }
            | EventKind::ExternalEvent { .. }
            | EventKind::QueueEventDelivered { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. }
            | EventKind::OrchestrationCancelRequested { .. }
    )
}

fn is_failure(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::ActivityFailed { .. } | EventKind::SubOrchestrationFailed { .. }
    )
}

fn is_result(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::ActivityCompleted { .. } | EventKind::SubOrchestrationCompleted { .. }
    )
}

/// Which subscription has taken each event, as duroxide matches them: the first that waits for its name.
fn takers_of(events: &[Event]) -> HashMap<usize, usize> {
    let mut waiting: HashMap<&str, VecDeque<usize>> = HashMap::new();
    let mut takers = HashMap::new();
    for (n, event) in events.iter().enumerate() {
        match &event.kind {
            EventKind::ExternalSubscribed { name } => waiting.entry(name).or_default().push_back(n),
            EventKind::ExternalSubscribedCancelled { .. } => {
                let is_other = |n: &usize| Some(events[*n].event_id()) != event.source_event_id;
                waiting.values_mut().for_each(|of| of.retain(is_other));
            }
            EventKind::ExternalEvent { name, .. } => {
                let taker = waiting.get_mut(name.as_str()).and_then(VecDeque::pop_front);
                takers.extend(taker.map(|taker| (n, taker)));
            }
            _ => {}
        }
    }
    takers
}

/// How an execution goes on from `cut`, which [`settle`] has settled. `last_turn` is where its last turn begins: what that turn
/// scheduled was never begun.
pub(crate) fn reopen(events: &[Event], cut: usize, last_turn: usize) -> Reopened {
    let (kept, undone) = events.split_at(cut.min(events.len()));
    let mut open: HashMap<u64, usize> = HashMap::new();
    for (n, event) in kept.iter().enumerate() {
        match (&event.kind, event.source_event_id) {
            (
                EventKind::ActivityScheduled { .. }
                | EventKind::TimerCreated { .. }
                | EventKind::SubOrchestrationScheduled { .. },
                _,
            ) => {
                open.insert(event.event_id(), n);
            }
            // A completion, or a cancellation because the code has dropped it.
            (_, Some(source)) => {
                open.remove(&source);
            }
            _ => {}
        }
    }
    let takers = takers_of(events);
    let undone_ids: HashSet<u64> = undone.iter().map(Event::event_id).collect();
    let mut reopened = Reopened {
        kept: kept.len(),
        kept_failures: (0..kept.len()).filter(|n| is_failure(&kept[*n])).collect(),
        nudge: kept.len() <= beginning(events),
        ..Reopened::default()
    };
    for (n, event) in (kept.len()..).zip(undone) {
        match (&event.kind, event.source_event_id) {
            (EventKind::ExternalEvent { .. }, _) if takers.get(&n).is_some_and(|taker| *taker >= kept.len()) => {
                reopened.reused.push(n);
            }
            (EventKind::ExternalEvent { .. } | EventKind::QueueEventDelivered { .. }, _) => reopened.delivered.push(n),
            (EventKind::TimerFired { .. }, Some(source)) if open.remove(&source).is_some() => {
                reopened.delivered.push(n)
            }
            (_, Some(source)) if is_result(event) => {
                let is_activity = matches!(event.kind, EventKind::ActivityCompleted { .. });
                if open.remove(&source).is_some() {
                    reopened.delivered.push(n);
                } else if is_activity && undone_ids.contains(&source) {
                    reopened.reused.push(n);
                }
            }
            (EventKind::SubOrchestrationScheduled { .. }, _) if n < last_turn => reopened.undone_children.push(n),
            _ => {}
        }
    }
    let mut left: Vec<usize> = open.into_values().collect();
    left.sort_unstable();
    for n in left {
        match kept[n].kind {
            EventKind::ActivityScheduled { .. } => reopened.activities.push(n),
            EventKind::TimerCreated { .. } => reopened.timers.push(n),
            _ => reopened.children.push(n),
        }
    }
    reopened
}
