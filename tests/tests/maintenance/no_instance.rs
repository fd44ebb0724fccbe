//! Messages to an instance that does not exist: kept for a grace period, then dead letters. Nothing is dropped.

use crate::due::{all, window};
use crate::support::*;
use cosmos::{Clock, PartitionKey, Retry};
use cosmos_emulator::{CrashPoint, RequestKind, RequestRecord};
use duroxide::providers::{Provider, WorkItem};
use duroxide_cosmos::{
    Backlog, BacklogQuery, CosmosProvider, DeadLetterKind, DeadLetterSummary, Due, Fetched, Redriven,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, connect, is_paused};

const HOUR: Duration = Duration::from_secs(3_600);
/// The grace period, by default.
const GRACE: Duration = Duration::from_secs(24 * 3_600);

fn queued(instance: &str, data: &str) -> WorkItem {
    WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: "inbox".to_owned(),
        data: data.to_owned(),
    }
}

fn cancel(instance: &str) -> WorkItem {
    WorkItem::CancelInstance {
        instance: instance.to_owned(),
        reason: "cancel".to_owned(),
    }
}

fn name_of(item: &WorkItem) -> String {
    match item {
        WorkItem::StartOrchestration { .. } => "start".to_owned(),
        WorkItem::QueueMessage { data, .. } | WorkItem::ExternalRaised { data, .. } => data.clone(),
        WorkItem::CancelInstance { reason, .. } => reason.clone(),
        other => panic!("{other:?}"),
    }
}

/// What the next turn of an instance takes, in its order; the turn is committed.
async fn taken(provider: &CosmosProvider, instance: &str) -> Vec<String> {
    let held = turn(provider, instance).await;
    let names = held.item.messages.iter().map(name_of).collect();
    let begins = Decision::of(vec![started(instance, 1)]);
    commit(provider, &held.lock_token, begins).await.expect("it commits");
    names
}

async fn nothing(provider: &CosmosProvider, instance: &str) {
    let fetched = provider.fetch_turn(instance, LOCK, None).await.expect("a fetch");
    assert!(matches!(fetched, Fetched::Nothing), "{instance}: {fetched:?}");
}

async fn backlog(fixture: &Fixture) -> Backlog {
    let now = fixture.clock.now_ms();
    let ask = BacklogQuery {
        overdue_ms: now,
        stuck_ms: now,
    };
    fixture.provider.backlog(&ask).await.expect("the store can be asked")
}

async fn dead_letters(provider: &CosmosProvider) -> Vec<DeadLetterSummary> {
    provider.dead_letters(100, None).await.expect("a list").dead_letters
}

/// An event and a cancellation for an instance that does not exist, which a fetch has seen.
async fn mistype(fixture: &Fixture) {
    enqueue(&fixture.provider, queued("typo", "event")).await;
    fixture.clock.advance(Duration::from_millis(10));
    enqueue(&fixture.provider, cancel("typo")).await;
    nothing(&fixture.provider, "typo").await;
}

#[tokio::test]
async fn an_event_that_comes_while_its_start_is_put_off_is_kept() {
    let fixture = Fixture::new().await;
    let provider = &fixture.provider;
    // A build that does not know the orchestration gives the start back.
    enqueue(provider, start_of("order")).await;
    let held = turn(provider, "order").await;
    let put_off = provider.abandon_orchestration_item(&held.lock_token, Some(HOUR), true);
    put_off.await.expect("it is given back");
    for data in ["1", "2"] {
        fixture.clock.advance(Duration::from_secs(1));
        enqueue(provider, queued("order", data)).await;
        nothing(provider, "order").await;
    }
    fixture.clock.advance(HOUR);
    assert_eq!(taken(provider, "order").await, ["start", "1", "2"]);
    nothing(provider, "order").await;
}

