//! A store that hangs, or one of its partitions: a run ends in time, does what it can, and reports the rest.

use crate::function::*;
use crate::retention::{AGE, left, plant, set};
use crate::support::*;
use cosmos_emulator::{CrashPoint, Listener, Refusing, RequestKind};
use duroxide::providers::ProviderAdmin;
use duroxide_cosmos::Retention;
use duroxide_lambda::MaintenanceSettings;
use duroxide_lambda::internals::Metrics;
use duroxide_lambda::internals::PassName;
use duroxide_lambda::internals::{Budget, MaintenanceRequest, Report};
use serde_json::Value;
use std::time::{Duration, Instant};
use tests::turns::{Decision, begin_with, commit, enqueue, named, start_of, started, turn};

/// A budget of which two seconds are for the passes.
const SHORT: Duration = Duration::from_secs(5);
/// Far more than a short run takes, on any machine; less than an operation would wait for the store.
const TOO_LONG: Duration = Duration::from_secs(25);

#[tokio::test]
async fn a_state_that_cannot_be_read_costs_a_run_no_more_than_its_budget() {
    let fixture = Fixture::new().await;
    enqueue(&fixture.provider, start_of("forgotten")).await;
    fixture.clock.advance(Duration::from_secs(40));
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, settings());
    let sweep = MaintenanceRequest {
        passes: vec![PassName::Sweep],
        ..MaintenanceRequest::default()
    };
    // The state document is the only single read of a run.
    listener.reset();
    listener.refuse_when(|request| (request.kind == RequestKind::Read).then(|| Refusing::with(503)));
    let begun = Instant::now();
    let report = maintenance.run(sweep.clone(), Budget::of(SHORT)).await;
    assert!(begun.elapsed() < TOO_LONG, "{:?}", begun.elapsed());
    assert!(listener.counts().requests > 0, "it was asked for");
    assert!(report.left_over && queue.count() == 0, "{report:?}");
    listener.refuse_nothing();
    assert_complete(&maintenance.run(sweep, Budget::of(ENOUGH)).await);
    assert_eq!(woken(&queue), ["forgotten"]);
}

/// Nothing of these partitions is answered in time.
fn hang(listener: &Listener, partitions: &[&str]) {
    let partitions: Vec<String> = partitions.iter().map(|pk| header(pk)).collect();
    listener.refuse_when(move |request| {
        let pk = request.partition_key.as_ref()?;
        partitions.contains(pk).then(|| Refusing::with(503))
    });
}

/// A deletion of these two that was decided and not carried out.
async fn leave_a_deletion(fixture: &Fixture, both: [&str; 2]) {
    for instance in both {
        begin_with(&fixture.provider, instance, 2, named()).await;
    }
    let (listener, deletes) = fixture.process().await;
    // Two marks, and the decision.
    listener.crash_at_write(3, CrashPoint::AfterApplied);
    let both = both.map(str::to_owned);
    until_crash(&listener, deletes.delete_instances_atomic(&both, true)).await;
    fixture.clock.advance(Duration::from_secs(1));
}

