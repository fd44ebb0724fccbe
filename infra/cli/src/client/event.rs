//! The events of a history as text. Pure.

use super::answer::Failure;
use crate::terminal::text::moment;
use duroxide::{Event, EventKind};
use duroxide_lambda_api::types::Payload;

/// Events as duroxide records them.
pub(super) fn parsed(events: &[Payload]) -> Result<Vec<Event>, Failure> {
    let events = events.iter().map(|event| serde_json::from_str(event.json()));
    events.collect::<Result<_, _>>().map_err(|error| {
        Failure::error(format!(
            "the history has an event that this release does not know ({error}): use a newer command line, or --json"
        ))
    })
}

/// The name of an event's kind, and its details, which may be long and are not escaped.
pub(super) fn described(kind: &EventKind) -> (&'static str, String) {
    use EventKind::*;
    let with = |name: &str, text: &str| match (name, text) {
        (name, "") => name.to_owned(),
        (name, text) => format!("{name}: {text}"),
    };
    match kind {
        OrchestrationStarted {
            name, version, input, ..
        } => ("OrchestrationStarted", with(&format!("{name} {version}"), input)),
        OrchestrationCompleted { output } => ("OrchestrationCompleted", output.clone()),
        OrchestrationFailed { details } => ("OrchestrationFailed", details.display_message()),
        OrchestrationContinuedAsNew { input } => ("OrchestrationContinuedAsNew", input.clone()),
        OrchestrationCancelRequested { reason } => ("OrchestrationCancelRequested", reason.clone()),
        OrchestrationChained { name, instance, input } => {
            ("OrchestrationChained", with(&format!("{name} as {instance}"), input))
        }
        ActivityScheduled {
            name,
            input,
            session_id,
            tag,
        } => {
            let session = session_id
                .as_ref()
                .map(|session| format!(" in affinity session {session}"));
            let tag = tag.as_ref().map(|tag| format!(" on {tag}"));
            let what = format!("{name}{}{}", tag.unwrap_or_default(), session.unwrap_or_default());
            ("ActivityScheduled", with(&what, input))
        }
        ActivityCompleted { result } => ("ActivityCompleted", result.clone()),
        ActivityFailed { details } => ("ActivityFailed", details.display_message()),
        ActivityCancelRequested { reason } => ("ActivityCancelRequested", reason.clone()),
        TimerCreated { fire_at_ms } => ("TimerCreated", format!("for {}", moment(*fire_at_ms))),
        TimerFired { fire_at_ms } => ("TimerFired", format!("for {}", moment(*fire_at_ms))),
        ExternalSubscribed { name } => ("ExternalSubscribed", name.clone()),
        ExternalEvent { name, data } => ("ExternalEvent", with(name, data)),
        ExternalSubscribedCancelled { reason } => ("ExternalSubscribedCancelled", reason.clone()),
        SubOrchestrationScheduled { name, instance, input } => (
            "SubOrchestrationScheduled",
            with(&format!("{name} as {instance}"), input),
        ),
        SubOrchestrationCompleted { result } => ("SubOrchestrationCompleted", result.clone()),
        SubOrchestrationFailed { details } => ("SubOrchestrationFailed", details.display_message()),
        SubOrchestrationCancelRequested { reason } => ("SubOrchestrationCancelRequested", reason.clone()),
        QueueSubscribed { name } => ("QueueSubscribed", name.clone()),
        QueueEventDelivered { name, data } => ("QueueEventDelivered", with(name, data)),
        QueueSubscriptionCancelled { reason } => ("QueueSubscriptionCancelled", reason.clone()),
        CustomStatusUpdated { status } => (
            "CustomStatusUpdated",
            status.clone().unwrap_or_else(|| "(cleared)".to_owned()),
        ),
        KeyValueSet { key, value, .. } => ("KeyValueSet", with(key, value)),
        KeyValueCleared { key } => ("KeyValueCleared", key.clone()),
        KeyValuesCleared => ("KeyValuesCleared", String::new()),
    }
}

/// Whether the event records a failure.
pub(super) fn is_failure(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::OrchestrationFailed { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::SubOrchestrationFailed { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_described_by_its_kind_and_details() {
        let scheduled = EventKind::ActivityScheduled {
            name: "Greet".to_owned(),
            input: "Kyoto".to_owned(),
            session_id: Some("s1".to_owned()),
            tag: Some("gpu".to_owned()),
        };
        assert_eq!(
            described(&scheduled),
            (
                "ActivityScheduled",
                "Greet on gpu in affinity session s1: Kyoto".to_owned()
            )
        );
        let timer = EventKind::TimerCreated {
            fire_at_ms: 951_782_400_000,
        };
        assert_eq!(
            described(&timer),
            ("TimerCreated", "for 2000-02-29T00:00:00Z".to_owned())
        );
        let raised = EventKind::ExternalEvent {
            name: "approved".to_owned(),
            data: String::new(),
        };
        assert_eq!(described(&raised), ("ExternalEvent", "approved".to_owned()));
    }
}
