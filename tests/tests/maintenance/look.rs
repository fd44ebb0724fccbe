//! The look at the beginning of a run: passes without work send nothing, those with work do it, and nothing depends on the look.

use crate::due::enqueue_timer;
use crate::function::*;
use crate::support::*;
use cosmos::{Clock, PartitionKey, Retry};
use cosmos_emulator::{Refusing, RequestKind};
use duroxide::providers::SessionFetchConfig;
use duroxide_cosmos::{CosmosProvider, DueWindow, LookRequest};
use duroxide_lambda::MaintenanceSettings;
use duroxide_lambda::internals::{PassName, Report};
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tests::turns::{LOCK, activity, begin_with, enqueue, named, raised, start_of};
use tokio::time::Instant;

const FAR: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The passes that sent requests, of those that may change the store.
fn busy(report: &Report) -> Vec<PassName> {
    let may_write = report
        .passes
        .iter()
        .filter(|(pass, _)| !matches!(pass, PassName::Sweep | PassName::Report));
    may_write
        .filter(|(_, report)| report.pages > 0)
        .map(|(pass, _)| *pass)
        .collect()
}

#[track_caller]
fn assert_whole(report: &Report, found: u64) {
    let look = report.look.as_ref().expect("a scheduled run looks");
    assert_eq!(
        (look.whole, look.found, &look.error),
        (true, found, &None),
        "{report:#?}"
    );
}

async fn claim_session(provider: &CosmosProvider, session: &str) {
    let config = SessionFetchConfig {
        owner_id: "owner".to_owned(),
        lock_timeout: Duration::from_secs(30),
    };
    let claimed = provider.claim_session(session, &config).await;
    claimed.expect("the store can be reached");
}

#[tokio::test]
async fn only_the_pass_with_something_to_do_sends_requests_and_does_it() {
    let fixture = Fixture::new().await;
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    let report = run(&maintenance).await;
    assert_eq!(busy(&report), [PassName::Sessions], "once an interval, and at first");
    assert_whole(&report, 0);

    fixture.clock.advance(PERIOD);
    let report = run(&maintenance).await;
    assert_complete(&report);
    assert_eq!(busy(&report), [], "nothing waits");

    fixture.leave_starts_undelivered("source", &["target"]).await;
    fixture.clock.advance(OVERDUE);
    let report = run(&maintenance).await;
    assert_complete(&report);
    assert_eq!(busy(&report), [PassName::Outbox]);
    assert_eq!(report.passes[&PassName::Outbox].done, 1);
    assert_eq!(woken(&queue), ["target"]);
    assert_eq!(
        report.store.expect("it is counted").outbox_depth,
        0,
        "as of after the pass"
    );
    fixture.consume("target").await;

    claim_session(&fixture.provider, "session").await;
    let report = run(&maintenance).await;
    assert_eq!(busy(&report), [], "the session lives");
    assert_whole(&report, 1);
    fixture.clock.advance(PERIOD);
    let report = run(&maintenance).await;
    assert_complete(&report);
    assert_eq!(busy(&report), [PassName::Sessions]);
    assert_eq!(report.passes[&PassName::Sessions].done, 1);

    // A message to an instance that does not exist is set aside, and given up after a day.
    enqueue(&fixture.provider, raised("nobody", "x")).await;
    let fetched = fixture.provider.fetch_turn("nobody", LOCK, None).await;
    assert!(
        !matches!(fetched, Ok(duroxide_cosmos::Fetched::Ready(_))),
        "{fetched:?}"
    );
    assert_eq!(busy(&run(&maintenance).await), [], "its grace period lasts");
    fixture.clock.advance(Duration::from_secs(24 * 3_600));
    let report = run(&maintenance).await;
    assert_complete(&report);
    assert_eq!(report.passes[&PassName::Unfinished].given_up, 1, "{report:#?}");
    assert_eq!(report.passes[&PassName::Outbox].pages, 0);
    assert_eq!(report.store.expect("it is counted").dead_letters, 1);
}

