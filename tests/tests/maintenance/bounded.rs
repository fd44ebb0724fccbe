//! Runs are bounded, fair, and can be cut short or doubled.

use crate::function::*;
use crate::support::*;
use cosmos_emulator::{CrashPoint, Faults};
use duroxide::providers::{Provider, SessionFetchConfig};
use duroxide_lambda::MaintenanceSettings;
use duroxide_lambda::internals::PassName;
use duroxide_lambda::internals::{Budget, MaintenanceRequest};
use futures::StreamExt as _;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tests::turns::{raised, start_of};

/// Leaves so many undelivered, overdue messages and expired sessions; half an hour passes.
pub async fn neglect(fixture: &Fixture, count: usize) {
    const EACH: usize = 90;
    let sources = (0..count.div_ceil(EACH)).map(|part| {
        let targets = (0..EACH.min(count - part * EACH)).map(|n| start_of(&format!("t{part}-{n}")));
        (format!("source-{part}"), targets.collect())
    });
    fixture.leave_all_undelivered(sources.collect()).await;
    let messages = (0..count).map(|n| {
        // Few have the same time, as in production.
        if n % 10 == 0 {
            fixture.clock.advance(Duration::from_millis(1));
        }
        let item = raised(&format!("lost-{n}"), "x");
        fixture.provider.enqueue_for_orchestrator(item, None)
    });
    let queued: Vec<_> = futures::stream::iter(messages).buffer_unordered(32).collect().await;
    assert!(queued.into_iter().all(|queued| queued.is_ok()));
    let claim = SessionFetchConfig {
        owner_id: "gone".to_owned(),
        lock_timeout: Duration::from_secs(30),
    };
    let claims = (0..count).map(|n| {
        let (claim, session) = (&claim, format!("session-{n}"));
        async move { fixture.provider.claim_session(&session, claim).await }
    });
    let held: Vec<_> = futures::stream::iter(claims).buffer_unordered(32).collect().await;
    assert!(held.into_iter().all(|held| held.is_ok()));
    fixture.clock.advance(Duration::from_secs(1_800));
}

