use super::super::queue_view::RunTimes;
use super::*;
use crate::notifier::{Depth, QueueName};
use duroxide_cosmos::{QueueState, WorkTarget};

const S: u64 = 1_000;
/// Noon of some day.
const NOW: u64 = 20_000 * DAY_MS + DAY_MS / 2;

fn overdue(last_run_ms: u64, now_ms: u64) -> Overdue {
    Overdue {
        threshold_ms: 30 * S,
        period_ms: now_ms - last_run_ms.min(now_ms),
        last_run_ms,
        now_ms,
        after_ms: 0,
    }
}

/// Whether a run wakes an item of a queue of which nothing is known.
impl Overdue {
    fn wakes(&self, item: &DueItem) -> bool {
        self.decide(item, &QueueView::unknown()) == Decision::Wake
    }
}

fn message(due_ms: u64) -> DueItem {
    DueItem {
        target: Target::Turn {
            instance: "i".to_owned(),
        },
        due_ms,
        queued_ms: Some(due_ms),
        is_timer: false,
    }
}

fn timer(due_ms: u64, ahead_ms: u64) -> DueItem {
    DueItem {
        is_timer: true,
        queued_ms: Some(due_ms - ahead_ms),
        ..message(due_ms)
    }
}

fn work(due_ms: u64) -> DueItem {
    DueItem {
        target: Target::Work(WorkTarget {
            instance: "i".to_owned(),
            execution: 1,
            activity: 2,
            ..WorkTarget::default()
        }),
        ..message(due_ms)
    }
}

fn is_within(windows: &[DueWindow], due_ms: u64) -> bool {
    windows
        .iter()
        .any(|window| window.after_ms < due_ms && due_ms <= window.until_ms)
}

/// The ages, in seconds, at which runs every `period` seconds wake an item.
fn woken_at(item: &DueItem, period: u64, runs: u64) -> Vec<u64> {
    let begin = item.due_ms - period * S / 2;
    let run = |n: u64| overdue(begin + n * period * S, begin + (n + 1) * period * S);
    let woken = (0..runs).map(run).filter(|run| {
        let wakes = run.wakes(item);
        assert!(
            !wakes || is_within(&run.windows(), item.due_ms),
            "{run:?} wakes what it does not look for"
        );
        wakes
    });
    woken.map(|run| (run.now_ms - item.due_ms) / S).collect()
}

#[test]
fn an_item_is_woken_at_growing_ages_and_then_once_a_day() {
    let woken = woken_at(&message(NOW), 60, 3 * 24 * 60);
    assert_eq!(woken[..9], [30, 90, 150, 270, 510, 990, 1_950, 3_870, 7_710]);
    // Twelve ages below a day; then three midnights, of which the first comes before the item is a day old.
    assert_eq!(woken.len(), 12 + 2, "{woken:?}");
    assert_eq!(woken_at(&work(NOW), 60, 3 * 24 * 60), woken);
}

#[test]
fn a_timer_is_woken_by_the_first_run_after_its_time() {
    assert_eq!(woken_at(&timer(NOW, 5 * S), 60, 5), [30, 90, 150, 270]);
    assert_eq!(woken_at(&timer(NOW, 5 * S), 10, 8), [5, 15, 35, 65]);
    assert_eq!(woken_at(&message(NOW), 10, 8), [35, 65]);
}

#[test]
fn each_age_belongs_to_exactly_one_run() {
    for offset in [0, 1, S, 29 * S, 30 * S] {
        let item = message(NOW - offset);
        let cuts = [NOW, NOW + 1, NOW + 31 * S, NOW + 31 * S + 1, NOW + 55 * S];
        let woken: Vec<bool> = cuts
            .windows(2)
            .map(|cut| overdue(cut[0], cut[1]).wakes(&item))
            .collect();
        let whole = overdue(NOW, NOW + 55 * S).wakes(&item);
        assert_eq!(
            woken.iter().filter(|woken| **woken).count(),
            usize::from(whole),
            "{offset}: {woken:?}"
        );
    }
}

#[test]
fn the_first_run_wakes_everything_overdue() {
    let first = overdue(0, NOW);
    assert_eq!(
        first.windows(),
        [DueWindow {
            after_ms: 0,
            until_ms: NOW
        }]
    );
    for age in [30 * S, 31 * S, DAY_MS, 1_000 * DAY_MS] {
        assert!(first.wakes(&message(NOW - age)), "{age}");
    }
    assert!(!first.wakes(&message(NOW - 30 * S + 1)));
}

