//! Histories by hand, where they are cut, and what becomes of what is open there.

use super::*;
use duroxide::providers::WorkItem;
use duroxide::{AppErrorKind, ErrorDetails};

/// A history: events get their ids and times in order.
#[derive(Default)]
struct Story(Vec<Event>);

fn details(message: &str) -> ErrorDetails {
    ErrorDetails::Application {
        kind: AppErrorKind::ActivityFailed,
        message: message.to_owned(),
        retryable: true,
    }
}

impl Story {
    fn begun() -> Story {
        Story::carrying(&[])
    }

    fn carrying(carried: &[&str]) -> Story {
        let carried: Vec<(String, String)> = carried
            .iter()
            .map(|data| ("q".to_owned(), (*data).to_owned()))
            .collect();
        Story::default().add(
            None,
            EventKind::OrchestrationStarted {
                name: "O".to_owned(),
                version: "1.0.0".to_owned(),
                input: String::new(),
                parent_instance: None,
                parent_id: None,
                parent_execution_id: None,
                carry_forward_events: Some(carried).filter(|carried| !carried.is_empty()),
                initial_custom_status: None,
            },
        )
    }

    fn add(mut self, source: Option<u64>, kind: EventKind) -> Story {
        let id = self.0.len() as u64 + 1;
        self.0.push(Event::with_event_id(id, "i", 1, source, kind));
        self
    }

    fn act(self, input: &str) -> Story {
        self.add(
            None,
            EventKind::ActivityScheduled {
                name: "A".to_owned(),
                input: input.to_owned(),
                session_id: None,
                tag: None,
            },
        )
    }

    fn done(self, of: u64) -> Story {
        let result = format!("r{of}");
        self.add(Some(of), EventKind::ActivityCompleted { result })
    }

    fn fails(self, of: u64, message: &str) -> Story {
        self.add(
            Some(of),
            EventKind::ActivityFailed {
                details: details(message),
            },
        )
    }

    fn timer(self) -> Story {
        self.add(None, EventKind::TimerCreated { fire_at_ms: 7 })
    }

    fn fired(self, of: u64) -> Story {
        self.add(Some(of), EventKind::TimerFired { fire_at_ms: 7 })
    }

    fn child(self) -> Story {
        self.add(
            None,
            EventKind::SubOrchestrationScheduled {
                name: "C".to_owned(),
                instance: "c".to_owned(),
                input: String::new(),
            },
        )
    }

    fn event(self, data: &str) -> Story {
        self.add(
            None,
            EventKind::ExternalEvent {
                name: "e".to_owned(),
                data: data.to_owned(),
            },
        )
    }

    fn subscribes(self) -> Story {
        self.add(None, EventKind::ExternalSubscribed { name: "e".to_owned() })
    }

    fn queued(self, data: &str) -> Story {
        self.add(
            None,
            EventKind::QueueEventDelivered {
                name: "q".to_owned(),
                data: data.to_owned(),
            },
        )
    }

    fn failed(self, message: &str) -> Story {
        self.add(
            None,
            EventKind::OrchestrationFailed {
                details: details(message),
            },
        )
    }

    /// The ids of the events where it is cut, when its last turn begins with this event.
    fn cut(&self, last_turn: u64) -> u64 {
        default_cut(&self.0, last_turn as usize - 1) as u64 + 1
    }

    fn reopened(&self, first_undone: u64, last_turn: u64) -> Reopened {
        reopen(&self.0, first_undone as usize - 1, last_turn as usize - 1)
    }

    fn ids(&self, positions: &[usize]) -> Vec<u64> {
        positions.iter().map(|n| self.0[*n].event_id()).collect()
    }
}

#[test]
fn the_last_turn_is_undone() {
    // 2 scheduled, 3 completed, 4 scheduled | 5 failed, 6 failed
    let story = Story::begun()
        .act("a")
        .done(2)
        .act("b")
        .fails(4, "broken")
        .failed("broken");
    assert_eq!(story.cut(5), 5);
    let reopened = story.reopened(5, 5);
    assert_eq!(story.ids(&reopened.activities), [4]);
    assert!(reopened.delivered.is_empty() && reopened.reused.is_empty() && !reopened.nudge);
}

#[test]
fn what_was_taken_without_a_decision_is_delivered_again() {
    // Three at once: the turns of 5 and 6 only waited.
    let story = Story::begun()
        .act("a")
        .act("b")
        .act("c")
        .done(2)
        .fails(3, "broken")
        .done(4)
        .failed("broken");
    assert_eq!(story.cut(7), 5);
    let reopened = story.reopened(5, 7);
    assert_eq!(
        (story.ids(&reopened.delivered), story.ids(&reopened.activities)),
        (vec![5, 7], vec![3])
    );
}

#[test]
fn earlier_attempts_of_the_same_call_are_undone_too() {
    let story = Story::begun()
        .act("pay")
        .done(2)
        .act("ship")
        .fails(4, "broken")
        .timer()
        .fired(6)
        .act("ship")
        .fails(8, "broken")
        .failed("broken");
    assert_eq!(story.cut(9), 5);
    let other = Story::begun()
        .act("ship")
        .fails(2, "broken")
        .timer()
        .fired(4)
        .act("else")
        .done(6)
        .act("ship")
        .fails(8, "broken")
        .failed("broken");
    assert_eq!(other.cut(9), 9, "a result lies between");
    let child = Story::begun()
        .act("ship")
        .fails(2, "x")
        .child()
        .act("ship")
        .fails(5, "broken")
        .failed("broken");
    assert_eq!(child.cut(6), 6, "a child was started between");
}

