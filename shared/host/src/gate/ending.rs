//! Ending an instance that this build cannot run: what duroxide would decide, from the history alone.
//!
//! duroxide replays the orchestration to cancel it, and a replay that is blocked never gets there. So when a turn with a
//! cancellation is blocked, this decision is committed in its place: the instance fails as cancelled, its activities are
//! cancelled, its children are asked to cancel, and its parent hears of it. Where the history cannot be read, the store finds
//! these. An instance that nobody has registered for days ends likewise, as given up, with a dead letter.

use super::block::is_over;
use super::open::Parent;
use duroxide::providers::{ExecutionMetadata, OrchestrationItem, ScheduledActivityIdentifier, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind, build_child_instance_id};
use duroxide_cosmos::TurnDecision;
use std::collections::BTreeMap;

/// What ends the instance, if a message of the turn cancels it.
pub(crate) fn cancelled(item: &OrchestrationItem) -> Option<TurnDecision> {
    let reason = cancellation(item)?;
    let details = ErrorDetails::Application {
        kind: AppErrorKind::Cancelled { reason: reason.clone() },
        message: String::new(),
        retryable: false,
    };
    ended(item, Some(reason), details)
}

/// Why a message of the turn cancels an instance whose history cannot be read.
pub(super) fn cancelled_unread(item: &OrchestrationItem) -> Option<String> {
    let reason = cancellation(item).filter(|_| item.history_error.is_some());
    reason.cloned()
}

/// The turn of an instance that has ended, and whose history cannot be read: duroxide would see there that it is over.
pub(super) fn consumed(item: &OrchestrationItem) -> Option<TurnDecision> {
    item.history_error.as_ref()?;
    Some(TurnDecision {
        execution: item.execution_id,
        events: Vec::new(),
        messages: Vec::new(),
        metadata: ExecutionMetadata::default(),
        cancelled: Vec::new(),
        work: Vec::new(),
        given_up: None,
    })
}

fn cancellation(item: &OrchestrationItem) -> Option<&String> {
    item.messages.iter().find_map(|message| match message {
        WorkItem::CancelInstance { reason, .. } => Some(reason),
        _ => None,
    })
}

/// What ends an instance that nobody can run.
pub(super) fn given_up(item: &OrchestrationItem, reason: &str) -> Option<TurnDecision> {
    let details = ErrorDetails::Application {
        kind: AppErrorKind::OrchestrationFailed,
        message: reason.to_owned(),
        retryable: false,
    };
    let decision = ended(item, None, details)?;
    Some(TurnDecision {
        given_up: Some(reason.to_owned()),
        ..decision
    })
}

fn ended(item: &OrchestrationItem, cancelled: Option<&String>, details: ErrorDetails) -> Option<TurnDecision> {
    let is_next = item
        .messages
        .iter()
        .any(|message| matches!(message, WorkItem::ContinueAsNew { .. }));
    if item.history.iter().any(is_over) || (item.history_error.is_some() && !is_next) {
        return None;
    }
    let begin = begin(item)?;
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
    if let Some(reason) = cancelled {
        append(EventKind::OrchestrationCancelRequested { reason: reason.clone() });
    }
    append(EventKind::OrchestrationFailed {
        details: details.clone(),
    });
    let mut messages: Vec<WorkItem> = open
        .children
        .values()
        .map(|child| WorkItem::CancelInstance {
            instance: build_child_instance_id(&item.instance, child),
            // The word of duroxide.
            reason: "parent canceled".to_owned(),
        })
        .collect();
    let mut metadata = ExecutionMetadata {
        status: Some("Failed".to_owned()),
        output: Some(details.display_message()),
        ..ExecutionMetadata::default()
    };
    if let Some(EventKind::OrchestrationStarted {
        name,
        version,
        parent_instance,
        ..
    }) = begin.started.as_ref().map(|event| &event.kind)
    {
        metadata.orchestration_name = Some(name.clone());
        metadata.orchestration_version = Some(version.clone());
        metadata.parent_instance_id = parent_instance.clone();
    }
    messages.extend(parent_of(item).map(|parent| parent.failed(details)));
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
        given_up: None,
    })
}