#[tokio::test]
async fn the_sweep_wakes_from_the_look_what_it_would_read() {
    let fixture = Fixture::new().await;
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, settings());
    run(&maintenance).await;
    let now = fixture.clock.now_ms();
    enqueue(&fixture.provider, start_of("lost")).await;
    enqueue_timer(&fixture, "soon", now + 1_000_000).await;
    enqueue_timer(&fixture, "far", now + 10_000_000).await;
    let work = duroxide::providers::Provider::enqueue_for_worker(&*fixture.provider, activity("work", 2)).await;
    work.expect("it is queued");
    fixture.clock.advance(Duration::from_millis(1_000_000 - 100_000));
    listener.reset();
    let report = run(&maintenance).await;
    assert_complete(&report);
    assert_whole(&report, 3);
    assert_eq!(woken(&queue), ["lost", "soon", "work"]);
    // The stuck instances cost one query more than an idle run, and so does the question which of the overdue ones are paused.
    assert_eq!(listener.counts().cross_partition_queries, 5 * u64::from(PARTITIONS));
    let store = report.store.expect("it is counted");
    assert_eq!(
        (
            store.messages_due,
            store.activities_due,
            store.timers_pending,
            store.stuck_instances
        ),
        (1, 1, 2, 2),
        "{store:?}"
    );
    assert_eq!(store.oldest_due_seconds, 900);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_larger_than_a_page_is_served_without_the_look() {
    let fixture = Fixture::new().await;
    let small = MaintenanceSettings { page: 2, ..settings() };
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, small);
    run(&maintenance).await;
    let targets: Vec<String> = (0..20).map(|n| format!("target-{n:02}")).collect();
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    fixture.leave_starts_undelivered("source", &names).await;
    for n in 0..20 {
        enqueue(&fixture.provider, start_of(&format!("lost-{n:02}"))).await;
        claim_session(&fixture.provider, &format!("session-{n}")).await;
    }
    fixture.clock.advance(PERIOD);
    let report = run(&maintenance).await;
    assert_complete(&report);
    let look = report.look.as_ref().expect("a scheduled run looks");
    assert!(!look.whole && look.found <= u64::from(2 * PARTITIONS), "{look:?}");
    assert_eq!(report.passes[&PassName::Outbox].done, 20);
    assert_eq!(report.passes[&PassName::Sessions].done, 20);
    let woken = woken(&queue);
    for name in targets.iter().cloned().chain((0..20).map(|n| format!("lost-{n:02}"))) {
        assert!(woken.contains(&name), "{name} in {woken:?}");
    }
    let store = report.store.expect("it is counted");
    assert_eq!((store.outbox_depth, store.messages_due), (0, 40), "{store:?}");
}

#[tokio::test]
async fn a_look_that_fails_is_reported_and_every_pass_searches_by_itself() {
    let fixture = Fixture::new().await;
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, settings());
    run(&maintenance).await;
    fixture.leave_starts_undelivered("source", &["target"]).await;
    enqueue(&fixture.provider, start_of("lost")).await;
    claim_session(&fixture.provider, "session").await;
    fixture.clock.advance(PERIOD);
    // The look's queries are the first of a run.
    let refused = AtomicU32::new(0);
    listener.refuse_when(move |request| {
        let is_look =
            request.kind == RequestKind::CrossPartitionQuery && refused.fetch_add(1, Ordering::SeqCst) < PARTITIONS;
        is_look.then(|| Refusing::with(403))
    });
    let report = run(&maintenance).await;
    assert_complete(&report);
    let look = report.look.as_ref().expect("a scheduled run looks");
    assert!(look.error.is_some() && !look.whole, "{look:?}");
    assert_eq!(
        busy(&report),
        [PassName::Outbox, PassName::Unfinished, PassName::Sessions]
    );
    assert_eq!(report.passes[&PassName::Sessions].done, 1);
    assert_eq!(woken(&queue), ["lost", "target"]);
    assert_eq!(report.store.expect("it is counted").messages_due, 2);
    listener.refuse_nothing();
    fixture.clock.advance(PERIOD);
    let report = run(&maintenance).await;
    assert_whole(&report, 2);
}

