//! Histories for people.

use super::instance::Snapshot;
use super::waits::Reached;
use duroxide::{Event, EventKind};
use std::fmt;
use std::time::Duration;

/// How many characters of a payload are shown.
const MOST_TEXT: usize = 200;

/// The history of an instance and its children. It is printed with virtual times since the beginning of the simulation.
pub struct History<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) id: &'a str,
}

impl fmt::Debug for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(seen) = self.snapshot.instances.get(self.id) else {
            return Ok(());
        };
        let version = seen.version.as_deref().unwrap_or("no version");
        writeln!(f, "history of `{}` ({} {version}):", self.id, seen.name)?;
        for (number, execution) in &seen.executions {
            if seen.executions.len() > 1 {
                writeln!(f, "  execution {number}")?;
            }
            let reached = Reached::of(&execution.events);
            for event in &execution.events {
                let since = Duration::from_millis(event.timestamp_ms.saturating_sub(self.snapshot.began_ms));
                let number = event.event_id;
                writeln!(
                    f,
                    "  {number:>4} {:>10}  {}",
                    span(since),
                    words(event, &execution.events, &reached)
                )?;
            }
        }
        let children = self.snapshot.instances.iter();
        for (id, _) in children.filter(|(_, child)| child.parent.as_deref() == Some(self.id)) {
            let child = History {
                snapshot: self.snapshot,
                id,
            };
            write!(f, "{child}")?;
        }
        Ok(())
    }
}

fn cut(text: &str) -> String {
    match text.chars().count() {
        0..=MOST_TEXT => text.to_owned(),
        _ => text.chars().take(MOST_TEXT).chain(['…']).collect(),
    }
}

/// An event in words. `reached` says which events of `all` nobody waited for.
fn words(event: &Event, all: &[Event], reached: &Reached) -> String {
    let source = || {
        let source = all.iter().find(|other| Some(other.event_id) == event.source_event_id);
        source.map(|source| asked(&source.kind)).unwrap_or_default()
    };
    match &event.kind {
        EventKind::OrchestrationStarted { input, .. } => format!("started with {}", cut(input)),
        EventKind::OrchestrationCompleted { output } => format!("completed with {}", cut(output)),
        EventKind::OrchestrationFailed { details } => format!("failed: {}", cut(&details.display_message())),
        EventKind::OrchestrationContinuedAsNew { input } => format!("continued as new with {}", cut(input)),
        EventKind::OrchestrationCancelRequested { reason } => format!("cancelled: {}", cut(reason)),
        EventKind::ActivityCompleted { result } => format!("{} returned {}", source(), cut(result)),
        EventKind::ActivityFailed { details } => format!("{} failed: {}", source(), cut(&details.display_message())),
        EventKind::ActivityCancelRequested { reason } => format!("{} is not waited for any more ({reason})", source()),
        EventKind::TimerCreated { fire_at_ms } => {
            let delay = Duration::from_millis(fire_at_ms.saturating_sub(event.timestamp_ms));
            format!("timer of {}", span(delay))
        }
        EventKind::TimerFired { .. } => format!("timer {} fired", event.source_event_id.unwrap_or_default()),
        EventKind::ExternalEvent { name, data } if reached.has(event) => format!("event {name} came: {}", cut(data)),
        EventKind::ExternalEvent { name, data } => {
            format!("event {name} came, and nobody waited for it: dropped ({})", cut(data))
        }
        EventKind::QueueEventDelivered { name, data } => format!("message for queue {name} came: {}", cut(data)),
        EventKind::ExternalSubscribedCancelled { reason }
        | EventKind::QueueSubscriptionCancelled { reason }
        | EventKind::SubOrchestrationCancelRequested { reason } => {
            format!("{} is not waited for any more ({reason})", source())
        }
        EventKind::SubOrchestrationCompleted { result } => format!("{} returned {}", source(), cut(result)),
        EventKind::SubOrchestrationFailed { details } => {
            format!("{} failed: {}", source(), cut(&details.display_message()))
        }
        EventKind::OrchestrationChained { name, instance, input } => {
            format!("starts {name} as {instance} with {}", cut(input))
        }
        EventKind::CustomStatusUpdated { status } => {
            format!("custom status {}", cut(status.as_deref().unwrap_or("cleared")))
        }
        EventKind::KeyValueSet { key, value, .. } => format!("key {key} = {}", cut(value)),
        EventKind::KeyValueCleared { key } => format!("key {key} cleared"),
        EventKind::KeyValuesCleared => "all keys cleared".to_owned(),
        EventKind::ActivityScheduled { name, input, tag, .. } => {
            let tag = tag.as_ref().map(|tag| format!(" (tag {tag})")).unwrap_or_default();
            format!("activity {name}{tag} with {}", cut(input))
        }
        EventKind::SubOrchestrationScheduled { name, instance, input } => {
            format!("child {name} ({instance}) with {}", cut(input))
        }
        EventKind::ExternalSubscribed { .. } | EventKind::QueueSubscribed { .. } => {
            format!("waits for {}", asked(&event.kind))
        }
        #[allow(
            unreachable_patterns,
            reason = "duroxide has more kinds with a feature for its own tests"
        )]
        other => format!("{other:?}"),
    }
}

/// What code has asked for, without payloads.
pub(super) fn asked(kind: &EventKind) -> String {
    match kind {
        EventKind::ActivityScheduled { name, .. } => format!("activity {name}"),
        EventKind::ExternalSubscribed { name } => format!("event {name}"),
        EventKind::QueueSubscribed { name } => format!("queue {name}"),
        EventKind::SubOrchestrationScheduled { name, instance, .. } => format!("child {name} ({instance})"),
        _ => String::new(),
    }
}

/// A time span: `0s`, `1.5s`, `3d`, `2h 5m`.
pub(super) fn span(time: Duration) -> String {
    let ms = time.as_millis();
    let (days, hours, minutes) = (ms / 86_400_000, ms / 3_600_000 % 24, ms / 60_000 % 60);
    let (seconds, rest) = (ms / 1_000 % 60, ms % 1_000);
    let mut parts = Vec::new();
    for (count, unit) in [(days, "d"), (hours, "h"), (minutes, "m")] {
        if count > 0 {
            parts.push(format!("{count}{unit}"));
        }
    }
    match (seconds, rest) {
        (0, 0) if !parts.is_empty() => {}
        (seconds, 0) => parts.push(format!("{seconds}s")),
        (seconds, rest) => {
            let decimals = format!("{rest:03}");
            parts.push(format!("{seconds}.{}s", decimals.trim_end_matches('0')));
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (ms, expected) in [
            (0, "0s"),
            (1, "0.001s"),
            (1_500, "1.5s"),
            (3 * 86_400_000, "3d"),
            (7_500_000, "2h 5m"),
            (61_250, "1m 1.25s"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), expected);
        }
    }
}
