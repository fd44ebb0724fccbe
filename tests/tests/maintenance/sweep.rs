//! The sweep: what gets a wakeup, when, and how often.

use crate::due::timer;
use crate::function::*;
use crate::support::*;
use cosmos::Clock;
use cosmos_emulator::Faults;
use duroxide::providers::Provider;
use duroxide_lambda::internals::PassName;
use duroxide_lambda::internals::{Budget, MaintenanceRequest};
use duroxide_lambda::{MaintenanceSettings, Target};
use futures::StreamExt as _;
use std::collections::BTreeMap;
use std::time::Duration;
use tests::turns::{Decision, activity, commit, enqueue, raised, start_of, started, turn};

/// Queues messages that are due after a delay.
async fn put_off(fixture: &Fixture, prefix: &str, count: usize, delay: Duration) {
    let all = (0..count).map(|n| {
        let item = raised(&format!("{prefix}-{n:03}"), "x");
        fixture.provider.enqueue_for_orchestrator(item, Some(delay))
    });
    let queued: Vec<_> = futures::stream::iter(all).buffer_unordered(32).collect().await;
    assert!(queued.into_iter().all(|queued| queued.is_ok()));
}

#[tokio::test]
async fn overdue_items_are_woken_at_growing_ages_and_not_by_every_run() {
    let fixture = Fixture::new().await;
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    run(&maintenance).await;
    fixture.clock.advance(Duration::from_secs(35));
    enqueue(&fixture.provider, start_of("lost")).await;
    let work = fixture.provider.enqueue_for_worker(activity("busy", 2)).await;
    work.expect("it is queued");
    let mut ages = Vec::new();
    for minute in 1..=60_u64 {
        fixture.clock.advance(PERIOD);
        assert_complete(&run(&maintenance).await);
        let wakeups = queue.take();
        if !wakeups.is_empty() {
            assert_eq!(wakeups.len(), 2, "{wakeups:?}");
            let works = wakeups
                .iter()
                .filter(|delayed| matches!(delayed.wakeup.target, Target::Work(_)));
            assert_eq!(works.count(), 1, "{wakeups:?}");
            ages.push(minute);
        }
    }
    assert_eq!(ages, [1, 2, 4, 8, 16, 32]);
}

/// The period is shorter than the threshold here, as on a developer's machine.
#[tokio::test]
async fn a_timer_whose_commit_came_after_the_run_for_it_is_woken_by_the_next_run() {
    let fixture = Fixture::new().await;
    let period = Duration::from_secs(10);
    let settings = MaintenanceSettings { period, ..settings() };
    assert!(settings.overdue > 2 * period);
    let (maintenance, bell) = maintenance(&fixture.provider, &fixture.clock, settings);
    enqueue(&fixture.provider, start_of("slow")).await;
    let turn = turn(&fixture.provider, "slow").await;
    let due = fixture.clock.now_ms() + 1_000;
    fixture.clock.advance(period);
    assert_complete(&run(&maintenance).await);
    assert_eq!(woken(&bell), [""; 0]);
    let decision = Decision {
        events: vec![started("slow", 1)],
        messages: vec![timer("slow", due)],
        ..Decision::default()
    };
    commit(&fixture.provider, &turn.lock_token, decision)
        .await
        .expect("it commits");
    fixture.clock.advance(period);
    assert_complete(&run(&maintenance).await);
    assert_eq!(woken(&bell), ["slow"]);
    fixture.clock.advance(period / 2);
    assert_complete(&run(&maintenance).await);
    assert_eq!(woken(&bell), [""; 0], "and not again before the threshold");
}