#[tokio::test]
async fn a_request_that_names_passes_runs_them_without_a_look() {
    let fixture = Fixture::new().await;
    let (maintenance, _) = maintenance(&fixture.provider, &fixture.clock, settings());
    run(&maintenance).await;
    let request = json!({"passes": ["outbox", "unfinished", "sessions"]});
    let budget = duroxide_lambda::internals::Budget::of(ENOUGH);
    let report = report_of(maintenance.handle(&request, budget).await);
    assert_complete(&report);
    assert_eq!(report.look, None);
    assert_eq!(
        busy(&report),
        [PassName::Outbox, PassName::Unfinished, PassName::Sessions]
    );
}

/// A session as releases before `dueAt` wrote it.
async fn leave_old_session(fixture: &Fixture, session: &str) {
    let now = fixture.clock.now_ms();
    let old = json!({
        "id": "session", "pk": session, "type": "session", "owner": "owner", "until": now, "activeAt": now, "v": 1,
    });
    let pk = PartitionKey::new(session).expect("a valid partition key");
    let written = fixture.world.raw().create(&pk, &old, Retry::Idempotent).await;
    written.expect("it is written");
}

#[tokio::test]
async fn a_session_without_a_due_time_is_removed_within_the_interval() {
    let fixture = Fixture::new().await;
    let (maintenance, _) = maintenance(&fixture.provider, &fixture.clock, settings());
    run(&maintenance).await;
    leave_old_session(&fixture, "old").await;
    let mut runs = 0;
    while !fixture.world.documents_of("session").await.is_empty() {
        fixture.clock.advance(PERIOD);
        let report = run(&maintenance).await;
        assert_complete(&report);
        assert_whole(&report, 0);
        runs += 1;
        assert_eq!(busy(&report).contains(&PassName::Sessions), runs == 60, "run {runs}");
    }
    assert_eq!(runs, 60, "an hour");
}

#[tokio::test]
async fn an_old_session_that_is_used_again_gets_a_due_time() {
    let fixture = Fixture::new().await;
    leave_old_session(&fixture, "old").await;
    fixture.clock.advance(PERIOD);
    claim_session(&fixture.provider, "old").await;
    let doc = fixture.world.document("old", "session").await.expect("it is there");
    assert!(doc["dueAt"].is_u64() && doc["dueAt"] == doc["until"], "{doc}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_look_and_the_store_answer_the_sweep_alike() {
    let fixture = Fixture::new().await;
    let now = fixture.clock.now_ms();
    for n in 0..30_u64 {
        enqueue_timer(&fixture, &format!("timer-{n}"), now + n * 500).await;
        enqueue(&fixture.provider, raised(&format!("event-{n}"), "x")).await;
        claim_session(&fixture.provider, &format!("session-{n}")).await;
    }
    begin_with(&fixture.provider, "work", 5, named()).await;
    fixture.leave_starts_undelivered("source", &["target"]).await;
    fixture.clock.advance(FAR);
    let window = |after_ms, until_ms| DueWindow { after_ms, until_ms };
    let request = LookRequest {
        now_ms: fixture.clock.now_ms(),
        until_ms: now + 10_000_000,
        most: 1_000,
        deadline: Instant::now() + ENOUGH,
    };
    let look = fixture
        .provider
        .look(&request)
        .await
        .expect("the store can be searched");
    assert!(look.is_whole());
    for windows in [
        vec![window(0, now + 10_000_000)],
        vec![window(now, now + 1_000), window(now + 4_999, now + 10_500)],
        vec![window(now - 1, now)],
        Vec::new(),
    ] {
        let stored = crate::due::all(&fixture.provider, &windows, 1_000).await;
        let seen = look.due(&windows).expect("the look is whole").items;
        let sorted = |items: &[duroxide_cosmos::DueItem]| {
            let mut items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
            items.sort();
            items
        };
        assert_eq!(sorted(&seen), sorted(&stored), "{windows:?}");
        assert!(seen.is_sorted_by_key(|item| item.due_ms));
    }
    let all = look.due(&[window(0, now + 10_000_000)]).expect("the look is whole");
    assert_eq!(all.items.len(), 65, "30 timers, 30 events, 5 activities");
}
