//! Whether code does what was recorded, and where it does not: decided from runs of the engine.
//!
//! | recorded | the same code | else |
//! |---|---|---|
//! | an event that code asks for | asks for it, in this order | `nondeterminism` at this event |
//! | a cancellation of what is not waited for any more | makes it | `nondeterminism` at this event |
//! | no end | waits at the end of the history, and asks for nothing that it does not have | `divergence`: the runtime would not notice |
//! | an end by the code | ends in the same way, with the same output | `divergence` |
//!
//! duroxide decides what is the same: timers by their place and not by their time, a custom status by its place and not by its text, children
//! by name and input.

use super::asked::{Asked, AskedKind};
use super::decode::{Decoded, Ending, How, decoded};
use super::engine::Run;
use super::recording::Recording;
use super::replayed::{Cause, Fault, Replayed};
use crate::gate::{cut, without_payloads};
use duroxide::runtime::replay_engine::TurnResult;
use duroxide::{AppErrorKind, ConfigErrorKind, ErrorDetails, Event, EventKind, OrchestrationRegistry};
use std::collections::BTreeMap;
use std::panic;
use std::sync::{Mutex, PoisonError};

/// Where code has panicked last.
static PANICKED_AT: Mutex<Option<String>> = Mutex::new(None);

/// Notes where code panics, instead of printing each time: the place of a panic is found by several runs.
pub(super) fn note_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info
            .location()
            .map(|place| format!("{}:{}", place.file(), place.line()));
        *PANICKED_AT.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }));
}

/// Replays one history.
pub(crate) fn replay(recording: Recording, orchestrations: &OrchestrationRegistry) -> Replayed {
    let (instance, execution) = (recording.instance.clone(), recording.execution);
    let events = recording.events.len() as u64;
    let fault = match decoded(recording, orchestrations) {
        Ok(history) => history.fault(),
        Err(fault) => Some(*fault),
    };
    Replayed {
        instance,
        execution,
        events,
        fault,
    }
}

impl Decoded {
    fn fault(&self) -> Option<Fault> {
        let mut fault = self.compare()?;
        if !self.knows_keys {
            fault
                .reason
                .push_str(" (the keys from before this execution are not known, which may be the cause)");
        }
        Some(Fault {
            expected: fault.expected.map(Asked::cut),
            actual: fault.actual.map(Asked::cut),
            ..fault
        })
    }

    fn compare(&self) -> Option<Fault> {
        let run = self.engine.run(&self.events);
        match &run.result {
            TurnResult::Failed(ErrorDetails::Configuration {
                kind: ConfigErrorKind::Nondeterminism,
                message,
                ..
            }) => Some(self.mismatch(message.as_deref().unwrap_or("no details"))),
            TurnResult::Failed(ErrorDetails::Application {
                kind: AppErrorKind::Panicked,
                message,
                ..
            }) => Some(self.panicked(message)),
            TurnResult::Failed(details) if run.ended.is_none() => Some(Fault::new(
                Cause::Divergence,
                format!("the new build fails: {}", cut(&details.display_message())),
            )),
            TurnResult::Completed(_) | TurnResult::Failed(_) => self.ended(&run),
            TurnResult::Continue | TurnResult::ContinueAsNew { .. } => self.waits(&run),
            // It was recorded; what the code would have done next does not matter.
            TurnResult::Cancelled(_) => None,
        }
    }

    /// The engine met an event that the code has not asked for.
    fn mismatch(&self, message: &str) -> Fault {
        let Some(count) = self.engine.failed_at(&self.events) else {
            return self.cancellations(message);
        };
        let event = &self.events[count - 1];
        let Some(expected) = Asked::recorded(&event.kind) else {
            return Fault::new(Cause::Nondeterminism, cut(&without_payloads(message))).at(event.event_id);
        };
        let before = self.engine.run_part(&self.events[..count - 1]);
        let actual = before.asked.first().map(Asked::new);
        differs(
            Cause::Nondeterminism,
            event.event_id,
            expected,
            actual.unwrap_or(Asked::of(AskedKind::Nothing)),
        )
    }

    /// The code does not cancel what the history says that it cancelled.
    fn cancellations(&self, message: &str) -> Fault {
        let recorded = cancelled(&self.events);
        let others: Vec<Event> = self.events.iter().filter(|event| !is_dropped(event)).cloned().collect();
        let now = cancelled(&self.engine.run(&others).delta);
        let nothing = || Asked::of(AskedKind::Nothing);
        let cancellation = |source: &u64| Asked::cancelled(&self.asked_by(*source));
        if let Some((source, event)) = recorded.iter().find(|(source, _)| !now.contains_key(source)) {
            return differs(Cause::Nondeterminism, *event, cancellation(source), nothing());
        }
        if let Some(source) = now.keys().find(|source| !recorded.contains_key(source)) {
            return differs(Cause::Nondeterminism, *source, nothing(), cancellation(source));
        }
        Fault::new(Cause::Nondeterminism, cut(&without_payloads(message)))
    }

