//! Poison: what duroxide gave up after too many attempts, as it goes into a dead letter. No I/O.
//!
//! duroxide tells it in the failure itself: a turn's last event, or an activity's completion, carries
//! [`ErrorDetails::Poison`] with the poisoned items as JSON. An ordinary commit has no such event and pays nothing.

use crate::due::TurnDecision;
use crate::model::{DeadLetterKind, Death};
use duroxide::providers::WorkItem;
use duroxide::{ErrorDetails, EventKind, PoisonMessageType};
use serde_json::value::RawValue;

/// How much of the poisoned items a dead letter keeps, and a failure tells.
const MOST_ITEM_BYTES: usize = 256 * 1024;
/// How much of what is too long remains.
const ABRIDGED: usize = 4 * 1024;

/// Shortens the copy of the items inside a poison failure that no document could hold: a turn that fails for its large
/// messages must not fail to fail.
pub(crate) fn abridge(decision: &mut TurnDecision) {
    for event in &mut decision.events {
        if let EventKind::OrchestrationFailed { details } = &mut event.kind {
            abridge_details(details);
        }
    }
    for item in &mut decision.messages {
        if let WorkItem::SubOrchFailed { details, .. } = item {
            abridge_details(details);
        }
    }
}

fn abridge_details(details: &mut ErrorDetails) {
    if let ErrorDetails::Poison { message, .. } = details
        && message.len() > MOST_ITEM_BYTES
    {
        let bytes = message.len();
        message.truncate(message.floor_char_boundary(ABRIDGED));
        message.push_str(&format!("... ({bytes} bytes in all)"));
    }
}

/// The death that a turn's events tell of.
pub(crate) fn turn_death(decision: &TurnDecision) -> Option<Death> {
    let details = decision.events.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationFailed { details } => Some(details),
        _ => None,
    })?;
    let poison = Poison::of(details)?;
    let name = decision.metadata.orchestration_name.clone();
    let shown = name.as_deref().unwrap_or("(without a name)");
    let reason = match poison.kind {
        PoisonMessageType::FailedDeserialization { error, .. } => {
            format!("the history of orchestration '{shown}' cannot be read by this version: {error}")
        }
        _ => format!(
            "a turn of orchestration '{shown}' was begun {} times and never committed, {} are allowed: its code is not \
             registered, or it crashes or hangs on one of these messages",
            poison.attempts, poison.most
        ),
    };
    let (items, omitted) = items_of(poison.items, MOST_ITEM_BYTES);
    Some(Death {
        cause: DeadLetterKind::PoisonTurn,
        reason,
        attempts: poison.attempts,
        execution: Some(decision.execution),
        name,
        target: None,
        message: None,
        items,
        omitted,
    })
}

/// The death that an activity's completion tells of; at most `room` bytes are taken for its item.
pub(crate) fn activity_death(completion: &WorkItem, room: usize) -> Option<Death> {
    let WorkItem::ActivityFailed {
        execution_id, details, ..
    } = completion
    else {
        return None;
    };
    let poison = Poison::of(details)?;
    let name = match poison.kind {
        PoisonMessageType::Activity { activity_name, .. } => Some(activity_name.clone()),
        _ => None,
    };
    let reason = format!(
        "activity '{}' was begun {} times and never completed, {} are allowed: its code is not registered, or it crashes \
         or hangs",
        name.as_deref().unwrap_or("(without a name)"),
        poison.attempts,
        poison.most
    );
    let (items, omitted) = items_of(poison.items, MOST_ITEM_BYTES.min(room));
    Some(Death {
        cause: DeadLetterKind::PoisonActivity,
        reason,
        attempts: poison.attempts,
        execution: Some(*execution_id),
        name,
        target: None,
        message: None,
        items,
        omitted,
    })
}

struct Poison<'a> {
    attempts: u32,
    most: u32,
    kind: &'a PoisonMessageType,
    items: &'a str,
}

impl<'a> Poison<'a> {
    fn of(details: &'a ErrorDetails) -> Option<Self> {
        match details {
            ErrorDetails::Poison {
                attempt_count,
                max_attempts,
                message_type,
                message,
            } => Some(Poison {
                attempts: *attempt_count,
                most: *max_attempts,
                kind: message_type,
                items: message,
            }),
            _ => None,
        }
    }
}

/// The items of a poison message, as far as they fit, and how many do not. What is no JSON is kept as a text.
fn items_of(text: &str, most: usize) -> (Vec<Box<RawValue>>, u32) {
    let all = serde_json::from_str::<Vec<Box<RawValue>>>(text)
        .or_else(|_| serde_json::from_str::<Box<RawValue>>(text).map(|one| vec![one]))
        .or_else(|_| serde_json::value::to_raw_value(text).map(|one| vec![one]))
        .unwrap_or_default();
    let (mut items, mut left, mut omitted) = (Vec::new(), most, 0);
    for item in all {
        match left.checked_sub(item.get().len()) {
            Some(rest) => {
                left = rest;
                items.push(item);
            }
            None => omitted += 1,
        }
    }
    (items, omitted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide::Event;

    fn poison(message: String) -> ErrorDetails {
        ErrorDetails::Poison {
            attempt_count: 11,
            max_attempts: 10,
            message_type: PoisonMessageType::Orchestration {
                instance: "i".to_owned(),
                execution_id: 3,
            },
            message,
        }
    }

    fn failed(details: ErrorDetails) -> TurnDecision {
        let kind = EventKind::OrchestrationFailed { details };
        TurnDecision {
            execution: 3,
            events: vec![Event::with_event_id(2, "i", 3, None, kind)],
            ..TurnDecision::default()
        }
    }

    #[test]
    fn only_poison_is_a_death() {
        let ordinary = ErrorDetails::Infrastructure {
            operation: "o".to_owned(),
            message: "m".to_owned(),
            retryable: false,
        };
        assert!(turn_death(&failed(ordinary)).is_none());
        let death = turn_death(&failed(poison("[1,{\"a\":2}]".to_owned()))).unwrap();
        assert_eq!((death.attempts, death.execution, death.items.len()), (11, Some(3), 2));
        assert!(death.reason.contains("11 times") && death.reason.contains("10 are allowed"));
    }

    #[test]
    fn items_are_kept_as_far_as_they_fit() {
        let (items, omitted) = items_of("[1,\"long enough\",2]", 4);
        let texts: Vec<&str> = items.iter().map(|item| item.get()).collect();
        assert_eq!((texts, omitted), (vec!["1", "2"], 1));
        assert_eq!(items_of("not json", 100).0[0].get(), "\"not json\"");
        assert_eq!(items_of("{\"one\":1}", 100).0.len(), 1);
        assert_eq!(items_of("", 0).1, 1);
    }

    #[test]
    fn what_no_document_could_hold_is_abridged_between_characters() {
        let mut decision = failed(poison("語".repeat(MOST_ITEM_BYTES)));
        abridge(&mut decision);
        let EventKind::OrchestrationFailed { details } = &decision.events[0].kind else {
            panic!("the event stays what it was");
        };
        let shown = Poison::of(details).unwrap().items;
        assert!(
            shown.len() < MOST_ITEM_BYTES && shown.ends_with("bytes in all)"),
            "{}",
            shown.len()
        );
    }
}