#[test]
fn a_failure_that_the_error_names_is_undone_and_later_results_are_kept() {
    let story = Story::begun()
        .act("recall")
        .done(2)
        .act("refund")
        .fails(4, "no answer")
        .timer()
        .fired(6)
        .act("refund")
        .fails(8, "no answer")
        .act("release")
        .done(10)
        .failed("by hand: refund (no answer)");
    assert_eq!(story.cut(11), 5);
    let reopened = story.reopened(5, 11);
    assert_eq!(
        (story.ids(&reopened.activities), story.ids(&reopened.reused)),
        (vec![4], vec![11])
    );
    let handled = Story::begun()
        .act("a")
        .fails(2, "no answer")
        .act("b")
        .done(4)
        .failed("something else");
    assert_eq!(handled.cut(5), 5, "the code has handled it");
    let open = Story::begun()
        .act("a")
        .fails(2, "no answer")
        .act("b")
        .act("c")
        .done(4)
        .failed("no answer");
    assert_eq!(open.cut(6), 6, "an activity may still have run");
}

#[test]
fn a_turn_that_was_given_up_undoes_nothing_before_it() {
    let story = Story::begun().act("a").done(2).act("b").failed("poison");
    assert_eq!(story.cut(5), 5);
    let reopened = story.reopened(5, 5);
    assert_eq!(story.ids(&reopened.activities), [4]);
    let completed = WorkItem::ActivityCompleted {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 4,
        result: "r".to_owned(),
    };
    let stale = WorkItem::ActivityCompleted {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 2,
        result: "r".to_owned(),
    };
    let unrecorded = vec![completed.clone(), stale];
    let messages = again(&story.0, &reopened, "i", 1, unrecorded);
    assert_eq!(
        messages.into_iter().map(|(item, _)| item).collect::<Vec<_>>(),
        [completed]
    );
}

#[test]
fn the_beginning_is_always_kept() {
    let story = Story::carrying(&["x", "y"])
        .queued("x")
        .queued("y")
        .act("a")
        .failed("at once");
    assert_eq!(beginning(&story.0), 3);
    assert_eq!(story.cut(1), 4);
    assert!(story.reopened(4, 1).nudge);
    assert!(again(&story.0, &story.reopened(4, 1), "i", 1, Vec::new()).is_empty());
    // A first turn that was given up has not got what it inherited.
    let given_up = Story::carrying(&["x", "y"]).failed("poison");
    let messages = again(&given_up.0, &given_up.reopened(2, 2), "i", 1, Vec::new());
    assert_eq!(messages.len(), 2);
}

#[test]
fn timers_events_and_children_are_what_they_were() {
    let story = Story::begun()
        .timer()
        .timer()
        .child()
        .child()
        .fired(2)
        .event("1")
        .queued("2")
        .failed("why");
    assert_eq!(story.cut(6), 6);
    let reopened = story.reopened(6, 6);
    assert_eq!(story.ids(&reopened.delivered), [6, 7, 8]);
    assert_eq!(
        (story.ids(&reopened.timers), story.ids(&reopened.children)),
        (vec![3], vec![4, 5])
    );
    let further = story.reopened(2, 6);
    assert_eq!(story.ids(&further.undone_children), [4, 5]);
    assert_eq!(
        story.ids(&further.delivered),
        [7, 8],
        "the timer is created again by the code"
    );
    assert!(further.nudge);
}

#[test]
fn an_event_waits_for_the_subscription_that_takes_it_again() {
    let story = Story::begun()
        .subscribes()
        .event("1")
        .subscribes()
        .event("2")
        .event("3")
        .failed("why");
    let reopened = story.reopened(3, 5);
    assert_eq!(
        (story.ids(&reopened.delivered), story.ids(&reopened.reused)),
        (vec![3, 6], vec![5])
    );
    let reopened = story.reopened(2, 5);
    assert_eq!(
        (story.ids(&reopened.delivered), story.ids(&reopened.reused)),
        (vec![6], vec![3, 5])
    );
}

#[test]
fn an_operator_undoes_whole_turns() {
    let story = Story::begun()
        .act("a")
        .act("b")
        .done(2)
        .done(3)
        .act("c")
        .act("d")
        .done(6)
        .failed("why");
    for (event, expected) in [(1, 2), (3, 2), (4, 4), (5, 4), (6, 4), (7, 4), (8, 8), (9, 8), (99, 8)] {
        assert_eq!(before(&story.0, event, 7) + 1, expected, "before {event}");
    }
}

#[test]
fn what_the_code_has_dropped_stays_dropped() {
    let cancelled = EventKind::ActivityCancelRequested {
        reason: "dropped_future".to_owned(),
    };
    let story = Story::begun()
        .act("a")
        .act("b")
        .done(2)
        .add(Some(3), cancelled)
        .act("c")
        .fails(6, "broken")
        .failed("broken");
    let reopened = story.reopened(7, 7);
    assert_eq!(story.ids(&reopened.activities), [6]);
}
