use super::*;

const S: u64 = 1_000;
/// Noon of some day.
const NOW: u64 = 20_000 * DAY_MS + DAY_MS / 2;

fn overdue(last_run_ms: u64, now_ms: u64) -> Overdue {
    Overdue {
        threshold_ms: 30 * S,
        last_run_ms,
        now_ms,
        after_ms: 0,
    }
}

fn message(due_ms: u64) -> DueItem {
    DueItem {
        instance: "i".to_owned(),
        what: DueWhat::Turn,
        due_ms,
        queued_ms: Some(due_ms),
    }
}

fn timer(due_ms: u64, ahead_ms: u64) -> DueItem {
    DueItem {
        queued_ms: Some(due_ms - ahead_ms),
        ..message(due_ms)
    }
}

fn work(due_ms: u64) -> DueItem {
    DueItem {
        what: DueWhat::Work {
            execution: 1,
            activity: 2,
            tag: None,
        },
        ..message(due_ms)
    }
}

fn is_within(windows: &[DueWindow], due_ms: u64) -> bool {
    windows
        .iter()
        .any(|window| window.after_ms < due_ms && due_ms <= window.until_ms)
}

/// The ages, in seconds, at which a run each `period` seconds wakeups an item.
fn notified_at(item: &DueItem, period: u64, runs: u64) -> Vec<u64> {
    let begin = item.due_ms - period * S / 2;
    let run = |n: u64| overdue(begin + n * period * S, begin + (n + 1) * period * S);
    let notified = (0..runs).map(run).filter(|run| {
        let wakeups = run.wakeups(item);
        assert!(
            !wakeups || is_within(&run.windows(), item.due_ms),
            "{run:?} wakeups what it does not look for"
        );
        wakeups
    });
    notified.map(|run| (run.now_ms - item.due_ms) / S).collect()
}

#[test]
fn an_item_is_notified_at_growing_ages_and_then_once_a_day() {
    let notified = notified_at(&message(NOW), 60, 3 * 24 * 60);
    assert_eq!(notified[..9], [30, 90, 150, 270, 510, 990, 1_950, 3_870, 7_710]);
    // Twelve ages below a day; then three midnights, of which the first comes before the item is a day old.
    assert_eq!(notified.len(), 12 + 2, "{notified:?}");
    assert_eq!(notified_at(&work(NOW), 60, 3 * 24 * 60), notified);
}

#[test]
fn a_timer_is_notified_soon_after_its_time() {
    assert_eq!(notified_at(&timer(NOW, 5 * S), 60, 5), [30, 90, 150, 270]);
    assert_eq!(notified_at(&timer(NOW, 5 * S), 10, 8), [5, 35, 65]);
    assert_eq!(notified_at(&message(NOW), 10, 8), [35, 65]);
}

#[test]
fn each_age_belongs_to_exactly_one_run() {
    for offset in [0, 1, S, 29 * S, 30 * S] {
        let item = message(NOW - offset);
        let cuts = [NOW, NOW + 1, NOW + 31 * S, NOW + 31 * S + 1, NOW + 55 * S];
        let notified: Vec<bool> = cuts
            .windows(2)
            .map(|cut| overdue(cut[0], cut[1]).wakeups(&item))
            .collect();
        let whole = overdue(NOW, NOW + 55 * S).wakeups(&item);
        assert_eq!(
            notified.iter().filter(|notified| **notified).count(),
            usize::from(whole),
            "{offset}: {notified:?}"
        );
    }
}

#[test]
fn the_first_run_wakeups_everything_overdue() {
    let first = overdue(0, NOW);
    assert_eq!(
        first.windows(),
        [DueWindow {
            after_ms: 0,
            until_ms: NOW
        }]
    );
    for age in [30 * S, 31 * S, DAY_MS, 1_000 * DAY_MS] {
        assert!(first.wakeups(&message(NOW - age)), "{age}");
    }
    assert!(!first.wakeups(&message(NOW - 30 * S + 1)));
}

#[test]
fn windows_are_few_in_order_and_apart() {
    for (last, now) in [(NOW - 60 * S, NOW), (NOW - S, NOW), (NOW - DAY_MS, NOW), (0, NOW)] {
        let windows = overdue(last, now).windows();
        assert!((1..=14).contains(&windows.len()), "{windows:?}");
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
fn a_sweep_that_goes_on_leaves_out_what_is_served() {
    let served = NOW - 90 * S;
    let rest = Overdue {
        after_ms: served,
        ..overdue(0, NOW)
    };
    assert_eq!(rest.windows()[0].after_ms, served);
    assert!(!rest.wakeups(&message(served)) && rest.wakeups(&message(served + 1)));
}

#[test]
fn a_coming_timer_is_notified_when_the_notifier_did_not_reach_it() {
    let coming = Coming::new(NOW + 10 * S, NOW, 150 * S, 900 * S);
    assert_eq!((coming.after_ms, coming.until_ms), (NOW + 10 * S, NOW + 150 * S));
    let due = NOW + 20 * S;
    let unknown = DueItem {
        queued_ms: None,
        ..message(due)
    };
    for (item, notified) in [
        (timer(due, 900 * S), false),
        (timer(due, 900 * S + 1), true),
        (timer(due, 9_000 * S), true),
        (message(due), false),
        (unknown, true),
        (work(due), false),
    ] {
        assert_eq!(coming.wakeups(&item), notified, "{item:?}");
    }
}

#[test]
fn successive_runs_wakeup_each_coming_timer_once() {
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
    // Nothing of the past: a long silence is the business of the overdue.
    assert_eq!(windows[0].after_ms, NOW - 2 * S);
    assert_eq!(windows.last().map(|window| window.after_ms), Some(NOW + 798 * S));
}

#[test]
fn a_phase_that_stops_goes_on_where_all_ranges_were_and_always_comes_forward() {
    assert_eq!(watermark(0, 100), 99);
    assert_eq!(watermark(98, 100), 99);
    assert_eq!(watermark(99, 100), 100);
    assert_eq!(watermark(100, 100), 101);
}

#[test]
fn a_lost_timer_is_notified_within_one_period_whenever_its_time_is() {
    for period in [10, 60] {
        for before in (0..period * S).step_by(100) {
            // It comes to its time so long before a run.
            let (now, item) = (NOW, timer(NOW - before, 5 * S));
            let first = overdue(now - period * S, now);
            assert!(
                first.wakeups(&item) && is_within(&first.windows(), item.due_ms),
                "{before}"
            );
            let late = before + first.wait_ms(&item, now);
            assert!(late <= period * S, "{before}: {late}");
            assert!(late >= 2 * S, "the first wakeup may be under way: {before}");
            let next = overdue(now, now + period * S);
            assert!(!next.wakeups(&item) || next.is_of_age(&item), "{before}");
        }
    }
    // What was queued just now is no timer, and an age does not wait.
    assert!(!overdue(NOW - 60 * S, NOW).wakeups(&message(NOW - S)));
    let hasty = Overdue {
        threshold_ms: S,
        ..overdue(NOW - 60 * S, NOW)
    };
    assert_eq!(hasty.wait_ms(&timer(NOW - S, 5 * S), NOW), 0);
}