/// Of this, half is for an item that hangs, and there is time left for those behind it.
const LONG_ENOUGH: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfinished_deletion_that_hangs_does_not_hide_the_one_behind_it() {
    let fixture = Fixture::new().await;
    leave_a_deletion(&fixture, ["first a", "first b"]).await;
    leave_a_deletion(&fixture, ["second a", "second b"]).await;
    fixture.clock.advance(MUCH_LATER);
    let (listener, provider) = fixture.process().await;
    let (maintenance, _) = maintenance(&provider, &fixture.clock, settings());
    let request = MaintenanceRequest {
        passes: vec![PassName::Unfinished],
        ..MaintenanceRequest::default()
    };
    hang(&listener, &["first a", "first b"]);
    let report = maintenance.run(request.clone(), Budget::of(LONG_ENOUGH)).await;
    assert_eq!(left(&fixture).await, set(&["first a", "first b"]), "{report:?}");
    let result = &report.passes[&PassName::Unfinished];
    assert!(result.failed >= 1 && result.error.is_none(), "{report:?}");
    listener.refuse_nothing();
    assert_complete(&maintenance.run(request, Budget::of(ENOUGH)).await);
    assert_eq!(left(&fixture).await, set(&[]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_instance_that_hangs_does_not_hide_the_one_behind_it() {
    let fixture = Fixture::new().await;
    for name in ["first", "second", "third"] {
        plant(&fixture.provider, name, None, Some("Completed")).await;
        fixture.clock.advance(Duration::from_secs(1));
    }
    fixture.clock.advance(AGE);
    let (listener, provider) = fixture.process().await;
    let retention = Retention {
        delete_after: Some(AGE),
        ..Retention::default()
    };
    // One item in each page, and all in one partition or not: what is behind is also on a later page.
    let settings = MaintenanceSettings {
        retention,
        page: 1,
        ..settings()
    };
    let (maintenance, _) = maintenance(&provider, &fixture.clock, settings);
    let request = MaintenanceRequest {
        passes: vec![PassName::Retention],
        ..MaintenanceRequest::default()
    };
    hang(&listener, &["first"]);
    let report = maintenance.run(request.clone(), Budget::of(LONG_ENOUGH)).await;
    assert_eq!(left(&fixture).await, set(&["first"]), "{report:?}");
    let result = &report.passes[&PassName::Retention];
    assert_eq!((result.failed, &result.error), (1, &None), "{report:?}");
    listener.refuse_nothing();
    assert_complete(&maintenance.run(request, Budget::of(ENOUGH)).await);
    assert_eq!(left(&fixture).await, set(&[]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_that_cannot_be_marked_in_time_keeps_no_mark() {
    let fixture = Fixture::new().await;
    plant(&fixture.provider, "root", None, Some("Completed")).await;
    plant(&fixture.provider, "child", Some("root"), Some("Completed")).await;
    fixture.clock.advance(AGE + AGE);
    let (listener, provider) = fixture.process().await;
    let retention = Retention {
        delete_after: Some(AGE),
        ..Retention::default()
    };
    let (maintenance, _) = maintenance(
        &provider,
        &fixture.clock,
        MaintenanceSettings {
            retention,
            ..settings()
        },
    );
    let request = MaintenanceRequest {
        passes: vec![PassName::Retention],
        ..MaintenanceRequest::default()
    };
    // The root can be marked, the child cannot.
    let child = header("child");
    listener.refuse_when(move |request| {
        let is_mark = request.kind.is_write() && request.partition_key.as_ref() == Some(&child);
        is_mark.then(|| Refusing::with(503))
    });
    let report = maintenance.run(request, Budget::of(LONG_ENOUGH)).await;
    assert_eq!(report.passes[&PassName::Retention].done, 0, "{report:?}");
    let lock = fixture.world.document("root", "instance").await.expect("it has a lock");
    assert!(lock["deleting"].is_null(), "{lock}");
    assert_eq!(left(&fixture).await, set(&["child", "root"]));
}

/// The metric by which a broken pass is alarmed.
fn broken(report: &Report) -> Value {
    let metrics = Metrics::new(Some("tests".to_owned()));
    report.measure(&metrics);
    let line = metrics.flush("maintenance", Duration::ZERO, 0).expect("a line");
    let line: Value = serde_json::from_str(&line).expect("it is JSON");
    line["PassesFailed"].clone()
}

#[tokio::test]
async fn a_store_that_hangs_breaks_all_passes_until_it_answers_again() {
    let fixture = Fixture::new().await;
    let (listener, provider) = fixture.process().await;
    let (maintenance, _) = maintenance(&provider, &fixture.clock, settings());
    listener.refuse_when(|_| Some(Refusing::with(503)));
    let begun = Instant::now();
    let report = maintenance.run(MaintenanceRequest::default(), Budget::of(SHORT)).await;
    assert!(begun.elapsed() < TOO_LONG, "{:?}", begun.elapsed());
    // Retention is off.
    assert_eq!(broken(&report), 5, "{report:#?}");
    for (pass, result) in &report.passes {
        assert_eq!(
            result.error.is_some(),
            *pass != PassName::Retention,
            "{pass:?}: {result:?}"
        );
    }
    let result = report.passes[&PassName::Outbox].error.as_deref().unwrap_or_default();
    assert!(result.contains("did not answer in time"), "{result}");
    listener.refuse_nothing();
    let report = run(&maintenance).await;
    assert_complete(&report);
    assert!(broken(&report).is_null(), "no failure is not written");
}

#[tokio::test]
async fn a_store_that_is_throttled_for_a_while_closes_no_pass() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("source", &["target"]).await;
    fixture.clock.advance(Duration::from_secs(40));
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, settings());
    // The first page of the outbox is refused to its end; what comes later is not.
    let first = std::sync::Mutex::new(None);
    let share = Duration::from_secs(8);
    listener.refuse_when(move |_| {
        let mut first = first.lock().ok()?;
        let begun = first.get_or_insert_with(Instant::now);
        (begun.elapsed() < share).then(|| Refusing::with(503))
    });
    let request = MaintenanceRequest {
        passes: vec![PassName::Outbox, PassName::Unfinished],
        ..MaintenanceRequest::default()
    };
    // Half of the time is the outbox's.
    let report = maintenance.run(request, Budget::of(Duration::from_secs(17))).await;
    let outbox = &report.passes[&PassName::Outbox];
    assert_eq!((outbox.done, &outbox.error), (1, &None), "{report:#?}");
    assert!(outbox.pages > 1, "its first page was meant to fail: {report:#?}");
    assert_eq!(woken(&queue), ["target"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_that_hang_hold_a_committed_turn_no_longer_than_the_outbox_is_patient() {
    let fixture = Fixture::new().await;
    let (listener, provider) = fixture.process().await;
    // More than are delivered at once, and one behind them that can be reached.
    let hanging: Vec<String> = (0..40).map(|n| format!("hangs-{n}")).collect();
    let names: Vec<&str> = hanging.iter().map(String::as_str).collect();
    enqueue(&fixture.provider, start_of("source")).await;
    let held = turn(&provider, "source").await;
    hang(&listener, &names);
    let mut messages = vec![start_of("reached")];
    messages.extend(names.iter().map(|name| start_of(name)));
    let decision = Decision {
        events: vec![started("source", 1)],
        messages,
        ..Decision::default()
    };
    let begun = Instant::now();
    commit(&provider, &held.lock_token, decision)
        .await
        .expect("a committed turn is not reported as failed");
    assert!(begun.elapsed() < TOO_LONG, "{:?}", begun.elapsed());
    fixture.assert_one_message_each(&["reached"]).await;
    assert_eq!(fixture.intents().await.len(), names.len(), "the rest is safe");
    fixture.clock.advance(OVERDUE);
    assert_eq!(deliver_all(&fixture.provider, 100).await.done, 40);
    fixture.assert_one_message_each(&names).await;
}
