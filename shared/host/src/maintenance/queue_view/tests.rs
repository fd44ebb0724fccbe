use super::*;
use duroxide_cosmos::{Target, WorkTarget};

const S: u64 = 1_000;
const NOW: u64 = 1_760_000_000_000;

fn run() -> RunTimes {
    RunTimes {
        now_ms: NOW,
        last_run_ms: NOW - 60 * S,
        period_ms: 60 * S,
        threshold_ms: 30 * S,
    }
}

fn depth(waiting: u64, in_flight: u64, delayed: u64) -> Option<Depth> {
    Some(Depth {
        waiting,
        in_flight,
        delayed,
    })
}

fn work(due_ms: u64) -> DueItem {
    DueItem {
        target: Target::Work(WorkTarget {
            instance: "i".to_owned(),
            execution: 1,
            activity: 2,
            ..WorkTarget::default()
        }),
        due_ms,
        queued_ms: Some(due_ms),
        is_timer: false,
    }
}

fn timer(due_ms: u64) -> DueItem {
    DueItem {
        target: Target::Turn {
            instance: "i".to_owned(),
        },
        is_timer: true,
        ..work(due_ms)
    }
}

/// Items that were due from and until so many seconds ago were woken again so many seconds ago.
fn span(from: u64, until: u64, at: u64) -> RemindedSpan {
    let ago = |seconds: u64| NOW - seconds * S;
    RemindedSpan {
        from_ms: ago(from),
        until_ms: ago(until),
        at_ms: ago(at),
    }
}

/// A probe that was sent `seconds` ago came through.
fn passed(seconds: u64) -> QueueState {
    QueueState {
        passed_ms: NOW - seconds * S,
        ..QueueState::default()
    }
}

#[test]
fn a_queue_may_hold_what_was_sent_after_the_last_probe_that_came_through() {
    let nothing = QueueState::default();
    // Age of the item, state, depth, whether the queue may hold its wakeup.
    for (age, state, depth, held) in [
        (40, &nothing, depth(0, 0, 0), false),
        (40, &nothing, depth(1, 0, 0), true),
        (40, &nothing, depth(0, 1, 0), true),
        (40, &nothing, depth(0, 0, 9), false),
        (40, &nothing, None, false),
        (4_000, &nothing, depth(1, 0, 0), true),
        (61, &passed(60), depth(10_000, 0, 0), false),
        (60, &passed(60), depth(10_000, 0, 0), false),
        (59, &passed(60), depth(10_000, 0, 0), true),
        (59, &passed(60), depth(0, 0, 0), false),
    ] {
        let view = QueueView::new(&QueueName::works(), state, depth, &run());
        assert_eq!(view.may_hold(&work(NOW - age * S)), held, "{age} {state:?} {depth:?}");
    }
}

#[test]
fn a_reminder_of_an_earlier_run_may_be_in_the_queue_as_well() {
    // The run before woke what was due from four to two minutes ago. An older item was woken by an earlier run.
    let reminded = |passed_seconds| QueueState {
        reminded: vec![span(600, 300, 180), span(240, 120, 60)],
        ..passed(passed_seconds)
    };
    for (age, passed, held) in [
        (300, 181, true),
        (300, 180, false),
        (299, 181, false),
        (241, 61, false),
        (240, 61, true),
        (130, 61, true),
        (130, 60, false),
        (120, 61, true),
        (119, 61, false),
        (119, 120, true),
    ] {
        let view = QueueView::new(&QueueName::works(), &reminded(passed), depth(5, 0, 0), &run());
        assert_eq!(view.may_hold(&work(NOW - age * S)), held, "{age} {passed}");
    }
}

#[test]
fn an_item_whose_commit_came_after_its_due_time_was_woken_after_the_commit() {
    let late = DueItem {
        queued_ms: Some(NOW - 40 * S),
        ..work(NOW - 100 * S)
    };
    let view = QueueView::new(&QueueName::works(), &passed(60), depth(5, 0, 0), &run());
    assert!(view.may_hold(&late) && !view.may_hold(&work(NOW - 100 * S)));
}

