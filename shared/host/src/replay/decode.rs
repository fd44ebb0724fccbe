//! A recording as duroxide's types, or why this build cannot read it. Pure.

use super::engine::Engine;
use super::recording::Recording;
use super::replayed::{Cause, Fault};
use crate::gate::{cut, not_registered};
use duroxide::providers::KvEntry;
use duroxide::{ErrorDetails, Event, EventKind, OrchestrationRegistry, SemverRange};

/// A history, and the code that replays it.
#[derive(Debug)]
pub(super) struct Decoded {
    pub engine: Engine,
    /// The events, without those of the end.
    pub events: Vec<Event>,
    pub ending: Option<Ending>,
    /// Whether the keys that the execution found are known.
    pub knows_keys: bool,
}

/// How a recorded execution has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub event: u64,
    pub how: How,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum How {
    Completed(String),
    /// By an error of its code.
    Failed(String),
    ContinuedAsNew(String),
    /// Not by its code: it was cancelled, given up, or could not go on.
    Stopped,
}

pub(super) fn decoded(recording: Recording, orchestrations: &OrchestrationRegistry) -> Result<Decoded, Box<Fault>> {
    let events = events(&recording)?;
    let started = events.first();
    let Some(EventKind::OrchestrationStarted {
        name, version, input, ..
    }) = started.map(|event| &event.kind)
    else {
        let reason = "its history does not begin with the start of the orchestration";
        return Err(Box::new(Fault::new(Cause::History, reason)));
    };
    let written_by = started.map(|event| event.duroxide_version.as_str()).unwrap_or_default();
    let readable = SemverRange::default_for_current_build();
    if let Ok(pinned) = semver::Version::parse(written_by)
        && !readable.contains(&pinned)
    {
        let reason = format!(
            "its execution was begun by duroxide {pinned}, and the new build has {}",
            readable.max
        );
        return Err(Box::new(Fault::new(Cause::History, reason)));
    }
    let (name, version, input) = (name.clone(), version.clone(), input.clone());
    let exact = semver::Version::parse(&version).ok();
    let Some(handler) = exact.and_then(|exact| orchestrations.resolve_handler_exact(&name, &exact)) else {
        let reason = not_registered(orchestrations, &name, Some(&version), "the new build does not register");
        return Err(Box::new(Fault::new(Cause::UnknownName, reason)));
    };
    let knows_keys = recording.keys.is_some();
    let keys = recording.keys.unwrap_or_default().into_iter();
    let engine = Engine {
        handler,
        instance: recording.instance,
        execution: recording.execution,
        name,
        version,
        input,
        keys: keys
            .map(|key| {
                let entry = KvEntry {
                    value: key.value,
                    last_updated_at_ms: key.set_at_ms,
                };
                (key.key, entry)
            })
            .collect(),
    };
    let (events, ending) = split(events);
    Ok(Decoded {
        engine,
        events,
        ending,
        knows_keys,
    })
}

fn events(recording: &Recording) -> Result<Vec<Event>, Box<Fault>> {
    let mut events: Vec<Event> = Vec::with_capacity(recording.events.len());
    for (index, raw) in recording.events.iter().enumerate() {
        let event: Event = serde_json::from_str(raw.get()).map_err(|error| {
            let reason = format!(
                "event {} of its history cannot be read by the new build: {}",
                index + 1,
                cut(&error.to_string())
            );
            Box::new(Fault::new(Cause::History, reason))
        })?;
        if events.last().is_some_and(|last| last.event_id >= event.event_id) {
            let reason = format!("its history is damaged: event {} is out of order", event.event_id);
            return Err(Box::new(Fault::new(Cause::History, reason)));
        }
        events.push(event);
    }
    Ok(events)
}

/// The events before the end, and the end. duroxide does not replay an execution that has ended, and with the end it records
/// cancellations of what was still open.
fn split(mut events: Vec<Event>) -> (Vec<Event>, Option<Ending>) {
    let end = events.iter().enumerate().find_map(|(index, event)| {
        let how = match &event.kind {
            EventKind::OrchestrationCompleted { output } => How::Completed(output.clone()),
            EventKind::OrchestrationFailed {
                details:
                    ErrorDetails::Application {
                        kind: duroxide::AppErrorKind::OrchestrationFailed,
                        message,
                        ..
                    },
            } => How::Failed(message.clone()),
            EventKind::OrchestrationFailed { .. } => How::Stopped,
            EventKind::OrchestrationContinuedAsNew { input } => How::ContinuedAsNew(input.clone()),
            _ => return None,
        };
        let event = event.event_id;
        Some((index, Ending { event, how }))
    });
    let Some((index, ending)) = end else {
        return (events, None);
    };
    events.truncate(index);
    events.retain(|event| !is_of_the_end(event));
    (events, Some(ending))
}

fn is_of_the_end(event: &Event) -> bool {
    match &event.kind {
        EventKind::ActivityCancelRequested { reason }
        | EventKind::SubOrchestrationCancelRequested { reason }
        | EventKind::ExternalSubscribedCancelled { reason }
        | EventKind::QueueSubscriptionCancelled { reason } => reason.starts_with("orchestration_terminal"),
        _ => false,
    }
}