#[test]
fn windows_are_few_in_order_and_apart() {
    for (last, now) in [(NOW - 60 * S, NOW), (NOW - S, NOW), (NOW - DAY_MS, NOW), (0, NOW)] {
        let windows = overdue(last, now).windows();
        assert!((1..=8).contains(&windows.len()), "{windows:?}");
        assert!(
            windows.iter().all(|window| window.after_ms < window.until_ms),
            "{windows:?}"
        );
        let apart = windows.windows(2).all(|pair| pair[0].until_ms < pair[1].after_ms);
        assert!(apart, "{windows:?}");
    }
    // A clock that went back, or a run at the same moment.
    assert!(overdue(NOW, NOW).windows().is_empty());
    assert!(overdue(NOW + S, NOW).windows().is_empty());
}

#[test]
fn a_sweep_that_continues_leaves_out_what_was_woken() {
    let served = NOW - 90 * S;
    let rest = Overdue {
        after_ms: served,
        ..overdue(0, NOW)
    };
    assert_eq!(rest.windows()[0].after_ms, served);
    assert!(!rest.wakes(&message(served)) && rest.wakes(&message(served + 1)));
}

#[test]
fn a_coming_timer_is_woken_if_it_was_out_of_reach_when_it_was_queued() {
    let coming = Coming::new(NOW + 10 * S, NOW, 150 * S, 900 * S);
    assert_eq!((coming.after_ms, coming.until_ms), (NOW + 10 * S, NOW + 150 * S));
    let due = NOW + 20 * S;
    let unknown = DueItem {
        queued_ms: None,
        ..message(due)
    };
    for (item, woken) in [
        (timer(due, 900 * S), false),
        (timer(due, 900 * S + 1), true),
        (timer(due, 9_000 * S), true),
        (message(due), false),
        (unknown, true),
        (work(due), false),
    ] {
        assert_eq!(coming.wakes(&item), woken, "{item:?}");
    }
}

#[test]
fn successive_runs_wake_each_coming_timer_once() {
    let mut notified_until = 0;
    let mut windows = Vec::new();
    for now in [NOW, NOW + 60 * S, NOW + 60 * S, NOW + 61 * S, NOW + 800 * S] {
        let coming = Coming::new(notified_until, now, 150 * S, 900 * S);
        windows.extend(coming.windows());
        notified_until = notified_until.max(coming.until_ms);
    }
    assert!(
        windows.windows(2).all(|pair| pair[0].until_ms <= pair[1].after_ms),
        "{windows:?}"
    );
    // Nothing of the past: after a long silence those timers are overdue.
    assert_eq!(windows[0].after_ms, NOW - 2 * S);
    assert_eq!(windows.last().map(|window| window.after_ms), Some(NOW + 798 * S));
}

#[test]
fn a_phase_that_stops_continues_where_all_partitions_were_and_always_advances() {
    assert_eq!(watermark(0, 100), 99);
    assert_eq!(watermark(98, 100), 99);
    assert_eq!(watermark(99, 100), 100);
    assert_eq!(watermark(100, 100), 101);
}

#[test]
fn a_timer_whose_wakeup_was_lost_is_woken_within_one_period() {
    for period in [10, 60] {
        for before in (0..period * S).step_by(100) {
            // It is due this long before a run.
            let (now, item) = (NOW, timer(NOW - before, 5 * S));
            let first = overdue(now - period * S, now);
            assert!(
                first.wakes(&item) && is_within(&first.windows(), item.due_ms),
                "{before}"
            );
            let late = before + first.wait_ms(&item, now);
            assert!(late <= period * S, "{before}: {late}");
            assert!(late >= 2 * S, "the first wakeup may be in flight: {before}");
            let next = overdue(now, now + period * S);
            let again = next.wakes(&item) && !next.is_of_age(&item);
            assert!(
                !again || period < 30,
                "only a period below the threshold has an age of its own: {before}"
            );
        }
    }
    // A message that was queued just now is not a timer, and an age does not wait.
    assert!(!overdue(NOW - 60 * S, NOW).wakes(&message(NOW - S)));
    let hasty = Overdue {
        threshold_ms: S,
        ..overdue(NOW - 60 * S, NOW)
    };
    assert_eq!(hasty.wait_ms(&timer(NOW - S, 5 * S), NOW), 0);
}

/// A short timer, or a commit that took longer than the timer: for both the wakeup is sent when the item is queued.
#[test]
fn a_timer_is_woken_within_one_period_however_short_it_is() {
    for ahead in [0, 1, 200, 999] {
        let item = timer(NOW - 5 * S, ahead);
        assert!(overdue(NOW - 10 * S, NOW).wakes(&item), "{ahead}");
    }
    let late = DueItem {
        queued_ms: Some(NOW - S),
        ..timer(NOW - 5 * S, 0)
    };
    assert!(overdue(NOW - 10 * S, NOW).wakes(&late));
}