#[test]
fn a_new_timer_does_not_wait_for_a_probe_unless_there_is_a_backlog() {
    for (waiting, age, held) in [(100, 10, false), (101, 10, true), (100, 60, true), (100, 59, false)] {
        let view = QueueView::new(&QueueName::turns(), &passed(600), depth(waiting, 0, 0), &run());
        assert_eq!(view.may_hold(&timer(NOW - age * S)), held, "{waiting} {age}");
    }
}

#[test]
fn what_is_sent_again_in_a_queue_of_activities_ends_the_reminders_at_every_run() {
    for (queue, depth, every) in [
        (QueueName::turns(), depth(0, 0, 5), true),
        (QueueName::works(), depth(0, 0, 0), true),
        (QueueName::works(), depth(7, 7, 0), true),
        (QueueName::works(), depth(0, 0, 1), false),
        (QueueName::tagged("gpu"), depth(0, 0, 1), false),
        (QueueName::works(), None, false),
    ] {
        let view = QueueView::new(&queue, &QueueState::default(), depth, &run());
        assert_eq!(view.is_every_run, every, "{queue} {depth:?}");
    }
}

#[test]
fn a_missing_probe_ends_the_waiting_after_a_time_that_grows_with_the_queue() {
    // How many wakeups were before the probe, how long ago it was sent, whether the run still waits.
    for (ahead, seconds, waits) in [
        (0, 600, true),
        (0, 601, false),
        (60, 601, false),
        (61, 601, true),
        (300, 3_000, true),
        (300, 3_001, false),
        // An hour at most.
        (u64::MAX, 3_600, true),
        (u64::MAX, 3_601, false),
    ] {
        let state = QueueState {
            awaited: Some(AwaitedProbe {
                sent_ms: NOW - seconds * S,
                ahead,
            }),
            ..passed(seconds + 60)
        };
        let view = QueueView::new(&QueueName::works(), &state, depth(5, 5, 0), &run());
        assert_eq!(view.is_every_run, waits, "{ahead} {seconds}");
        assert!(view.wants_probe(), "the next one may come through");
        assert_eq!(view.may_hold(&work(NOW - 40 * S)), waits, "{ahead} {seconds}");
    }
}

#[test]
fn a_depth_that_is_not_answered_in_between_wakes_no_backlog() {
    let awaiting = |seconds| QueueState {
        awaited: Some(AwaitedProbe {
            sent_ms: NOW - seconds * S,
            ahead: 10,
        }),
        ..passed(5_000)
    };
    for (state, held) in [(awaiting(600), true), (awaiting(601), false), (passed(5_000), false)] {
        let view = QueueView::new(&QueueName::works(), &state, None, &run());
        assert_eq!(view.may_hold(&work(NOW - 40 * S)), held, "{state:?}");
        assert_eq!(view.is_every_run, held, "{state:?}");
    }
}

#[test]
fn a_probe_counts_when_functions_had_time_to_begin_what_came_before_it() {
    let note = |queue: &str, sent: u64, passed: u64| PassedProbe {
        queue: queue.to_owned(),
        sent_ms: NOW - sent * S,
        passed_ms: NOW - passed * S,
    };
    for (notes, newest) in [
        (vec![], 200),
        (vec![note("work", 60, 29)], 200),
        (vec![note("work", 60, 30)], 60),
        (vec![note("work", 120, 90), note("work", 60, 5)], 120),
        (vec![note("turn", 60, 40)], 200),
        (vec![note("work", 300, 250)], 200),
    ] {
        let mut state = QueueState {
            awaited: Some(AwaitedProbe {
                sent_ms: NOW - 120 * S,
                ahead: 5,
            }),
            ..passed(200)
        };
        absorb(&mut state, "work", &notes, &run());
        assert_eq!((NOW - state.passed_ms) / S, newest, "{notes:?}");
        assert_eq!(state.awaited.is_some(), newest > 120, "{notes:?}");
    }
}