/// The parent that waits for the instance of a turn. Every turn asks for it, so nothing but its id is copied.
pub(super) fn parent_of(item: &OrchestrationItem) -> Option<Parent> {
    let (instance, execution, call) = match item.messages.iter().find(|message| begins(item, message)) {
        Some(
            WorkItem::ContinueAsNew {
                parent_instance,
                parent_execution_id,
                parent_id,
                ..
            }
            | WorkItem::StartOrchestration {
                parent_instance,
                parent_execution_id,
                parent_id,
                ..
            },
        ) => (parent_instance, parent_execution_id, parent_id),
        _ => match &item.history.first()?.kind {
            EventKind::OrchestrationStarted {
                parent_instance,
                parent_execution_id,
                parent_id,
                ..
            } => (parent_instance, parent_execution_id, parent_id),
            _ => return None,
        },
    };
    Some(Parent {
        instance: instance.clone()?,
        execution: execution.unwrap_or(duroxide::INITIAL_EXECUTION_ID),
        call: (*call)?,
    })
}

/// Whether the message begins the execution that the turn would run.
fn begins(item: &OrchestrationItem, message: &WorkItem) -> bool {
    match message {
        WorkItem::ContinueAsNew { .. } => true,
        WorkItem::StartOrchestration { .. } => item.history.is_empty(),
        _ => false,
    }
}

/// Adds the answer to the parent of an orchestration that fails, if it is missing.
pub(super) fn tell_parent(decision: &mut TurnDecision, parent: Option<&Parent>) {
    let failure = decision.events.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationFailed { details } => Some(details.display_message()),
        _ => None,
    });
    let is_told = decision
        .messages
        .iter()
        .any(|message| matches!(message, WorkItem::SubOrchFailed { .. }));
    if let (Some(parent), Some(message), false) = (parent, failure, is_told) {
        let details = ErrorDetails::Application {
            kind: AppErrorKind::OrchestrationFailed,
            message,
            retryable: false,
        };
        decision.messages.push(parent.failed(details));
    }
}

impl Parent {
    fn failed(&self, details: ErrorDetails) -> WorkItem {
        WorkItem::SubOrchFailed {
            parent_instance: self.instance.clone(),
            parent_execution_id: self.execution,
            parent_id: self.call,
            details,
        }
    }
}

/// Where the execution stands that is cancelled.
struct Begin<'a> {
    execution: u64,
    history: &'a [Event],
    /// Its first event, if this turn would have begun it.
    started: Option<Event>,
}

fn begin(item: &OrchestrationItem) -> Option<Begin<'_>> {
    let message = item.messages.iter().find(|message| begins(item, message));
    let started = message.and_then(|message| {
        let is_next = matches!(message, WorkItem::ContinueAsNew { .. });
        Some((item.execution_id + u64::from(is_next), started_by(message)?))
    });
    match started {
        Some((execution, started)) => Some(Begin {
            execution,
            history: &[],
            started: Some(Event::with_event_id(1, &item.instance, execution, None, started)),
        }),
        None if item.history.is_empty() => None,
        None => Some(Begin {
            execution: item.execution_id,
            history: &item.history,
            started: None,
        }),
    }
}

/// The first event of the execution that a message begins.
fn started_by(message: &WorkItem) -> Option<EventKind> {
    let (WorkItem::ContinueAsNew {
        orchestration,
        version,
        input,
        parent_instance,
        parent_id,
        parent_execution_id,
        ..
    }
    | WorkItem::StartOrchestration {
        orchestration,
        version,
        input,
        parent_instance,
        parent_id,
        parent_execution_id,
        ..
    }) = message
    else {
        return None;
    };
    Some(EventKind::OrchestrationStarted {
        name: orchestration.clone(),
        // No build has chosen one.
        version: version.clone().unwrap_or_else(|| "0.0.0".to_owned()),
        input: input.clone(),
        parent_instance: parent_instance.clone(),
        parent_id: *parent_id,
        parent_execution_id: *parent_execution_id,
        carry_forward_events: None,
        initial_custom_status: None,
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
