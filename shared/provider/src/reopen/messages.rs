//! The messages that a reopened execution needs.

use super::{Reopened, beginning};
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};
use std::collections::HashSet;

/// The messages that are delivered again, in order, each with the time of its place among others. `unrecorded` are messages that the
/// last turn has consumed without a trace in the history: it was given up.
pub(crate) fn again(
    events: &[Event],
    reopened: &Reopened,
    instance: &str,
    execution: u64,
    unrecorded: Vec<WorkItem>,
) -> Vec<(WorkItem, u64)> {
    let mut messages: Vec<(WorkItem, u64)> = not_inherited(events, instance);
    messages.extend(reopened.delivered.iter().filter_map(|n| {
        let event = &events[*n];
        Some((message_of(event, instance, execution)?, event.timestamp_ms))
    }));
    let at = events.last().map_or(0, |event| event.timestamp_ms);
    let ids = |positions: &[usize]| {
        positions
            .iter()
            .map(|n| events[*n].event_id())
            .collect::<HashSet<u64>>()
    };
    let (activities, timers, children) = (
        ids(&reopened.activities),
        ids(&reopened.timers),
        ids(&reopened.children),
    );
    let is_wanted = |item: &WorkItem| match item {
        WorkItem::ActivityCompleted { execution_id, id, .. } => *execution_id == execution && activities.contains(id),
        WorkItem::TimerFired { execution_id, id, .. } => *execution_id == execution && timers.contains(id),
        WorkItem::SubOrchCompleted {
            parent_execution_id,
            parent_id,
            ..
        } => *parent_execution_id == execution && children.contains(parent_id),
        WorkItem::ExternalRaised { .. } | WorkItem::QueueMessage { .. } => true,
        _ => false,
    };
    messages.extend(unrecorded.into_iter().filter(is_wanted).map(|item| (item, at)));
    messages
}

/// A message that only makes a turn due: duroxide drops the timer of an execution that never was.
pub(crate) fn nudge(instance: &str) -> WorkItem {
    WorkItem::TimerFired {
        instance: instance.to_owned(),
        execution_id: 0,
        id: 0,
        fire_at_ms: 0,
    }
}

/// The queue messages that the execution inherited and never got: its first turn was given up.
fn not_inherited(events: &[Event], instance: &str) -> Vec<(WorkItem, u64)> {
    let Some((
        EventKind::OrchestrationStarted {
            carry_forward_events: Some(carried),
            ..
        },
        at,
    )) = events.first().map(|event| (&event.kind, event.timestamp_ms))
    else {
        return Vec::new();
    };
    let missing = carried.iter().skip(beginning(events) - 1);
    let message = |(name, data): &(String, String)| WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: name.clone(),
        data: data.clone(),
    };
    missing.map(|carried| (message(carried), at)).collect()
}

/// The message that an incoming event came from.
fn message_of(event: &Event, instance: &str, execution_id: u64) -> Option<WorkItem> {
    let instance = instance.to_owned();
    Some(match (&event.kind, event.source_event_id) {
        (EventKind::ActivityCompleted { result }, Some(id)) => WorkItem::ActivityCompleted {
            instance,
            execution_id,
            id,
            result: result.clone(),
        },
        (EventKind::TimerFired { fire_at_ms }, Some(id)) => WorkItem::TimerFired {
            instance,
            execution_id,
            id,
            fire_at_ms: *fire_at_ms,
        },
        (EventKind::SubOrchestrationCompleted { result }, Some(parent_id)) => WorkItem::SubOrchCompleted {
            parent_instance: instance,
            parent_execution_id: execution_id,
            parent_id,
            result: result.clone(),
        },
        (EventKind::ExternalEvent { name, data }, _) => WorkItem::ExternalRaised {
            instance,
            name: name.clone(),
            data: data.clone(),
        },
        (EventKind::QueueEventDelivered { name, data }, _) => WorkItem::QueueMessage {
            instance,
            name: name.clone(),
            data: data.clone(),
        },
        _ => return None,
    })
}

/// The work item of an activity that an event has scheduled.
pub(crate) fn activity_of(event: &Event, instance: &str, execution_id: u64) -> Option<WorkItem> {
    let EventKind::ActivityScheduled {
        name,
        input,
        session_id,
        tag,
    } = &event.kind
    else {
        return None;
    };
    Some(WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id,
        id: event.event_id(),
        name: name.clone(),
        input: input.clone(),
        session_id: session_id.clone(),
        tag: tag.clone(),
    })
}

/// The start that the first event came from.
pub(crate) fn start_of(events: &[Event], instance: &str) -> Option<WorkItem> {
    let EventKind::OrchestrationStarted {
        name,
        input,
        parent_instance,
        parent_id,
        parent_execution_id,
        ..
    } = &events.first()?.kind
    else {
        return None;
    };
    Some(WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: name.clone(),
        input: input.clone(),
        // The registry chooses.
        version: None,
        parent_instance: parent_instance.clone(),
        parent_id: *parent_id,
        parent_execution_id: *parent_execution_id,
        execution_id: duroxide::INITIAL_EXECUTION_ID,
    })
}