#[test]
fn a_backlog_is_not_read_to_its_end() {
    let closed = |state: &QueueState, depth, from| {
        QueueView::new(&QueueName::works(), state, depth, &run()).may_hold_all_from(from)
    };
    assert!(closed(&passed(60), depth(10_000, 0, 0), NOW - 59 * S));
    assert!(
        !closed(&passed(60), depth(10_000, 0, 0), NOW - 60 * S),
        "it is known not to be there"
    );
    assert!(!closed(&passed(60), depth(0, 0, 0), NOW - 59 * S));
    assert!(!closed(&passed(60), None, NOW - 59 * S));
    assert!(
        !closed(&passed(60), depth(100, 0, 0), NOW - 59 * S),
        "new timers are woken"
    );
}

#[test]
fn a_run_keeps_what_the_next_one_needs() {
    let awaited = |seconds: u64, ahead| {
        Some(AwaitedProbe {
            sent_ms: NOW - seconds * S,
            ahead,
        })
    };
    let reminded = |span, probe_after| Reminded { span, probe_after };
    for (before, did, after) in [
        (None, reminded(None, Some(7)), awaited(0, 7)),
        (awaited(60, 3), reminded(None, Some(7)), awaited(60, 3)),
        // It could not be sent, or nothing has reached its age.
        (awaited(60, 3), reminded(None, None), awaited(60, 3)),
        (None, reminded(None, None), None),
    ] {
        let mut state = QueueState {
            awaited: before,
            ..QueueState::default()
        };
        did.apply(&mut state, NOW);
        assert_eq!(state.awaited, after, "{before:?} {did:?}");
        assert_eq!(state.reminded, []);
    }
    let mut state = QueueState::default();
    let run = |state: &mut QueueState, from: u64, until: u64, at: u64| {
        reminded(Some((NOW - from * S, NOW - until * S)), None).apply(state, NOW - at * S);
    };
    run(&mut state, 900, 300, 240);
    run(&mut state, 290, 180, 120);
    assert_eq!(state.reminded, [span(900, 300, 240), span(290, 180, 120)]);
    // The probe of the first of these runs came through.
    let note = PassedProbe {
        queue: "work".to_owned(),
        sent_ms: NOW - 240 * S,
        passed_ms: NOW - 200 * S,
    };
    absorb(&mut state, "work", &[note], &self::run());
    assert_eq!(state.reminded, [span(290, 180, 120)]);
}

#[test]
fn many_runs_without_a_probe_are_kept_in_a_few_spans_that_cover_all_of_them() {
    let mut state = QueueState::default();
    for minute in (0..40).rev() {
        let due = NOW - minute * 60 * S - 30 * S;
        let did = Reminded {
            span: Some((due, due)),
            probe_after: None,
        };
        did.apply(&mut state, NOW - minute * 60 * S);
    }
    assert_eq!(state.reminded.len(), MOST_SPANS);
    assert_eq!(state.reminded[0].from_ms, NOW - 39 * 60 * S - 30 * S);
    assert_eq!(state.reminded[MOST_SPANS - 1].at_ms, NOW);
}

#[test]
fn what_a_clock_ahead_has_left_holds_nothing_back() {
    let mut state = QueueState {
        passed_ms: NOW + 5,
        awaited: Some(AwaitedProbe {
            sent_ms: NOW + 1,
            ahead: 3,
        }),
        reminded: vec![
            span(60, 30, 10),
            RemindedSpan {
                at_ms: NOW + 1,
                ..span(90, 60, 0)
            },
        ],
    };
    not_ahead(&mut state, NOW);
    assert_eq!((state.passed_ms, state.awaited), (NOW, None));
    assert_eq!(state.reminded, [span(60, 30, 10)]);
}