    fn panicked(&self, message: &str) -> Fault {
        let count = self.engine.failed_at(&self.events).unwrap_or(self.events.len());
        let place = PANICKED_AT.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
        let reason = format!("the new build panics{place}: {}", cut(message));
        let fault = Fault::new(Cause::Panic, reason);
        match count.checked_sub(1).and_then(|last| self.events.get(last)) {
            Some(event) => fault.at(event.event_id),
            None => fault,
        }
    }

    /// The code waits at the end of the history, or continues as new.
    fn waits(&self, run: &Run) -> Option<Fault> {
        let dropped = || {
            let source = *cancelled(&run.delta).keys().next()?;
            Some(Asked::cancelled(&self.asked_by(source)))
        };
        let now = run.asked.first().map(Asked::new).or_else(dropped);
        match self.ending.as_ref().map(expected) {
            None => now.map(|now| self.after_the_last(now)),
            Some((_, None)) => None,
            Some((event, Some(recorded))) => {
                let now = now.unwrap_or(Asked::of(AskedKind::Nothing));
                (now != recorded).then(|| differs(Cause::Divergence, event, recorded, now))
            }
        }
    }

    /// The code has returned.
    fn ended(&self, run: &Run) -> Option<Fault> {
        let end = match run.ended.as_ref()? {
            Ok(output) => Asked::of(AskedKind::Completed).with(output),
            Err(error) => Asked::of(AskedKind::Failed).with(error),
        };
        let taken = self.engine.ended_at(&self.events).unwrap_or(self.events.len());
        // What it has asked for just before is recorded behind the event that let it return.
        let mut now = run.asked.iter().map(Asked::new);
        for event in &self.events[taken..] {
            let Some(recorded) = Asked::recorded(&event.kind) else {
                continue;
            };
            let now = now.next().unwrap_or_else(|| end.clone());
            if now != recorded {
                return Some(differs(Cause::Divergence, event.event_id, recorded, now));
            }
        }
        let more = now.next();
        match self.ending.as_ref().map(expected) {
            None => Some(self.after_the_last(more.unwrap_or(end))),
            Some((_, None)) => None,
            Some((event, Some(recorded))) => {
                let now = more.unwrap_or(end);
                (now != recorded).then(|| differs(Cause::Divergence, event, recorded, now))
            }
        }
    }

    fn after_the_last(&self, now: Asked) -> Fault {
        let last = self.events.last().map_or(0, |event| event.event_id);
        differs(Cause::Divergence, last, Asked::of(AskedKind::Nothing), now)
    }

    /// What this event has recorded.
    fn asked_by(&self, id: u64) -> Asked {
        let event = self.events.iter().find(|event| event.event_id == id);
        let asked = event.and_then(|event| Asked::recorded(&event.kind));
        asked.unwrap_or(Asked::of(AskedKind::Nothing))
    }
}

/// The event of an end, and what code asks for that ends so; `None` if its code did not decide it.
fn expected(ending: &Ending) -> (u64, Option<Asked>) {
    let asked = match &ending.how {
        How::Completed(output) => Some(Asked::of(AskedKind::Completed).with(output)),
        How::Failed(error) => Some(Asked::of(AskedKind::Failed).with(error)),
        How::ContinuedAsNew(input) => Some(Asked::of(AskedKind::ContinueAsNew).with(input)),
        How::Stopped => None,
    };
    (ending.event, asked)
}

fn differs(cause: Cause, event: u64, expected: Asked, actual: Asked) -> Fault {
    let reason = actual.instead_of(&expected);
    Fault {
        expected: Some(expected),
        actual: Some(actual),
        ..Fault::new(cause, reason).at(event)
    }
}

/// Whether the event records that code does not wait any more for what it has asked for.
fn is_dropped(event: &Event) -> bool {
    match &event.kind {
        EventKind::ActivityCancelRequested { reason }
        | EventKind::SubOrchestrationCancelRequested { reason }
        | EventKind::ExternalSubscribedCancelled { reason }
        | EventKind::QueueSubscriptionCancelled { reason } => reason == "dropped_future",
        _ => false,
    }
}

/// Such events, by the event that asked.
fn cancelled(events: &[Event]) -> BTreeMap<u64, u64> {
    let dropped = events.iter().filter(|event| is_dropped(event));
    dropped
        .filter_map(|event| Some((event.source_event_id?, event.event_id)))
        .collect()
}
