//! Retention searches once an interval, and at once when it is named, was interrupted, or never ran.

use crate::function::*;
use crate::retention::{AGE, OLD, left, plant, set};
use crate::support::*;
use cosmos_emulator::Refusing;
use duroxide_cosmos::CosmosProvider;
use duroxide_lambda::MaintenanceSettings;
use duroxide_lambda::internals::{Budget, Maintenance, PassName, Report};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(20 * 60);

fn retaining(fixture: &Fixture, provider: &Arc<CosmosProvider>) -> Maintenance {
    let settings = MaintenanceSettings {
        retention: OLD,
        search_interval: INTERVAL,
        ..settings()
    };
    maintenance(provider, &fixture.clock, settings).0
}

/// An instance that ended long ago.
async fn leave_old(fixture: &Fixture, instance: &str) {
    plant(&fixture.provider, instance, None, Some("Completed")).await;
    fixture.clock.advance(AGE + PERIOD);
}

fn searched(report: &Report) -> bool {
    report.passes[&PassName::Retention].pages > 0
}

#[tokio::test]
async fn retention_happens_once_an_interval() {
    let fixture = Fixture::new().await;
    leave_old(&fixture, "first").await;
    let maintenance = retaining(&fixture, &fixture.provider);
    let report = run(&maintenance).await;
    assert_complete(&report);
    assert_eq!(left(&fixture).await, set(&[]), "the first run of all");

    leave_old(&fixture, "second").await;
    assert!(searched(&run(&maintenance).await), "the interval was over");
    assert_eq!(left(&fixture).await, set(&[]));
    let mut searches = Vec::new();
    for minute in 1..=45 {
        fixture.clock.advance(PERIOD);
        let report = run(&maintenance).await;
        assert_complete(&report);
        if searched(&report) {
            searches.push(minute);
        }
    }
    assert_eq!(searches, [20, 40]);
}

#[tokio::test]
async fn a_request_that_names_retention_does_not_wait_and_does_not_postpone_the_schedule() {
    let fixture = Fixture::new().await;
    plant(&fixture.provider, "young", None, Some("Completed")).await;
    let maintenance = retaining(&fixture, &fixture.provider);
    assert!(searched(&run(&maintenance).await));
    fixture.clock.advance(PERIOD);
    assert!(!searched(&run(&maintenance).await));
    assert_eq!(left(&fixture).await, set(&["young"]));
    for request in [
        json!({"passes": ["retention"]}),
        json!({"retention": {"deleteAfterDays": 30}}),
    ] {
        fixture.clock.advance(PERIOD);
        let report = report_of(maintenance.handle(&request, Budget::of(ENOUGH)).await);
        assert_complete(&report);
        assert!(searched(&report), "{request}");
    }
    // Another policy than that of the settings at the time of a search does not count as that search.
    fixture.clock.advance(INTERVAL);
    let other = json!({"retention": {"deleteAfterDays": 30}});
    assert!(searched(&report_of(
        maintenance.handle(&other, Budget::of(ENOUGH)).await
    )));
    assert!(searched(&run(&maintenance).await));
    fixture.clock.advance(PERIOD);
    assert!(!searched(&run(&maintenance).await));
}

#[tokio::test]
async fn retention_that_was_interrupted_continues_with_the_next_run() {
    let fixture = Fixture::new().await;
    plant(&fixture.provider, "young", None, Some("Completed")).await;
    let (listener, provider) = fixture.process().await;
    let maintenance = retaining(&fixture, &provider);
    // How far retention has examined children cannot be read.
    listener.refuse_when(|request| request.path.ends_with("/retention").then(|| Refusing::with(403)));
    for _ in 0..2 {
        let report = run(&maintenance).await;
        assert!(report.passes[&PassName::Retention].error.is_some(), "{report:#?}");
        fixture.clock.advance(PERIOD);
    }
    listener.refuse_nothing();
    let report = run(&maintenance).await;
    assert_complete(&report);
    assert!(searched(&report));
    fixture.clock.advance(PERIOD);
    assert!(!searched(&run(&maintenance).await));
}

#[tokio::test]
async fn what_a_run_had_no_time_for_is_left_to_the_next() {
    let fixture = Fixture::new().await;
    let maintenance = retaining(&fixture, &fixture.provider);
    assert!(searched(&run(&maintenance).await));
    leave_old(&fixture, "old").await;
    let report = maintenance.run(Default::default(), Budget::of(Duration::ZERO)).await;
    assert!(report.left_over && !searched(&report), "{report:#?}");
    fixture.clock.advance(PERIOD);
    assert!(searched(&run(&maintenance).await));
    assert_eq!(left(&fixture).await, set(&[]));
}

#[tokio::test]
async fn retention_that_is_switched_on_does_not_wait() {
    let fixture = Fixture::new().await;
    leave_old(&fixture, "old").await;
    let (off, _) = maintenance(&fixture.provider, &fixture.clock, settings());
    assert!(!searched(&run(&off).await));
    fixture.clock.advance(PERIOD);
    let on = retaining(&fixture, &fixture.provider);
    assert!(searched(&run(&on).await));
    assert_eq!(left(&fixture).await, set(&[]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_at_once_keep_one_time_and_lose_nothing() {
    let fixture = Fixture::new().await;
    let (one, two) = (fixture.process().await.1, fixture.process().await.1);
    let (one, two) = (retaining(&fixture, &one), retaining(&fixture, &two));
    for round in 0..5 {
        leave_old(&fixture, &format!("old-{round}")).await;
        // Two deletions of one tree may stop each other. That is a failure, so the next run tries again.
        let mut tries = 0;
        loop {
            let (first, second) = futures::join!(run(&one), run(&two));
            fixture.clock.advance(PERIOD);
            for report in [&first, &second] {
                assert!(report.passes.values().all(|pass| pass.error.is_none()), "{report:#?}");
            }
            if !searched(&first) && !searched(&second) {
                break;
            }
            tries += 1;
            assert!(
                tries < 10,
                "round {round}: the time of the search is not kept: {first:#?} {second:#?}"
            );
        }
        assert!(tries > 0, "round {round}: the interval was over");
        assert_eq!(left(&fixture).await, set(&[]), "round {round}");
    }
}