#[tokio::test]
async fn an_event_for_a_child_whose_start_is_not_delivered_yet_is_kept() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("parent", &["child"]).await;
    enqueue(&fixture.provider, queued("child", "early")).await;
    nothing(&fixture.provider, "child").await;
    fixture.clock.advance(OVERDUE);
    assert_eq!(deliver_all(&fixture.provider, 100).await.done, 1);
    assert_eq!(taken(&fixture.provider, "child").await, ["start", "early"]);
}

#[tokio::test]
async fn the_cancellation_of_a_child_that_was_never_started_is_removed_after_the_grace_period() {
    let fixture = Fixture::new().await;
    fixture.leave_undelivered("parent", vec![cancel("child")]).await;
    fixture.clock.advance(OVERDUE);
    assert_eq!(deliver_all(&fixture.provider, 100).await.done, 1);
    nothing(&fixture.provider, "child").await;
    assert_eq!(fixture.messages_of("child").await, 1, "its start may still come");
    fixture.clock.advance(GRACE + HOUR);
    let pass = all_pages(100, |page| fixture.provider.maintain_unfinished(page)).await;
    assert_eq!((pass.done, pass.dead, pass.failed), (1, 0, 0));
    assert_eq!(fixture.messages_of("child").await, 0);
    assert!(
        dead_letters(&fixture.provider).await.is_empty(),
        "nobody has to look at it"
    );
}

#[tokio::test]
async fn an_event_whose_start_cannot_be_decoded_or_is_of_a_clock_ahead_is_kept() {
    let fixture = Fixture::new().await;
    let provider = &fixture.provider;
    // A newer release has queued a start that this one cannot decode.
    enqueue(provider, start_of("newer")).await;
    let start = fixture.world.documents_of("message").await.remove(0);
    let mut newer = start.clone();
    newer["item"] = json!({"StartWithMore": {"instance": "newer"}});
    rewrite(&fixture, &newer).await;
    enqueue(provider, queued("newer", "early")).await;
    let fetched = provider.fetch_turn("newer", LOCK, None).await.expect("a fetch");
    assert!(matches!(fetched, Fetched::Foreign { .. }), "{fetched:?}");
    rewrite(&fixture, &start).await;
    assert_eq!(taken(provider, "newer").await, ["start", "early"]);

    let ahead = Arc::new(ManualClock::default());
    ahead.advance(10 * HOUR);
    let from_the_future = fixture.world.provider_at(&ahead).await;
    enqueue(&from_the_future, start_of("ahead")).await;
    enqueue(provider, queued("ahead", "early")).await;
    nothing(provider, "ahead").await;
    fixture.clock.advance(11 * HOUR);
    assert_eq!(taken(provider, "ahead").await, ["start", "early"]);
}

async fn rewrite(fixture: &Fixture, doc: &Value) {
    let pk = PartitionKey::new(doc["pk"].as_str().expect("a partition key")).expect("a valid one");
    let id = doc["id"].as_str().expect("an id");
    let replaced = fixture.world.raw().replace(&pk, id, doc, None, Retry::Idempotent).await;
    replaced.expect("the document is replaced");
}

#[tokio::test]
async fn a_message_without_an_instance_is_no_backlog_and_becomes_a_dead_letter_after_the_grace_period() {
    let fixture = Fixture::new().await;
    mistype(&fixture).await;
    for _ in 0..2 {
        fixture.clock.advance(GRACE / 3);
        assert_eq!(backlog(&fixture).await, Backlog::default(), "no alarm is raised by it");
        let due = all(&fixture.provider, &[window(0, fixture.clock.now_ms())], 10).await;
        assert!(due.is_empty(), "no wakeup is sent for it: {due:?}");
        let pass = finish_all(&fixture.provider, 10).await;
        assert_eq!(totals(&pass), (0, 0, 0, 0), "{pass:?}");
    }
    fixture.clock.advance(GRACE / 3);
    let pass = finish_all(&fixture.provider, 10).await;
    assert_eq!((pass.dead, pass.failed), (2, 0), "{pass:?}");
    let dead = dead_letters(&fixture.provider).await;
    assert_eq!(dead.len(), 2);
    for dead_letter in &dead {
        assert_eq!(dead_letter.kind, DeadLetterKind::NoInstance);
        assert_eq!(dead_letter.target.as_deref(), Some("typo"));
        let reason = &dead_letter.reason;
        assert!(
            reason.contains("'typo' does not exist") && reason.contains("redrive"),
            "{reason}"
        );
    }
    let left = fixture.world.documents().await;
    let kinds: Vec<&Value> = left.iter().map(|doc| &doc["type"]).collect();
    assert!(
        kinds.iter().all(|kind| **kind == "dead-letter" || **kind == "receipt"),
        "nothing else is left of it: {kinds:?}"
    );
}

