//! What an execution waits for, and which events have reached a wait.

use super::history::{asked, span};
use duroxide::{Event, EventKind};
use std::collections::BTreeMap;
use std::time::Duration;

/// The events that have reached a wait of `schedule_wait`, by the wait.
///
/// duroxide records every event that is raised. It gives one to the oldest wait of its name that is open when the event comes, and drops
/// it if there is none: no later wait gets it. Messages of queues are kept instead.
pub(super) struct Reached(BTreeMap<u64, u64>);

impl Reached {
    pub fn of(events: &[Event]) -> Reached {
        let mut open: Vec<(u64, &str)> = Vec::new();
        let mut reached = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            match &event.kind {
                EventKind::ExternalSubscribed { name } => open.push((event.event_id, name)),
                EventKind::ExternalSubscribedCancelled { .. } => {
                    // An event that its code has not taken yet is dropped with the wait.
                    let of = event.source_event_id.unwrap_or_default();
                    open.retain(|(wait, _)| *wait != of);
                    reached.remove(&of);
                }
                EventKind::ExternalEvent { name, .. } => {
                    let left = left_in_turn(&events[at..]);
                    let first = open
                        .iter()
                        .position(|(wait, of)| of == name && !left.contains(&Some(*wait)));
                    if let Some(first) = first {
                        reached.insert(open.remove(first).0, event.event_id);
                    }
                }
                _ => {}
            }
        }
        Reached(reached)
    }

    /// Whether this event has reached a wait.
    pub fn has(&self, event: &Event) -> bool {
        self.0.values().any(|reached| *reached == event.event_id)
    }
}

/// The waits that the code left in the turn that begins with these events. A turn records what came first, then what its code did, so a
/// wait that lost a race is noted behind the events that came too late for it.
fn left_in_turn(events: &[Event]) -> Vec<Option<u64>> {
    let came = events.iter().skip_while(|event| is_incoming(&event.kind));
    let done = came.take_while(|event| !is_incoming(&event.kind));
    done.filter(|event| matches!(event.kind, EventKind::ExternalSubscribedCancelled { .. }))
        .map(|event| event.source_event_id)
        .collect()
}

fn is_incoming(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::TimerFired { .. }
            | EventKind::ExternalEvent { .. }
            | EventKind::QueueEventDelivered { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. }
            | EventKind::OrchestrationCancelRequested { .. }
    )
}

/// What an execution waits for. `blocked` are its activities that nobody runs: their names, and why.
pub(super) fn waits(events: &[Event], now_ms: u64, blocked: Vec<(u64, String)>) -> Vec<String> {
    let answered = |id: u64| {
        events.iter().any(|event| {
            event.source_event_id == Some(id) && !matches!(event.kind, EventKind::CustomStatusUpdated { .. })
        })
    };
    let reached = Reached::of(events);
    // Queues keep their messages: they are matched by name and order.
    let mut came: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        if let EventKind::QueueEventDelivered { name, .. } = &event.kind {
            *came.entry(name).or_default() += 1;
        }
    }
    let mut waits = Vec::new();
    for event in events {
        let id = event.event_id;
        match &event.kind {
            _ if answered(id) || reached.0.contains_key(&id) => {}
            EventKind::ActivityScheduled { name, .. } => match blocked.iter().find(|(blocked, _)| *blocked == id) {
                Some((_, reason)) => waits.push(format!("activity {name} ({reason})")),
                None => waits.push(format!("activity {name}")),
            },
            EventKind::TimerCreated { fire_at_ms } => {
                let left = Duration::from_millis(fire_at_ms.saturating_sub(now_ms));
                waits.push(format!("timer due in {}", span(left)));
            }
            EventKind::QueueSubscribed { name } if is_served(&mut came, name) => {}
            EventKind::ExternalSubscribed { .. }
            | EventKind::QueueSubscribed { .. }
            | EventKind::SubOrchestrationScheduled { .. } => waits.push(asked(&event.kind)),
            _ => {}
        }
    }
    waits
}

/// Whether a message has come for a wait; it serves no other.
fn is_served(came: &mut BTreeMap<&str, usize>, queue: &str) -> bool {
    let left = came.get_mut(queue).filter(|left| **left > 0);
    left.map(|left| *left -= 1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events with the numbers of their places, from 1.
    fn history(kinds: Vec<(Option<u64>, EventKind)>) -> Vec<Event> {
        let events = kinds.into_iter().zip(1..);
        events
            .map(|((of, kind), id)| Event::with_event_id(id, "a", 1, of, kind))
            .collect()
    }

    fn wait() -> (Option<u64>, EventKind) {
        let name = "go".to_owned();
        (None, EventKind::ExternalSubscribed { name })
    }

    fn came() -> (Option<u64>, EventKind) {
        let (name, data) = ("go".to_owned(), String::new());
        (None, EventKind::ExternalEvent { name, data })
    }

    fn left(wait: u64) -> (Option<u64>, EventKind) {
        let reason = "dropped_future".to_owned();
        (Some(wait), EventKind::ExternalSubscribedCancelled { reason })
    }

    fn fired() -> (Option<u64>, EventKind) {
        (Some(99), EventKind::TimerFired { fire_at_ms: 0 })
    }

    #[test]
    fn an_event_reaches_the_oldest_wait_that_is_open_when_it_comes() {
        for (kinds, expected, case) in [
            (vec![wait(), came()], vec![(1, 2)], "in order"),
            (vec![came(), wait()], vec![], "early"),
            (vec![wait(), wait(), came()], vec![(1, 3)], "two waits"),
            (vec![wait(), came(), came(), wait()], vec![(1, 2)], "one too many"),
            (
                vec![wait(), left(1), fired(), came()],
                vec![],
                "the wait was left before",
            ),
            (
                vec![wait(), fired(), came(), left(1)],
                vec![],
                "the wait lost in this turn",
            ),
            (
                vec![wait(), wait(), fired(), came(), left(1)],
                vec![(2, 4)],
                "the other wait is open",
            ),
            (
                vec![wait(), came(), wait(), fired(), left(1)],
                vec![],
                "dropped with its wait, in a later turn",
            ),
        ] {
            let reached = Reached::of(&history(kinds));
            assert_eq!(Vec::from_iter(reached.0), expected, "{case}");
        }
    }

    #[test]
    fn a_queue_keeps_a_message_that_comes_early() {
        let name = || "q".to_owned();
        let early = EventKind::QueueEventDelivered {
            name: name(),
            data: String::new(),
        };
        let wait = || (None, EventKind::QueueSubscribed { name: name() });
        let events = history(vec![(None, early), wait(), wait()]);
        assert_eq!(waits(&events, 0, Vec::new()), ["queue q"]);
    }
}
