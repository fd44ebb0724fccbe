//! Where to cut a history.
//!
//! By default the failure is undone and nothing else that matters:
//!
//! 1. The last turn.
//! 2. If no activity or child failed in it, but the error of the orchestration names the error of one that failed before (a saga went
//!    on with its other compensations, and reported the failed one at its end), everything from that failure on: the latest
//!    one. Not if that would undo the start of a child, or an activity that has neither completed nor failed.
//! 3. If the call that failed had failed before (`schedule_activity_with_retry` schedules each attempt as a new activity), the earlier
//!    attempts and the timers between them, so that the whole retry policy applies again; likewise other failures that the error
//!    names. But never over a result that was obtained, a child, or an activity that may still have run.

use super::{is_failure, is_incoming, is_result};
use duroxide::{Event, EventKind};
use std::collections::{HashMap, HashSet};

/// A shorter error names nothing: too many texts contain it.
const LEAST_NAME: usize = 4;

/// How many events make the beginning: the start, and the queue messages that it inherited. They are always kept.
pub(crate) fn beginning(events: &[Event]) -> usize {
    let carried = match events.first().map(|event| &event.kind) {
        Some(EventKind::OrchestrationStarted {
            carry_forward_events: Some(carried),
            ..
        }) => carried.len(),
        _ => 0,
    };
    let inherited = events
        .iter()
        .skip(1)
        .take(carried)
        .take_while(|event| matches!(event.kind, EventKind::QueueEventDelivered { .. }));
    events.len().min(1) + inherited.count()
}

/// The last place at or before `at` where the kept part does not end with an incoming event.
pub(crate) fn settle(events: &[Event], at: usize) -> usize {
    let (first, mut at) = (beginning(events), at.min(events.len()));
    while at > first && is_incoming(&events[at - 1]) {
        at -= 1;
    }
    at.max(first)
}

/// The place before this event: where its turn begins, or the last turn if the event comes later.
pub(crate) fn before(events: &[Event], event: u64, last_turn: usize) -> usize {
    let at = events.iter().position(|other| other.event_id() >= event);
    let mut at = at.unwrap_or(events.len()).min(last_turn);
    // A turn makes its events together: without all of them, nothing would make the others again.
    while at < last_turn && at > beginning(events) && !is_incoming(&events[at]) {
        at -= 1;
    }
    settle(events, at)
}

/// The place that undoes a failure. The last turn begins at `last_turn`.
pub(crate) fn default_cut(events: &[Event], last_turn: usize) -> usize {
    let scheduled: HashMap<u64, (&str, &str)> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ActivityScheduled { name, input, .. } => {
                Some((event.event_id(), (name.as_str(), input.as_str())))
            }
            _ => None,
        })
        .collect();
    let failed_of = |event: &Event| match &event.kind {
        EventKind::ActivityFailed { .. } => scheduled.get(&event.source_event_id?).copied(),
        _ => None,
    };
    let error = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::OrchestrationFailed { details } => Some(details.display_message()),
        _ => None,
    });
    let is_named = |event: &Event| match (&event.kind, &error) {
        (EventKind::ActivityFailed { details } | EventKind::SubOrchestrationFailed { details }, Some(error)) => {
            let message = details.display_message();
            message.len() >= LEAST_NAME && error.contains(&message)
        }
        _ => false,
    };
    let mut cut = settle(events, last_turn);
    if !events[cut..].iter().any(is_failure)
        && let Some(named) = events[..cut].iter().rposition(is_named)
        && is_ended(events, settle(events, named), last_turn)
    {
        cut = settle(events, named);
    }
    loop {
        let failed: HashSet<(&str, &str)> = events[cut..].iter().filter_map(failed_of).collect();
        let is_attempt = |event: &Event| {
            failed_of(event).is_some_and(|call| failed.contains(&call)) || (!failed.is_empty() && is_named(event))
        };
        let Some(earlier) = events[..cut].iter().rposition(is_attempt) else {
            return cut;
        };
        let earlier = settle(events, earlier);
        if !is_only_retries(events, earlier, cut) {
            return cut;
        }
        cut = earlier;
    }
}

/// Whether everything that was begun in this part and may have had an effect has ended: activities, and no child.
fn is_ended(events: &[Event], from: usize, to: usize) -> bool {
    let sources = events[from..]
        .iter()
        .filter(|event| is_result(event) || is_failure(event));
    let ended: HashSet<u64> = sources.filter_map(|event| event.source_event_id).collect();
    events[from..to].iter().all(|event| match &event.kind {
        EventKind::ActivityScheduled { .. } => ended.contains(&event.event_id()),
        EventKind::SubOrchestrationScheduled { .. } | EventKind::OrchestrationChained { .. } => false,
        _ => true,
    })
}

/// Whether nothing but attempts that have failed, and timers, was begun in this part: undoing it loses nothing.
fn is_only_retries(events: &[Event], from: usize, to: usize) -> bool {
    let part = &events[from..to];
    let ended: HashSet<u64> = events[from..]
        .iter()
        .filter(|event| matches!(event.kind, EventKind::ActivityFailed { .. }))
        .filter_map(|event| event.source_event_id)
        .collect();
    let begun: HashSet<u64> = part.iter().map(Event::event_id).collect();
    part.iter().all(|event| match &event.kind {
        EventKind::ActivityScheduled { .. } => ended.contains(&event.event_id()),
        EventKind::SubOrchestrationScheduled { .. } | EventKind::OrchestrationChained { .. } => false,
        _ if is_result(event) => event.source_event_id.is_none_or(|source| !begun.contains(&source)),
        _ => true,
    })
}