#[tokio::test]
async fn a_redriven_message_without_an_instance_is_delivered_again_in_its_place() {
    let fixture = Fixture::new().await;
    let provider = &fixture.provider;
    mistype(&fixture).await;
    fixture.clock.advance(GRACE);
    assert_eq!(finish_all(provider, 10).await.dead, 2);
    let dead = dead_letters(provider).await;
    let delivered = Redriven::Delivered {
        instance: "typo".to_owned(),
    };
    // Too early: it waits for another grace period.
    assert_eq!(provider.redrive(&dead[0].id).await.expect("a redrive"), delivered);
    nothing(provider, "typo").await;
    fixture.clock.advance(GRACE / 2);
    assert_eq!(finish_all(provider, 10).await.dead, 0);
    enqueue(provider, start_of("typo")).await;
    assert_eq!(provider.redrive(&dead[1].id).await.expect("a redrive"), delivered);
    assert_eq!(taken(provider, "typo").await, ["start", "event", "cancel"]);
    assert_eq!(provider.redrive(&dead[1].id).await.expect("a redrive"), Redriven::Gone);
    assert_eq!(provider.dead_letter_count().await.expect("they are counted"), 0);
}

#[tokio::test]
async fn a_start_that_nobody_has_served_when_the_grace_period_ends_gets_its_messages() {
    let fixture = Fixture::new().await;
    mistype(&fixture).await;
    fixture.clock.advance(GRACE);
    enqueue(&fixture.provider, start_of("typo")).await;
    let pass = finish_all(&fixture.provider, 10).await;
    assert_eq!((pass.dead, pass.due), (0, vec![Due::turn("typo")]));
    assert_eq!(taken(&fixture.provider, "typo").await, ["start", "event", "cancel"]);
}