const BUSY: [PassName; 3] = [PassName::Outbox, PassName::Sessions, PassName::Sweep];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pass_starves_another_and_successive_runs_drain_everything() {
    let fixture = Fixture::new().await;
    let begun = Instant::now();
    neglect(&fixture, 150).await;
    // In proportion to the machine, so that each pass has time for something and none for everything.
    let time = Duration::from_secs(5) + begun.elapsed();
    let (listener, provider) = fixture.process().await;
    let small = MaintenanceSettings { page: 3, ..settings() };
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, small);
    listener.set_faults(Faults {
        delay: Some(Duration::from_millis(40)),
        ..Faults::default()
    });
    let request = MaintenanceRequest {
        passes: BUSY.to_vec(),
        ..MaintenanceRequest::default()
    };
    let begun = Instant::now();
    let report = maintenance.run(request.clone(), Budget::of(time)).await;
    // A slow machine may add to what ends by a timer.
    assert!(begun.elapsed() < time * 2, "{:?}", begun.elapsed());
    println!("one short run: {report:?}");
    let pages = BUSY.map(|pass| report.passes[&pass].pages);
    let (least, most) = (pages.iter().min(), pages.iter().max());
    assert!(
        least > Some(&0) && most <= least.map(|least| least + 1).as_ref(),
        "{pages:?}"
    );
    for pass in BUSY {
        assert_eq!(report.passes[&pass].error, None, "the end of the time is no error");
        assert!(
            report.passes[&pass].left_over && report.passes[&pass].done > 0,
            "{pass:?}: {report:?}"
        );
    }
    let mut names: BTreeSet<String> = woken(&queue).into_iter().collect();
    listener.clear_faults();
    for runs in 2.. {
        let report = maintenance.run(request.clone(), Budget::of(time)).await;
        names.extend(woken(&queue));
        if !report.left_over {
            println!("drained in {runs} runs");
            break;
        }
        assert!(runs < 20, "{report:?}");
    }
    assert!(fixture.intents().await.is_empty() && fixture.world.documents_of("session").await.is_empty());
    assert_eq!(names.iter().filter(|name| name.starts_with('t')).count(), 150);
    assert_eq!(names.iter().filter(|name| name.starts_with("lost")).count(), 150);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requests_for_each_repaired_item_stay_flat() {
    let mut costs = Vec::new();
    for count in [50, 250] {
        let fixture = Fixture::new().await;
        neglect(&fixture, count).await;
        let (listener, provider) = fixture.process().await;
        let (maintenance, _) = maintenance(&provider, &fixture.clock, MaintenanceSettings::default());
        listener.reset();
        assert_complete(&run(&maintenance).await);
        costs.push(listener.counts().requests as f64 / (3 * count) as f64);
    }
    println!("requests per repaired item, 150 and 750 items: {costs:.2?}");
    assert!(costs[1] <= costs[0], "{costs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_at_once_deliver_once() {
    let fixture = Fixture::new().await;
    neglect(&fixture, 50).await;
    let (one, two) = (fixture.process().await.1, fixture.process().await.1);
    let (first, first_bell) = maintenance(&one, &fixture.clock, settings());
    let (second, second_bell) = maintenance(&two, &fixture.clock, settings());
    let (left, right) = futures::join!(run(&first), run(&second));
    for report in [left, right] {
        assert_complete(&report);
        assert!(report.passes.values().all(|pass| pass.given_up == 0), "{report:?}");
    }
    let targets: Vec<String> = (0..50).map(|n| format!("t0-{n}")).collect();
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    fixture.assert_one_message_each(&names).await;
    let wakeups: BTreeSet<String> = [woken(&first_bell), woken(&second_bell)].concat().into_iter().collect();
    assert!(targets.iter().all(|target| wakeups.contains(target)), "{wakeups:?}");
    fixture.clock.advance(PERIOD);
    assert_complete(&run(&first).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a crash at each write"]
async fn a_run_that_crashes_at_any_write_is_completed_by_the_next() {
    // Three deliveries, a removal, three sessions, the state; and then it succeeds.
    let scenes = BOTH.into_iter().flat_map(|point| (1..=9).map(move |n| (n, point)));
    let crashes: Vec<(u64, CrashPoint, bool)> = futures::stream::iter(scenes)
        .map(|(n, point)| async move { (n, point, crashes_at(n, point).await) })
        .buffer_unordered(6)
        .collect()
        .await;
    for (n, point, crashed) in crashes {
        assert_eq!(crashed, n <= 8, "{point:?} {n}");
    }
}

/// One run that crashes at its n-th write, and one that does not. Answers whether the first crashed.
async fn crashes_at(n: u64, point: CrashPoint) -> bool {
    let fixture = Fixture::new().await;
    neglect(&fixture, 3).await;
    let (listener, provider) = fixture.process().await;
    let (crashing, _) = maintenance(&provider, &fixture.clock, settings());
    listener.crash_at_write(n, point);
    until_crash(&listener, run(&crashing)).await;
    fixture.clock.advance(MUCH_LATER);
    let (next, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    let report = run(&next).await;
    assert_complete(&report);
    assert!(
        report.passes.values().all(|pass| pass.failed + pass.given_up == 0),
        "{point:?} {n}: {report:?}"
    );
    fixture.assert_one_message_each(&["t0-0", "t0-1", "t0-2"]).await;
    assert!(fixture.intents().await.is_empty(), "{point:?} {n}");
    assert!(fixture.world.documents_of("session").await.is_empty(), "{point:?} {n}");
    let wakeups: BTreeSet<String> = woken(&queue).into_iter().collect();
    for target in ["t0-0", "t0-1", "t0-2", "lost-0", "lost-1", "lost-2"] {
        assert!(
            wakeups.contains(target),
            "{point:?} {n}: {target} is not woken: {wakeups:?}"
        );
    }
    listener.crashed()
}
