//! What the events of an execution leave open: activities, timers, subscriptions and children without an end. Pure.
//!
//! Subscriptions are matched as duroxide matches them. A raised event goes to the oldest open subscription of its name, and to nobody
//! if there is none: it came too early, and is lost. A queue message stays until a subscription takes it.
//!
//! A timer that lost a race leaves no trace in a history. So one that is older than the newest decision of the orchestration, while
//! something else is open, may be left over.

use duroxide::{Event, EventKind};
use std::collections::{BTreeMap, HashMap};

/// Something that began with an event and has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begun<T> {
    /// The event.
    pub id: u64,
    pub since: u64,
    pub what: T,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScheduledActivity {
    pub name: String,
    pub tag: Option<String>,
    pub session: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CreatedTimer {
    pub fire_at: u64,
    /// The activity whose failure the orchestration has seen just before: it probably waits before it tries again.
    pub after_failure: Option<FailedStep>,
    pub may_be_left_over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StartedChild {
    pub name: String,
    pub instance: String,
}

/// An activity or a child that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailedStep {
    pub name: String,
    /// The child, if it was one.
    pub child: Option<String>,
    pub error: String,
    /// How often activities of this name have failed in the execution.
    pub times: u32,
}

/// An event or a queue message that nothing has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub name: String,
    pub at: u64,
    pub is_queued: bool,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Open {
    pub activities: Vec<Begun<ScheduledActivity>>,
    pub timers: Vec<Begun<CreatedTimer>>,
    pub events: Vec<Begun<String>>,
    pub queues: Vec<Begun<String>>,
    pub children: Vec<Begun<StartedChild>>,
    /// Events and messages that nothing has taken.
    pub arrivals: Vec<Arrival>,
    /// The activities that have failed, by name: how often, and the last error.
    pub failures: BTreeMap<String, (u32, String)>,
    /// The last activity or child that has failed.
    pub last_failure: Option<FailedStep>,
    /// Why the execution has failed.
    pub error: Option<String>,
    /// Whether it was cancelled.
    pub cancelled: Option<String>,
}

impl Open {
    /// The open parts of these events, which are in their order.
    pub(super) fn of(instance: &str, events: &[Event]) -> Open {
        let mut walk = Walk::default();
        for event in events {
            walk.step(instance, event);
        }
        walk.finish()
    }
}

#[derive(Debug, Default)]
struct Walk {
    open: Open,
    /// The names of what was scheduled, for what ends it.
    activities: HashMap<u64, String>,
    children: HashMap<u64, StartedChild>,
    /// The failure that the orchestration saw last, until it schedules something.
    just_failed: Option<FailedStep>,
    /// The newest event with which the orchestration began something, and whether that was in the same turn.
    newest_begun: u64,
    /// The first of those that it began without anything arriving in between.
    first_of_burst: u64,
}

impl Walk {
    fn step(&mut self, instance: &str, event: &Event) {
        let (id, since) = (event.event_id, event.timestamp_ms);
        let source = event.source_event_id.unwrap_or_default();
        match &event.kind {
            EventKind::ActivityScheduled {
                name, session_id, tag, ..
            } => {
                self.begins(id);
                self.activities.insert(id, name.clone());
                let (name, tag, session) = (name.clone(), tag.clone(), session_id.clone());
                let what = ScheduledActivity { name, tag, session };
                self.open.activities.push(Begun { id, since, what });
                self.just_failed = None;
            }
            EventKind::TimerCreated { fire_at_ms } => {
                self.begins(id);
                let what = CreatedTimer {
                    fire_at: *fire_at_ms,
                    after_failure: self.just_failed.take(),
                    may_be_left_over: false,
                };
                self.open.timers.push(Begun { id, since, what });
            }
            EventKind::ExternalSubscribed { name } => {
                self.begins(id);
                let what = name.clone();
                self.open.events.push(Begun { id, since, what });
            }
            EventKind::QueueSubscribed { name } => {
                self.begins(id);
                let queued = |arrival: &Arrival| arrival.is_queued && arrival.name == *name;
                match self.open.arrivals.iter().position(queued) {
                    Some(place) => drop(self.open.arrivals.remove(place)),
                    None => self.open.queues.push(Begun {
                        id,
                        since,
                        what: name.clone(),
                    }),
                }
            }
            EventKind::SubOrchestrationScheduled {
                name, instance: child, ..
            } => {
                self.begins(id);
                let what = StartedChild {
                    name: name.clone(),
                    instance: duroxide::build_child_instance_id(instance, child),
                };
                self.children.insert(id, what.clone());
                self.open.children.push(Begun { id, since, what });
            }
            _ => self.ends(event, source),
        }
    }

    fn ends(&mut self, event: &Event, source: u64) {
        let open = &mut self.open;
        match &event.kind {
            EventKind::ActivityCompleted { .. } | EventKind::ActivityCancelRequested { .. } => {
                open.activities.retain(|begun| begun.id != source);
                self.arrives();
            }
            EventKind::ActivityFailed { details } => {
                open.activities.retain(|begun| begun.id != source);
                let name = self.activities.get(&source).cloned().unwrap_or_default();
                let error = details.display_message();
                let (times, last) = open.failures.entry(name.clone()).or_default();
                *times += 1;
                last.clone_from(&error);
                let (times, child) = (*times, None);
                self.fails(FailedStep {
                    name,
                    child,
                    error,
                    times,
                });
            }
            EventKind::TimerFired { .. } => {
                open.timers.retain(|begun| begun.id != source);
                self.arrives();
            }
            EventKind::SubOrchestrationCompleted { .. } | EventKind::SubOrchestrationCancelRequested { .. } => {
                open.children.retain(|begun| begun.id != source);
                self.arrives();
            }
            EventKind::SubOrchestrationFailed { details } => {
                open.children.retain(|begun| begun.id != source);
                let child = self.children.get(&source).cloned();
                let (name, child) = child.map_or_else(Default::default, |child| (child.name, Some(child.instance)));
                let (error, times) = (details.display_message(), 1);
                self.fails(FailedStep {
                    name,
                    child,
                    error,
                    times,
                });
            }
            EventKind::ExternalSubscribedCancelled { .. } => open.events.retain(|begun| begun.id != source),
            EventKind::QueueSubscriptionCancelled { .. } => open.queues.retain(|begun| begun.id != source),
            EventKind::ExternalEvent { name, .. } => self.arrived(name, event.timestamp_ms, false),
            EventKind::QueueEventDelivered { name, .. } => self.arrived(name, event.timestamp_ms, true),
            EventKind::OrchestrationFailed { details } => open.error = Some(details.display_message()),
            EventKind::OrchestrationCancelRequested { reason } => open.cancelled = Some(reason.clone()),
            _ => {}
        }
    }

    /// An event or a message of this name goes to the oldest subscription, or to nobody.
    fn arrived(&mut self, name: &str, at: u64, is_queued: bool) {
        self.arrives();
        let waiting = match is_queued {
            true => &mut self.open.queues,
            false => &mut self.open.events,
        };
        match waiting.iter().position(|begun| begun.what == name) {
            Some(place) => drop(waiting.remove(place)),
            None => self.open.arrivals.push(Arrival {
                name: name.to_owned(),
                at,
                is_queued,
            }),
        }
    }

    fn fails(&mut self, failed: FailedStep) {
        self.arrives();
        self.just_failed = Some(failed.clone());
        self.open.last_failure = Some(failed);
    }

    /// What the orchestration begins next is in another burst.
    fn arrives(&mut self) {
        self.newest_begun = 0;
    }

    fn begins(&mut self, id: u64) {
        if self.newest_begun == 0 {
            self.first_of_burst = id;
        }
        self.newest_begun = id;
    }

    fn finish(self) -> Open {
        let mut open = self.open;
        let newest = [
            open.activities.iter().map(|begun| begun.id).max(),
            open.events.iter().map(|begun| begun.id).max(),
            open.queues.iter().map(|begun| begun.id).max(),
            open.children.iter().map(|begun| begun.id).max(),
            open.timers.iter().map(|begun| begun.id).max(),
        ];
        let newest = newest.into_iter().flatten().max().unwrap_or_default();
        for timer in &mut open.timers {
            // What began in the burst of the newest open one belongs to the same decision.
            timer.what.may_be_left_over = newest >= self.first_of_burst && timer.id < self.first_of_burst;
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide::{AppErrorKind, ErrorDetails};

    fn open(kinds: Vec<(Option<u64>, EventKind)>) -> Open {
        let events: Vec<Event> = (1..)
            .zip(kinds)
            .map(|(id, (source, kind))| {
                let mut event = Event::with_event_id(id, "i", 1, source, kind);
                event.timestamp_ms = 1_000 * id;
                event
            })
            .collect();
        Open::of("i", &events)
    }

    fn subscribed(name: &str) -> (Option<u64>, EventKind) {
        (None, EventKind::ExternalSubscribed { name: name.to_owned() })
    }

    fn dequeues(name: &str) -> (Option<u64>, EventKind) {
        (None, EventKind::QueueSubscribed { name: name.to_owned() })
    }

    fn raised(name: &str) -> (Option<u64>, EventKind) {
        let (name, data) = (name.to_owned(), String::new());
        (None, EventKind::ExternalEvent { name, data })
    }

    fn queued(name: &str) -> (Option<u64>, EventKind) {
        let (name, data) = (name.to_owned(), String::new());
        (None, EventKind::QueueEventDelivered { name, data })
    }

    fn timer() -> (Option<u64>, EventKind) {
        (None, EventKind::TimerCreated { fire_at_ms: 90_000 })
    }

    fn activity(name: &str) -> (Option<u64>, EventKind) {
        let (name, input) = (name.to_owned(), String::new());
        let (session_id, tag) = (None, None);
        (
            None,
            EventKind::ActivityScheduled {
                name,
                input,
                session_id,
                tag,
            },
        )
    }

    fn failed(source: u64) -> (Option<u64>, EventKind) {
        let details = ErrorDetails::Application {
            kind: AppErrorKind::ActivityFailed,
            message: "no".to_owned(),
            retryable: false,
        };
        (Some(source), EventKind::ActivityFailed { details })
    }

    fn names(waits: &[Begun<String>]) -> Vec<(u64, &str)> {
        waits.iter().map(|begun| (begun.id, begun.what.as_str())).collect()
    }

    #[test]
    fn an_event_ends_the_oldest_wait_of_its_name_and_is_lost_without_one() {
        let open = open(vec![
            raised("go"),
            subscribed("go"),
            subscribed("go"),
            raised("go"),
            raised("Go"),
        ]);
        assert_eq!(names(&open.events), [(3, "go")]);
        let lost: Vec<_> = open
            .arrivals
            .iter()
            .map(|arrival| (arrival.name.as_str(), arrival.at))
            .collect();
        assert_eq!(lost, [("go", 1_000), ("Go", 5_000)]);
    }

    #[test]
    fn a_queued_message_stays_until_it_is_taken() {
        let open = open(vec![queued("q"), queued("q"), dequeues("q"), dequeues("p")]);
        assert_eq!(names(&open.queues), [(4, "p")]);
        assert_eq!(open.arrivals.len(), 1);
        assert!(open.arrivals[0].is_queued);
    }

    #[test]
    fn a_cancelled_subscription_is_not_open() {
        let reason = || "dropped_future".to_owned();
        let open = open(vec![
            subscribed("a"),
            dequeues("b"),
            (Some(1), EventKind::ExternalSubscribedCancelled { reason: reason() }),
            (Some(2), EventKind::QueueSubscriptionCancelled { reason: reason() }),
        ]);
        assert!(open.events.is_empty() && open.queues.is_empty());
    }

    #[test]
    fn a_timer_of_an_earlier_decision_may_be_left_over() {
        let race = open(vec![subscribed("a"), timer(), raised("a"), subscribed("b")]);
        assert!(race.timers[0].what.may_be_left_over);
        let both = open(vec![raised("x"), subscribed("a"), timer()]);
        assert!(!both.timers[0].what.may_be_left_over);
        let alone = open(vec![timer()]);
        assert!(!alone.timers[0].what.may_be_left_over);
    }

    #[test]
    fn a_timer_after_a_failure_says_what_failed_and_how_often() {
        let open = open(vec![activity("Pay"), failed(1), activity("Pay"), failed(3), timer()]);
        let after = open.timers[0].what.after_failure.as_ref().unwrap();
        assert_eq!(
            (after.name.as_str(), after.times, after.error.as_str()),
            ("Pay", 2, "no")
        );
        assert_eq!(open.failures["Pay"].0, 2);
    }

    #[test]
    fn a_generated_child_has_the_id_of_its_parent_before_it() {
        let child = |instance: &str| EventKind::SubOrchestrationScheduled {
            name: "C".to_owned(),
            instance: instance.to_owned(),
            input: String::new(),
        };
        let open = open(vec![(None, child("sub::1")), (None, child("mine"))]);
        let ids: Vec<_> = open.children.iter().map(|begun| begun.what.instance.as_str()).collect();
        assert_eq!(ids, ["i::sub::1", "mine"]);
    }
}