#[tokio::test]
async fn a_run_whose_clock_was_ahead_does_not_silence_the_next() {
    let fixture = Fixture::new().await;
    let ahead = std::sync::Arc::new(tests::ManualClock::default());
    ahead.advance(Duration::from_secs(24 * 3_600));
    let clock = std::sync::Arc::clone(&ahead) as std::sync::Arc<dyn Clock>;
    let provider = tests::connect(fixture.world.builder().clock(clock)).await;
    assert_complete(&run(&maintenance(&provider, &ahead, settings()).0).await);
    assert!(ahead.now_ms() > fixture.clock.now_ms() + 3_600_000);
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    enqueue(&fixture.provider, start_of("lost")).await;
    put_off(&fixture, "timer", 1, Duration::from_secs(1_000)).await;
    fixture.clock.advance(Duration::from_secs(35));
    assert_complete(&run(&maintenance).await);
    assert_eq!(woken(&queue), ["lost"]);
    // And that is its state from now on.
    fixture.clock.advance(Duration::from_secs(900));
    assert_complete(&run(&maintenance).await);
    assert_eq!(woken(&queue), ["lost", "timer-000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn far_timers_cost_no_wakeup_until_they_are_near_and_then_one() {
    let fixture = Fixture::new().await;
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, MaintenanceSettings::default());
    put_off(&fixture, "far", 500, Duration::from_secs(7_200)).await;
    put_off(&fixture, "near", 5, Duration::from_secs(600)).await;
    let due = fixture.clock.now_ms() + 7_200_000;
    // The near ones got a wakeup when they were queued.
    fixture.clock.advance(Duration::from_secs(500));
    for _ in 0..3 {
        assert_complete(&run(&maintenance).await);
        assert_eq!(queue.count(), 0, "nothing is near that has no wakeup");
        fixture.clock.advance(Duration::from_secs(20));
    }
    fixture.clock.advance(Duration::from_secs(7_200 - 560 - 140));
    let now = fixture.clock.now_ms();
    let report = run(&maintenance).await;
    assert_complete(&report);
    let wakeups = queue.take();
    let far: Vec<_> = wakeups
        .iter()
        .filter(|delayed| delayed.wakeup.target.instance().starts_with("far"))
        .collect();
    assert_eq!(far.len(), 500);
    for delayed in far {
        assert_eq!(delayed.wakeup.due_ms, Some(due));
        assert_eq!(
            delayed.delay,
            Duration::from_secs((due - now) / 1_000 - 1),
            "the second before"
        );
    }
    for _ in 0..2 {
        fixture.clock.advance(PERIOD);
        assert_complete(&run(&maintenance).await);
        assert!(!woken(&queue).iter().any(|name| name.starts_with("far")), "once each");
    }
    // All those wakeups are lost: soon after their time they are woken again.
    fixture.clock.advance(PERIOD);
    assert_complete(&run(&maintenance).await);
    assert_eq!(woken(&queue).iter().filter(|name| name.starts_with("far")).count(), 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_continues_where_the_last_run_stopped() {
    let fixture = Fixture::new().await;
    let (listener, provider) = fixture.process().await;
    let small = MaintenanceSettings { page: 2, ..settings() };
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, small);
    for n in 0..90 {
        put_off(&fixture, &format!("r{n:02}"), 1, Duration::ZERO).await;
        fixture.clock.advance(Duration::from_millis(1));
    }
    fixture.clock.advance(Duration::from_secs(31));
    let request = MaintenanceRequest {
        passes: vec![PassName::Sweep],
        ..MaintenanceRequest::default()
    };
    listener.set_faults(Faults {
        delay: Some(Duration::from_millis(100)),
        ..Faults::default()
    });
    let (mut times, mut runs): (BTreeMap<String, usize>, usize) = (BTreeMap::new(), 0);
    loop {
        let report = maintenance
            .run(request.clone(), Budget::of(Duration::from_millis(3_900)))
            .await;
        runs += 1;
        let names = woken(&queue);
        // A slow machine may not come so far in each run, or only just to the end.
        let stopped_within = !names.is_empty() && times.len() + names.len() < 90;
        for name in names {
            *times.entry(name).or_default() += 1;
        }
        if !report.left_over {
            break;
        }
        let is_kept = fixture
            .world
            .documents()
            .await
            .iter()
            .any(|doc| doc["sweep"].is_object());
        assert!(is_kept || !stopped_within, "it is remembered: {report:?}");
        assert!(runs < 30, "it comes forward: {times:?}");
    }
    assert!(runs >= 2, "the budget was too large to show anything");
    assert_eq!(times.len(), 90, "all are woken");
    println!("90 overdue items in {runs} runs");
    // Although the ranges do not advance alike.
    assert!(times.values().all(|count| *count == 1), "once each: {times:?}");
}
