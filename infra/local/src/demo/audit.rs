//! Checks histories: whether each activity has one result, and how late timers fired. Pure.

use duroxide::{Event, EventKind};
use std::collections::BTreeMap;
use workflows::CHARGE_CARD;

/// What histories say: of one order and its parcels, or of all orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Results of activities.
    pub activities: u64,
    /// Results of charging the card.
    pub charges: u64,
    /// How late each timer fired, in ms.
    pub lateness_ms: Vec<u64>,
    /// The longest timer: its length and its end (Unix ms). Of an order that waits for somebody, it is that wait.
    pub longest_wait: Option<(u64, u64)>,
    /// Contradictions in the histories.
    pub problems: Vec<String>,
}

impl Audit {
    /// Adds the history of one execution.
    pub(super) fn add(&mut self, instance: &str, execution: u64, history: &[Event]) {
        if history.is_empty() {
            self.problem(instance, format!("execution {execution} has no history"));
        }
        let mut scheduled: BTreeMap<u64, (&str, u64)> = BTreeMap::new();
        for event in history {
            let source = event.source_event_id.unwrap_or_default();
            match &event.kind {
                EventKind::ActivityScheduled { name, .. } => {
                    scheduled.insert(event.event_id, (name, 0));
                }
                EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. } => {
                    self.activities += 1;
                    match scheduled.get_mut(&source) {
                        Some((name, results)) => {
                            *results += 1;
                            self.charges += u64::from(*name == CHARGE_CARD);
                        }
                        None => self.problem(
                            instance,
                            format!("activity {source} has a result and was not scheduled"),
                        ),
                    }
                }
                EventKind::TimerCreated { fire_at_ms } => {
                    let wait = (fire_at_ms.saturating_sub(event.timestamp_ms), *fire_at_ms);
                    self.longest_wait = self.longest_wait.max(Some(wait));
                }
                EventKind::TimerFired { fire_at_ms } => {
                    self.lateness_ms.push(event.timestamp_ms.saturating_sub(*fire_at_ms));
                }
                _ => {}
            }
        }
        for (id, (name, results)) in scheduled {
            if results != 1 {
                self.problem(instance, format!("activity {id} ({name}) has {results} results"));
            }
        }
    }

    fn problem(&mut self, instance: &str, what: String) {
        self.problems.push(format!("{instance}: {what}"));
    }

    pub(super) fn merge(&mut self, other: Audit) {
        self.activities += other.activities;
        self.charges += other.charges;
        self.lateness_ms.extend(other.lateness_ms);
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.problems.extend(other.problems);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, source: Option<u64>, at: u64, kind: EventKind) -> Event {
        let mut event = Event::with_event_id(id, "i", 1, source, kind);
        event.timestamp_ms = at;
        event
    }

    fn scheduled(id: u64, name: &str) -> Event {
        let kind = EventKind::ActivityScheduled {
            name: name.to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        event(id, None, 0, kind)
    }

    fn completed(id: u64, source: u64) -> Event {
        event(
            id,
            Some(source),
            0,
            EventKind::ActivityCompleted { result: String::new() },
        )
    }

    #[test]
    fn a_sound_history_has_no_problems() {
        let mut audit = Audit::default();
        audit.add(
            "i",
            1,
            &[
                scheduled(1, CHARGE_CARD),
                scheduled(2, "other"),
                completed(3, 2),
                completed(4, 1),
                event(5, None, 400, EventKind::TimerCreated { fire_at_ms: 1_000 }),
                event(6, None, 900, EventKind::TimerCreated { fire_at_ms: 1_100 }),
                event(7, Some(5), 1_250, EventKind::TimerFired { fire_at_ms: 1_000 }),
            ],
        );
        assert_eq!(audit.longest_wait, Some((600, 1_000)));
        assert_eq!((audit.activities, audit.charges), (2, 1));
        assert_eq!(audit.lateness_ms, [250]);
        assert!(audit.problems.is_empty(), "{audit:?}");
    }

    #[test]
    fn a_missing_or_second_result_and_an_empty_history_are_problems() {
        let mut audit = Audit::default();
        audit.add(
            "i",
            1,
            &[
                scheduled(1, CHARGE_CARD),
                completed(2, 1),
                completed(3, 1),
                scheduled(4, "other"),
                completed(5, 8),
            ],
        );
        assert_eq!(audit.charges, 2);
        assert_eq!(audit.problems.len(), 3, "{audit:?}");
        audit.add("i", 2, &[]);
        assert_eq!(audit.problems.len(), 4, "{audit:?}");
    }
}
