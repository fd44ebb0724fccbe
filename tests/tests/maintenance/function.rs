//! The maintenance function: requests, reports, and what a run costs.

use crate::support::*;
use cosmos::Clock;
use duroxide_cosmos::CosmosProvider;
use duroxide_cosmos::Retention;
use duroxide_lambda::internals::Memory;
use duroxide_lambda::internals::Metrics;
use duroxide_lambda::internals::{Answer, MaintenanceError, PassName};
use duroxide_lambda::internals::{BoundedNotifier, Budget, Maintenance, MaintenanceRequest, Report};
use duroxide_lambda::{MaintenanceSettings, Notifier};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tests::log::LogLines;
use tests::turns::{enqueue, start_of};

/// Enough for anything here.
pub const ENOUGH: Duration = Duration::from_secs(60);
/// The schedule's period.
pub const PERIOD: Duration = Duration::from_secs(60);

/// The usual numbers, with small pages.
pub fn settings() -> MaintenanceSettings {
    MaintenanceSettings {
        page: 10,
        ..MaintenanceSettings::default()
    }
}

/// Maintenance in a process of its own, and its notifier.
pub fn maintenance(
    provider: &Arc<CosmosProvider>,
    clock: &Arc<impl Clock + 'static>,
    settings: MaintenanceSettings,
) -> (Maintenance, Arc<Memory>) {
    let queue = Arc::new(Memory::new());
    let notifier = Arc::clone(&queue) as Arc<dyn Notifier>;
    let notifier = BoundedNotifier::new(notifier, Duration::from_secs(2), Arc::new(Metrics::new(None)));
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    (Maintenance::new(Arc::clone(provider), notifier, clock, settings), queue)
}

/// A run of all passes, with enough time.
pub async fn run(maintenance: &Maintenance) -> Report {
    maintenance.run(MaintenanceRequest::default(), Budget::of(ENOUGH)).await
}

/// The report of a run.
#[track_caller]
pub fn report_of(answer: Result<Answer, MaintenanceError>) -> Report {
    match answer {
        Ok(Answer::Report(report)) => report,
        other => panic!("it is understood as a run: {other:?}"),
    }
}

/// Fails unless a run did all there was to do.
#[track_caller]
pub fn assert_complete(report: &Report) {
    assert!(!report.left_over, "{report:#?}");
    assert!(report.passes.values().all(|pass| pass.error.is_none()), "{report:#?}");
}

/// The instances that were woken, sorted.
pub fn woken(queue: &Memory) -> Vec<String> {
    let wakeups = queue.take().into_iter();
    let mut names: Vec<String> = wakeups
        .map(|delayed| delayed.wakeup.target.instance().to_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn the_schedule_runs_every_pass_and_returns_a_report() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("source", &["target"]).await;
    enqueue(&fixture.provider, start_of("forgotten")).await;
    fixture.clock.advance(Duration::from_secs(40));
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    let event = json!({"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}});
    let report = report_of(maintenance.handle(&event, Budget::of(ENOUGH)).await);
    assert_complete(&report);
    let text = serde_json::to_value(&report).expect("a report is JSON");
    assert_eq!(text["passes"]["outbox"]["done"], 1);
    assert_eq!(text["passes"]["sweep"]["done"], 1);
    assert_eq!(
        (&text["store"]["outboxDepth"], &text["store"]["messagesDue"]),
        (&json!(0), &json!(2))
    );
    assert_eq!(woken(&queue), ["forgotten", "target"]);
    let metrics = Metrics::new(Some("tests".to_owned()));
    report.measure(&metrics);
    let line = metrics.flush("maintenance", Duration::ZERO, 0).expect("a line");
    let line: Value = serde_json::from_str(&line).expect("it is JSON");
    for (name, value) in [("OutboxDone", 1), ("SweepDone", 1), ("MessagesDue", 2)] {
        assert_eq!(line[name], value, "{name}");
    }
    for name in ["DeadLetters", "PassesFailed"] {
        assert!(line[name].is_null(), "{name} was zero before");
    }
}

#[tokio::test]
async fn a_bad_request_is_refused_and_changes_nothing() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("source", &["target"]).await;
    fixture.clock.advance(OVERDUE);
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, settings());
    listener.reset();
    for (payload, field) in [
        (json!("garbage"), "the payload"),
        (json!([1, 2]), "the payload"),
        (json!(null), "the payload"),
        (json!({"passes": ["outbox", "everything"]}), "passes[1]"),
        (json!({"passes": "outbox"}), "passes"),
        (json!({"passes": ["outbox"], "pageSize": -5}), "pageSize"),
        (json!({"passes": ["outbox"], "pageSize": 0}), "pageSize"),
        (json!({"passes": ["outbox"], "pageSize": "many"}), "pageSize"),
        (json!({"passes": ["outbox"], "limit": 5}), "limit"),
        (
            json!({"retention": {"deleteAfterDays": -1}}),
            "retention.deleteAfterDays",
        ),
        (json!({"passes": ["retention"]}), "passes"),
        (
            json!({"passes": ["outbox"], "deadLetters": {"list": {}}}),
            "deadLetters",
        ),
        (json!({"deadLetters": {"redrive": {}}}), "deadLetters.redrive"),
        (json!({"deadLetters": {"purge": {}}}), "deadLetters.purge"),
    ] {
        let refused = maintenance.handle(&payload, Budget::of(ENOUGH)).await;
        let Err(MaintenanceError::Request(error)) = refused else {
            panic!("{payload}: {refused:?}")
        };
        assert_eq!(error.field, field, "{error}");
        assert!(error.to_string().contains("send"), "{error}");
    }
    assert_eq!((listener.counts().requests, queue.count()), (0, 0));
    assert_eq!(fixture.intents().await.len(), 1);
}

#[tokio::test]
async fn a_direct_invocation_does_what_it_names_and_no_more() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("source", &["a", "b"]).await;
    enqueue(&fixture.provider, start_of("forgotten")).await;
    fixture.clock.advance(Duration::from_secs(40));
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    let report = maintenance
        .handle(&json!({"passes": ["outbox"], "pageSize": 1}), Budget::of(ENOUGH))
        .await;
    let report = report_of(report);
    assert_eq!(report.passes.keys().collect::<Vec<_>>(), [&PassName::Outbox]);
    assert!(
        report.passes[&PassName::Outbox].pages >= 1 && report.store.is_none(),
        "{report:?}"
    );
    assert_eq!(woken(&queue), ["a", "b"]);
}

