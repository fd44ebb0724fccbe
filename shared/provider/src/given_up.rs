//! What was given up after too many attempts (duroxide's "poison"), as a dead letter keeps it. No I/O.
//!
//! The failure itself says so: a turn's last event, or an activity's completion, has [`ErrorDetails::Poison`] with the
//! items as JSON. An ordinary commit has no such event and no extra cost. The functions give activities up themselves
//! ([`GivenUpWork`]), before duroxide would.

use crate::due::TurnDecision;
use crate::model::{DeadLetterKind, GivenUp, GivenUpWork, InstanceDoc, WorkDoc};
use duroxide::providers::WorkItem;
use duroxide::{ErrorDetails, EventKind, PoisonMessageType};
use serde_json::value::RawValue;

/// How many bytes of the items a dead letter keeps, and a failure shows.
const MOST_ITEM_BYTES: usize = 256 * 1024;
/// How many bytes of a longer text remain.
const ABRIDGED: usize = 4 * 1024;

/// Shortens the copy of the items inside a failure when it is too large for a document: a turn that fails because of its
/// large messages must be able to commit that failure.
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

/// What a turn reports as given up. An orchestration also fails with what was given up elsewhere, its activity or its child,
/// which has left a dead letter there: one cause, one dead letter.
pub(crate) fn of_turn(decision: &TurnDecision, items: impl FnOnce() -> Vec<Box<RawValue>>) -> Option<GivenUp> {
    if let Some(reason) = &decision.given_up {
        let (items, omitted) = keep(items(), MOST_ITEM_BYTES);
        return Some(GivenUp {
            cause: DeadLetterKind::PoisonTurn,
            reason: reason.clone(),
            attempts: 0,
            execution: Some(decision.execution),
            name: decision.metadata.orchestration_name.clone(),
            target: None,
            message: None,
            items,
            omitted,
        });
    }
    let (instance, details) = decision.events.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationFailed { details } => Some((&event.instance_id, details)),
        _ => None,
    })?;
    let poison = Poison::of(details).filter(|poison| poison.is_turn_of(instance))?;
    let name = decision.metadata.orchestration_name.clone();
    let shown = name.as_deref().unwrap_or("(without a name)");
    let reason = match poison.kind {
        PoisonMessageType::FailedDeserialization { error, .. } => {
            format!("the history of orchestration '{shown}' cannot be read by this version: {error}")
        }
        _ => format!(
            "a turn of orchestration '{shown}' was started {} times and never committed, {} are allowed: its code is not \
             registered, or it crashes or hangs on one of these messages",
            poison.attempts, poison.most
        ),
    };
    let (items, omitted) = items_of(poison.items, MOST_ITEM_BYTES);
    Some(GivenUp {
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

/// What an activity's completion reports as given up; its item takes at most `room` bytes.
pub(crate) fn of_activity(completion: &WorkItem, room: usize) -> Option<GivenUp> {
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
        "activity '{}' was started {} times and never completed, {} are allowed: its code is not registered, or it crashes \
         or hangs",
        name.as_deref().unwrap_or("(without a name)"),
        poison.attempts,
        poison.most
    );
    let (items, omitted) = items_of(poison.items, MOST_ITEM_BYTES.min(room));
    Some(GivenUp {
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

/// An activity that the caller gives up; its item takes at most `room` bytes.
pub(crate) fn of_work(given_up: &GivenUpWork, work: &WorkDoc, completion: &WorkItem, room: usize) -> Option<GivenUp> {
    let WorkItem::ActivityFailed { execution_id, .. } = completion else {
        return None;
    };
    let (items, omitted) = keep(vec![work.item.clone()], MOST_ITEM_BYTES.min(room));
    Some(GivenUp {
        cause: DeadLetterKind::PoisonActivity,
        reason: given_up.reason.clone(),
        attempts: given_up.attempts,
        execution: Some(*execution_id),
        name: Some(given_up.name.clone()),
        target: None,
        message: None,
        items,
        omitted,
    })
}

/// A turn that the provider gives up before it runs.
pub(crate) fn of_history(reason: String, instance: &InstanceDoc, attempts: u32, items: Vec<Box<RawValue>>) -> GivenUp {
    let (items, omitted) = keep(items, MOST_ITEM_BYTES);
    GivenUp {
        cause: DeadLetterKind::PoisonTurn,
        reason,
        attempts,
        execution: Some(instance.current.execution),
        name: instance.name.clone(),
        target: None,
        message: None,
        items,
        omitted,
    }
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

    fn is_turn_of(&self, own: &str) -> bool {
        match self.kind {
            PoisonMessageType::Orchestration { instance, .. }
            | PoisonMessageType::FailedDeserialization { instance, .. } => instance == own,
            PoisonMessageType::Activity { .. } => false,
        }
    }
}

/// The items of a failure that fit, and how many do not. What is not JSON is kept as a string.
fn items_of(text: &str, most: usize) -> (Vec<Box<RawValue>>, u32) {
    let all = serde_json::from_str::<Vec<Box<RawValue>>>(text)
        .or_else(|_| serde_json::from_str::<Box<RawValue>>(text).map(|one| vec![one]))
        .or_else(|_| serde_json::value::to_raw_value(text).map(|one| vec![one]))
        .unwrap_or_default();
    keep(all, most)
}

/// The items that fit into so many bytes, and how many do not.
fn keep(all: Vec<Box<RawValue>>, most: usize) -> (Vec<Box<RawValue>>, u32) {
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
    fn only_poison_is_given_up() {
        let ordinary = ErrorDetails::Infrastructure {
            operation: "o".to_owned(),
            message: "m".to_owned(),
            retryable: false,
        };
        assert!(of_turn(&failed(ordinary), Vec::new).is_none());
        let given_up = of_turn(&failed(poison("[1,{\"a\":2}]".to_owned())), Vec::new).unwrap();
        assert_eq!(
            (given_up.attempts, given_up.execution, given_up.items.len()),
            (11, Some(3), 2)
        );
        assert!(given_up.reason.contains("11 times") && given_up.reason.contains("10 are allowed"));
    }

    #[test]
    fn what_was_given_up_elsewhere_leaves_no_dead_letter_here() {
        let mut child = poison(String::new());
        let mut activity = poison(String::new());
        if let ErrorDetails::Poison { message_type, .. } = &mut child {
            *message_type = PoisonMessageType::Orchestration {
                instance: "child".to_owned(),
                execution_id: 1,
            };
        }
        if let ErrorDetails::Poison { message_type, .. } = &mut activity {
            *message_type = PoisonMessageType::Activity {
                instance: "i".to_owned(),
                execution_id: 3,
                activity_name: "Charge".to_owned(),
                activity_id: 2,
            };
        }
        assert!(of_turn(&failed(child), Vec::new).is_none() && of_turn(&failed(activity), Vec::new).is_none());
    }

    #[test]
    fn items_are_kept_while_they_fit() {
        let (items, omitted) = items_of("[1,\"long enough\",2]", 4);
        let texts: Vec<&str> = items.iter().map(|item| item.get()).collect();
        assert_eq!((texts, omitted), (vec!["1", "2"], 1));
        assert_eq!(items_of("not json", 100).0[0].get(), "\"not json\"");
        assert_eq!(items_of("{\"one\":1}", 100).0.len(), 1);
        assert_eq!(items_of("", 0).1, 1);
    }

    #[test]
    fn items_too_large_for_a_document_are_cut_between_characters() {
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