#[test]
fn a_timer_that_the_run_after_its_time_could_not_see_yet_is_woken_by_the_next() {
    for (period, threshold) in [(5, 30), (10, 30), (10, 3_600), (60, 30), (60, 60), (300, 30)] {
        for before in (0..period * S).step_by(500) {
            // It is due this long before a run, and its commit comes after the run.
            let item = timer(NOW - before, 0);
            let next = Overdue {
                threshold_ms: threshold * S,
                ..overdue(NOW, NOW + period * S)
            };
            let is_woken = next.wakes(&item) && is_within(&next.windows(), item.due_ms);
            assert!(is_woken, "period {period}, threshold {threshold}, {before}");
        }
    }
}

/// A queue that holds nothing.
fn empty() -> QueueView {
    let run = RunTimes {
        now_ms: NOW,
        last_run_ms: 0,
        period_ms: 60 * S,
        threshold_ms: 30 * S,
    };
    QueueView::new(
        &QueueName::turns(),
        &QueueState::default(),
        Some(Depth::default()),
        &run,
    )
}

#[test]
fn an_overdue_item_of_an_empty_queue_is_woken_by_every_run_for_an_hour_and_then_at_growing_ages() {
    for (item, first) in [(message(NOW), 30), (work(NOW), 30), (timer(NOW, 5 * S), 0)] {
        let woken: Vec<u64> = (0..24 * 60)
            .map(|minute| overdue(NOW + minute * 60 * S - 30 * S, NOW + minute * 60 * S + 30 * S))
            .filter(|run| {
                let wakes = run.decide(&item, &empty()) == Decision::Wake;
                assert!(!wakes || is_within(&run.windows(), item.due_ms), "{run:?}");
                wakes
            })
            .map(|run| (run.now_ms - item.due_ms) / S / 60)
            .collect();
        let expected: Vec<u64> = (0..60).chain([64, 128, 256, 512, 1_024]).collect();
        assert_eq!(woken, expected, "{item:?}");
        // The first run comes before the threshold here.
        let early = overdue(NOW - 30 * S, NOW + 29 * S).decide(&item, &empty());
        assert_eq!(early == Decision::Wake, first == 0, "{item:?}");
    }
}

#[test]
fn an_item_older_than_an_hour_is_woken_at_its_ages_even_if_the_queue_is_never_empty() {
    let busy = QueueView::new(
        &QueueName::works(),
        &QueueState::default(),
        Some(Depth {
            waiting: 500,
            ..Depth::default()
        }),
        &RunTimes {
            now_ms: NOW,
            last_run_ms: NOW - 60 * S,
            period_ms: 60 * S,
            threshold_ms: 30 * S,
        },
    );
    let item = work(NOW);
    let decisions: Vec<Decision> = (0..24 * 60)
        .map(|minute| overdue(NOW + minute * 60 * S - 30 * S, NOW + minute * 60 * S + 30 * S).decide(&item, &busy))
        .collect();
    let minutes_of = |decision: Decision| -> Vec<usize> {
        let minutes = decisions.iter().enumerate().filter(|(_, it)| **it == decision);
        minutes.map(|(minute, _)| minute).collect()
    };
    assert_eq!(minutes_of(Decision::Held), Vec::from_iter(0..60));
    assert_eq!(minutes_of(Decision::Wake), [64, 128, 256, 512, 1_024]);
}

#[test]
fn a_lost_wakeup_costs_a_timer_one_period_however_often_it_is_lost() {
    let item = timer(NOW, 5 * S);
    for minute in 0..4 {
        let run = overdue(NOW + minute * 60 * S - 50 * S, NOW + minute * 60 * S + 10 * S);
        assert_eq!(run.decide(&item, &empty()), Decision::Wake);
        assert_eq!(run.wait_ms(&item, run.now_ms), 0);
    }
}

#[test]
fn only_candidates_need_to_know_their_queue() {
    let run = overdue(NOW - 60 * S, NOW);
    for (item, is_candidate) in [
        (message(NOW - 29 * S), false),
        (message(NOW - 30 * S), true),
        (timer(NOW - S, 5 * S), true),
        (timer(NOW + S, 5 * S), false),
        (message(NOW - EAGER_MS - 100 * S), false),
        (message(NOW - 2 * EAGER_MS - 480 * S), true),
    ] {
        assert_eq!(run.is_candidate(&item), is_candidate, "{}", NOW - item.due_ms.min(NOW));
    }
}