#[tokio::test]
async fn retention_is_off_by_default() {
    let fixture = Fixture::new().await;
    let (off, _) = maintenance(&fixture.provider, &fixture.clock, settings());
    let report = run(&off).await;
    assert_complete(&report);
    assert_eq!(report.passes[&PassName::Retention].pages, 0);
    let retention = Retention {
        keep_executions: Some(3),
        ..Retention::default()
    };
    let (on, _) = maintenance(
        &fixture.provider,
        &fixture.clock,
        MaintenanceSettings {
            retention,
            ..settings()
        },
    );
    let report = run(&on).await;
    assert_complete(&report);
    assert!(report.passes[&PassName::Retention].pages >= 1);
}

#[tokio::test]
async fn a_run_without_time_changes_nothing_and_says_what_is_left() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("source", &["target"]).await;
    fixture.clock.advance(Duration::from_secs(40));
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, settings());
    listener.reset();
    for time in [Duration::ZERO, Duration::from_millis(300)] {
        let report = maintenance.run(MaintenanceRequest::default(), Budget::of(time)).await;
        assert!(report.left_over, "{report:?}");
        for (pass, result) in &report.passes {
            assert_eq!(result.left_over, *pass != PassName::Retention, "{pass:?}");
            assert_eq!((result.found, result.pages), (0, 0), "{pass:?}");
        }
    }
    assert_eq!((listener.counts().requests, queue.count()), (0, 0));
}

#[tokio::test]
async fn an_idle_run_is_cheap_and_sends_no_wakeup() {
    let fixture = Fixture::new().await;
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, settings());
    run(&maintenance).await;
    fixture.clock.advance(PERIOD);
    listener.reset();
    assert_complete(&run(&maintenance).await);
    let counts = listener.counts();
    println!(
        "an idle run on {PARTITIONS} physical partitions: {} requests",
        counts.requests
    );
    assert_eq!(queue.count(), 0);
    assert_eq!(counts.requests, 3 * u64::from(PARTITIONS) + 2, "{counts:?}");
}

#[tokio::test]
async fn a_pass_that_cannot_reach_the_store_does_not_stop_the_others() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("source", &["target"]).await;
    fixture.clock.advance(Duration::from_secs(40));
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, settings());
    // The state document is the sweep's alone: it is the only single read of a run.
    listener.refuse_when(|request| {
        (request.kind == cosmos_emulator::RequestKind::Read).then(|| cosmos_emulator::Refusing::with(403))
    });
    let report = run(&maintenance).await;
    assert!(
        report.passes[&PassName::Sweep].error.is_some() && report.left_over,
        "{report:#?}"
    );
    assert_eq!(report.passes[&PassName::Outbox].done, 1);
    assert_eq!(woken(&queue), ["target"]);
}

#[tokio::test]
async fn a_log_line_of_a_pass_names_the_pass_without_repeating_it() {
    let fixture = Fixture::new().await;
    let (maintenance, notifier) = maintenance(&fixture.provider, &fixture.clock, settings());
    notifier.fail_all(true);
    // A callsite that another test registers in the moment of the capture may miss it: this run registers them before.
    enqueue(&fixture.provider, start_of("earlier")).await;
    fixture.clock.advance(PERIOD);
    run(&maintenance).await;
    enqueue(&fixture.provider, start_of("lost")).await;
    fixture.clock.advance(PERIOD);
    let (log, logging) = LogLines::capture();
    let report = run(&maintenance).await;
    drop(logging);
    assert!(report.wakeups_failed >= 1, "{report:?}");
    let lines = log.read();
    let warning = lines
        .iter()
        .find(|line| line["level"] == "WARN" && line["instance"] == "lost")
        .expect("a wakeup failed");
    assert_eq!(warning["pass"], json!("sweep"));
    assert!(
        warning["budget_ms"].as_u64() > Some(50_000),
        "the run's span: {warning}"
    );
    let end = lines.iter().find(|line| line["message"] == "maintenance ended");
    let end = end.expect("the report is logged");
    assert!(end["pass"].is_null() && end["budget_ms"].is_u64(), "{end}");
}
