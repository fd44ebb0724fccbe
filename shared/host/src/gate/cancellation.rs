//! Cancelling an instance that this build cannot run: what duroxide would decide, from the history alone.
//!
//! duroxide replays the orchestration to cancel it, and a replay that is blocked never gets there. So when a turn with a
//! cancellation is blocked, this decision is committed in its place: the instance fails as cancelled, its activities are
//! cancelled, its children are asked to cancel, and its parent hears of it.

use super::block::is_over;
use duroxide::providers::{ExecutionMetadata, OrchestrationItem, ScheduledActivityIdentifier, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind, build_child_instance_id};
use duroxide_cosmos::TurnDecision;
use std::collections::BTreeMap;

/// What ends the instance, if a message of the turn cancels it.
pub(super) fn of(item: &OrchestrationItem) -> Option<TurnDecision> {
    let reason = item.messages.iter().find_map(|message| match message {
        WorkItem::CancelInstance { reason, .. } => Some(reason),
        _ => None,
    })?;
    if item.history_error.is_some() || item.history.iter().any(is_over) {
        return None;
    }
    let begin = begin(item)?;
    let details = ErrorDetails::Application {
        kind: AppErrorKind::Cancelled { reason: reason.clone() },
        message: String::new(),
        retryable: false,
    };
    let open = Open::of(begin.history);
    let mut events = Vec::from_iter(begin.started.clone());
    let mut append = |kind: EventKind| {
        let last = events.last().or(begin.history.last()).map_or(0, Event::event_id);
        events.push(Event::with_event_id(
            last + 1,
            &item.instance,
            begin.execution,
            None,
            kind,
        ));
    };
    append(EventKind::OrchestrationCancelRequested { reason: reason.clone() });
    append(EventKind::OrchestrationFailed {
        details: details.clone(),
    });
    let mut messages: Vec<WorkItem> = open
        .children
        .values()
        .map(|child| WorkItem::CancelInstance {
            instance: build_child_instance_id(&item.instance, child),
            reason: "parent canceled".to_owned(),
        })
        .collect();
    let mut metadata = ExecutionMetadata {
        status: Some("Failed".to_owned()),
        output: Some(details.display_message()),
        ..ExecutionMetadata::default()
    };
    let start = events
        .first()
        .filter(|_| begin.started.is_some())
        .or(begin.history.first());
    if let Some(EventKind::OrchestrationStarted {
        name,
        version,
        parent_instance,
        parent_id,
        parent_execution_id,
        ..
    }) = start.map(|event| &event.kind)
    {
        if begin.started.is_some() {
            metadata.orchestration_name = Some(name.clone());
            metadata.orchestration_version = Some(version.clone());
            metadata.parent_instance_id = parent_instance.clone();
        }
        if let (Some(parent), Some(id)) = (parent_instance, parent_id) {
            messages.push(WorkItem::SubOrchFailed {
                parent_instance: parent.clone(),
                parent_execution_id: parent_execution_id.unwrap_or(duroxide::INITIAL_EXECUTION_ID),
                parent_id: *id,
                details,
            });
        }
    }
    let activity = |activity_id| ScheduledActivityIdentifier {
        instance: item.instance.clone(),
        execution_id: begin.execution,
        activity_id,
    };
    Some(TurnDecision {
        execution: begin.execution,
        events,
        messages,
        metadata,
        cancelled: open.activities.into_iter().map(activity).collect(),
        work: Vec::new(),
    })
}

/// Where the execution stands that is cancelled.
struct Begin<'a> {
    execution: u64,
    history: &'a [Event],
    /// Its first event, if this turn would have begun it.
    started: Option<Event>,
}

fn begin(item: &OrchestrationItem) -> Option<Begin<'_>> {
    let start = item.messages.iter().find_map(|message| match message {
        WorkItem::ContinueAsNew {
            orchestration,
            version,
            input,
            parent_instance,
            parent_id,
            parent_execution_id,
            ..
        } => Some((
            item.execution_id + 1,
            orchestration,
            version,
            input,
            parent_instance,
            parent_id,
            parent_execution_id,
        )),
        WorkItem::StartOrchestration {
            orchestration,
            version,
            input,
            parent_instance,
            parent_id,
            parent_execution_id,
            execution_id,
            ..
        } if item.history.is_empty() => Some((
            *execution_id,
            orchestration,
            version,
            input,
            parent_instance,
            parent_id,
            parent_execution_id,
        )),
        _ => None,
    });
    let Some((execution, name, version, input, parent_instance, parent_id, parent_execution_id)) = start else {
        return (!item.history.is_empty()).then(|| Begin {
            execution: item.execution_id,
            history: &item.history,
            started: None,
        });
    };
    let started = EventKind::OrchestrationStarted {
        name: name.clone(),
        // No build has chosen one.
        version: version.clone().unwrap_or_else(|| "0.0.0".to_owned()),
        input: input.clone(),
        parent_instance: parent_instance.clone(),
        parent_id: *parent_id,
        parent_execution_id: *parent_execution_id,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    Some(Begin {
        execution,
        history: &[],
        started: Some(Event::with_event_id(1, &item.instance, execution, None, started)),
    })
}

/// What an execution has scheduled and not heard of.
#[derive(Default)]
struct Open {
    activities: Vec<u64>,
    children: BTreeMap<u64, String>,
}

impl Open {
    fn of(history: &[Event]) -> Open {
        let mut open = Open::default();
        for event in history {
            match &event.kind {
                EventKind::ActivityScheduled { .. } => open.activities.push(event.event_id()),
                EventKind::SubOrchestrationScheduled { instance, .. } => {
                    open.children.insert(event.event_id(), instance.clone());
                }
                EventKind::ActivityCompleted { .. }
                | EventKind::ActivityFailed { .. }
                | EventKind::SubOrchestrationCompleted { .. }
                | EventKind::SubOrchestrationFailed { .. } => {
                    let of = event.source_event_id;
                    open.activities.retain(|id| Some(*id) != of);
                    open.children.retain(|id, _| Some(*id) != of);
                }
                _ => {}
            }
        }
        open
    }
}