fn count(log: &[RequestRecord], kind: RequestKind) -> usize {
    log.iter().filter(|record| record.kind == kind).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_comes_while_its_messages_are_given_up_loses_none_of_them() {
    // Before the claim, after it, and before the batch that decides.
    for (stop, kind, starts_in_time) in [
        (0, RequestKind::Replace, true),
        (1, RequestKind::Replace, true),
        (0, RequestKind::Batch, false),
    ] {
        let fixture = Fixture::new().await;
        mistype(&fixture).await;
        fixture.clock.advance(GRACE);
        let listener = fixture.world.open_listener().await;
        let clock = Arc::clone(&fixture.clock) as Arc<dyn Clock>;
        let patient = fixture.world.builder_through(&listener).clock(clock);
        let slow = connect(patient.request_timeout(PATIENT).operation_timeout(PATIENT)).await;
        let pause = listener.pause_when(move |log| {
            let reads = count(log, RequestKind::Read);
            reads >= 2 && count(log, kind) == stop && (kind == RequestKind::Replace || is_after_claim(log))
        });
        let task = tokio::spawn(async move { finish_all(&slow, 10).await });
        assert!(is_paused(&pause, &task).await, "{:?}", listener.log());
        enqueue(&fixture.provider, start_of("typo")).await;
        let busy = fixture.provider.fetch_turn("typo", LOCK, None).await.expect("a fetch");
        drop(pause);
        let pass = task.await.expect("the pass ends");
        let mut names = match busy {
            Fetched::Ready(held) => held.item.messages.iter().map(name_of).collect(),
            _ => taken(&fixture.provider, "typo").await,
        };
        let dead = dead_letters(&fixture.provider).await;
        assert_eq!(names.remove(0), "start");
        assert_eq!(
            names.len() + dead.len(),
            2,
            "stop {stop} {kind:?}: {names:?}, {dead:?}, {pass:?}"
        );
        assert_eq!(dead.is_empty(), starts_in_time, "stop {stop} {kind:?}: {dead:?}");
    }
}

/// Whether giving up has claimed the lock and read the partition.
fn is_after_claim(log: &[RequestRecord]) -> bool {
    let claim = log.iter().position(|record| record.kind == RequestKind::Replace);
    claim.is_some_and(|claim| log[claim..].iter().any(|record| record.kind == RequestKind::Query))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_write_loses_no_message_without_an_instance() {
    for point in BOTH {
        for write in 1..=3 {
            crash(write, point).await;
        }
    }
}

/// One process dies while it sets aside or gives up; another does the rest.
async fn crash(write: u64, point: CrashPoint) {
    let fixture = Fixture::new().await;
    enqueue(&fixture.provider, queued("typo", "event")).await;
    enqueue(&fixture.provider, cancel("typo")).await;
    let (listener, dying) = fixture.process().await;
    listener.crash_at_write(write, point);
    until_crash(&listener, dying.fetch_turn("typo", LOCK, None)).await;
    fixture.clock.advance(LATER);
    nothing(&fixture.provider, "typo").await;
    fixture.clock.advance(GRACE);
    let (listener, dying) = fixture.process().await;
    listener.crash_at_write(write, point);
    until_crash(&listener, finish_all(&dying, 10)).await;
    fixture.clock.advance(LATER);
    finish_all(&fixture.provider, 10).await;
    let dead = dead_letters(&fixture.provider).await;
    assert_eq!(dead.len(), 2, "write {write}, {point:?}: {dead:?}");
    assert_eq!(fixture.messages_of("typo").await, 0, "write {write}, {point:?}");
}

#[tokio::test]
async fn messages_without_an_instance_do_not_keep_the_polling_runtime_busy() {
    let fixture = Fixture::new().await;
    for n in 0..3 {
        enqueue(&fixture.provider, queued(&format!("typo{n}"), "event")).await;
    }
    let (listener, polling) = fixture.process().await;
    for round in 0..3 {
        listener.reset();
        let found = polling.fetch_orchestration_item(LOCK, Duration::ZERO, None).await;
        assert!(found.expect("a fetch").is_none());
        let directed = listener
            .log()
            .iter()
            .filter(|record| record.partition_key.is_some())
            .count();
        let expected = if round == 0 { 6 } else { 0 };
        assert_eq!(
            directed, expected,
            "round {round}: one read and one write each, then none"
        );
    }
}

#[tokio::test]
async fn more_messages_than_a_batch_holds_wait_and_are_taken_together() {
    let fixture = Fixture::new().await;
    let many: Vec<String> = (0..150).map(|n| format!("{n:03}")).collect();
    for data in &many {
        enqueue(&fixture.provider, queued("order", data)).await;
        fixture.clock.advance(Duration::from_millis(1));
    }
    let large = "x".repeat(1_500_000);
    for _ in 0..2 {
        enqueue(&fixture.provider, queued("order", &large)).await;
    }
    nothing(&fixture.provider, "order").await;
    nothing(&fixture.provider, "order").await;
    enqueue(&fixture.provider, start_of("order")).await;
    let held = turn(&fixture.provider, "order").await;
    let names: Vec<String> = held.item.messages.iter().map(name_of).collect();
    assert_eq!((names[0].as_str(), &names[1..=many.len()]), ("start", &many[..]));
}
