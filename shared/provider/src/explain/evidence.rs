//! The facts that an explanation rests on, for people. Pure.

use super::facts::Facts;
use super::open::Open;
use super::types::Evidence;
use super::words::{name, one_line};
use crate::model::Status;

/// How many events and messages that nothing has taken are shown.
const MOST_ARRIVALS: usize = 3;

/// What the explanation rests on.
pub(super) fn evidence(facts: &Facts) -> Vec<Evidence> {
    let mut all = Vec::new();
    let mut add = |what: &'static str, value: String, at: Option<u64>| all.push(Evidence { what, value, at });
    if let Some(doc) = facts.doc() {
        let begun = doc.current.status != Status::Pending;
        add("accepted", String::new(), Some(doc.created_at));
        if begun {
            let current = &doc.current;
            add(
                "execution",
                format!("{}, {} events", current.execution, current.events),
                Some(current.started_at),
            );
            add("last turn", String::new(), Some(doc.updated_at));
        }
        if let Some(pinned) = &doc.current.pinned {
            add("pinned", format!("duroxide {pinned}"), None);
        }
        if let Some(parent) = &doc.parent {
            add("parent", parent.clone(), None);
        }
        if let Some(rewind) = doc.rewinds.last() {
            let reason = rewind.reason.as_ref().map(|reason| format!(": {}", one_line(reason)));
            let value = format!(
                "{}, to before event {}{}",
                rewind.number,
                rewind.before,
                reason.unwrap_or_default()
            );
            add("rewound", value, Some(rewind.at));
        }
        if let Some(from) = &doc.forked_from {
            add(
                "forked from",
                format!("{}, event {}", from.instance, from.event),
                Some(from.at),
            );
        }
    }
    let due = facts
        .messages
        .iter()
        .filter(|message| message.doc.due_at <= facts.now_ms);
    let oldest = due.clone().map(|message| message.doc.due_at).min();
    let (due, messages) = (due.count(), facts.messages.len());
    let more = if facts.more { " (not all were read)" } else { "" };
    if due > 0 {
        add("messages due", format!("{due}{more}"), oldest);
    }
    if messages > due {
        let first = facts.messages.iter().map(|message| message.doc.due_at);
        let first = first.filter(|due_at| *due_at > facts.now_ms).min();
        add("messages later", format!("{}{more}", messages - due), first);
    }
    if !facts.works.is_empty() {
        add("activities queued", format!("{}{more}", facts.works.len()), None);
    }
    if let Some(intent) = facts.intents.first() {
        let value = format!("{}, the first to {}", facts.intents.len(), name(&intent.message.pk));
        add("undelivered", value, Some(intent.queued_at));
    }
    if let Some(letter) = facts.letters.last() {
        let value = format!(
            "{}, the last: {}",
            facts.letters.len(),
            one_line(&letter.given_up.reason)
        );
        add("dead letters", value, Some(letter.at));
    }
    let open = Open::of(&facts.instance, &facts.events);
    for arrival in open.arrivals.iter().rev().take(MOST_ARRIVALS) {
        let kind = if arrival.is_queued { "message in queue" } else { "event" };
        add("not taken", format!("{kind} {}", name(&arrival.name)), Some(arrival.at));
    }
    if let Some(partial) = &facts.partial {
        add("history", one_line(partial), None);
    }
    if let Some(foreign) = facts.unreadable.first() {
        add(
            "newer documents",
            format!("{}, such as {}", facts.unreadable.len(), name(&foreign.id)),
            None,
        );
    }
    all
}
