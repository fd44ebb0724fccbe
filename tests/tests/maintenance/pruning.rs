//! Pruning of long-lived instances: bounded memory, batches of deletions only, and exact counts wherever it is interrupted.

use crate::crashes::at_every_write;
use crate::support::*;
use cosmos::{PartitionKey, Retry};
use cosmos_emulator::{CrashPoint, Faults};
use duroxide::providers::{ProviderAdmin, PruneOptions};
use duroxide_cosmos::{CosmosProvider, PageRequest, Retention};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tests::connect;
use tests::turns::*;
use tokio::time::Instant;

pub const NAME: &str = "eternal";
/// More history documents than one batch deletes.
const LONG: u64 = 100;

fn history_doc(like: &Value, execution: u64, offset: u64, payload: &str) -> Value {
    let mut doc = like.clone();
    let commit = format!("c{offset}");
    doc["id"] = json!(format!("h:{execution}:{offset}:{commit}"));
    doc["sortKey"] = json!(format!("1:{execution:020}:{offset:012}"));
    doc["execution"] = json!(execution);
    doc["offset"] = json!(offset);
    doc["prev"] = json!(
        offset
            .checked_sub(1)
            .map_or_else(String::new, |before| format!("c{before}"))
    );
    doc["commit"] = json!(commit);
    let mut event = serde_json::to_value(heard(NAME, execution, offset + 1)).expect("JSON");
    event["instance_id"] = json!(payload);
    doc["events"] = json!([event]);
    doc
}

/// An instance that runs, with so many earlier executions, which have one history document each; number 2 has
/// [`LONG`] if `is_long`. The documents are copies of what a turn wrote.
pub async fn plant(fixture: &Fixture, executions: u64, is_long: bool, payload: &str) {
    let (provider, world) = (&fixture.provider, &fixture.world);
    begin_with(provider, NAME, 0, ended("ContinuedAsNew", "")).await;
    enqueue(provider, raised(NAME, "go")).await;
    let last = turn(provider, NAME).await;
    let decision = Decision {
        execution: executions + 1,
        events: vec![started(NAME, executions + 1)],
        ..Decision::default()
    };
    commit(provider, &last.lock_token, decision).await.expect("it goes on");
    let state = world.document(NAME, "x:1").await.expect("an execution");
    let history = world.documents_of("history").await;
    let history = history
        .into_iter()
        .find(|doc| doc["execution"] == 1)
        .expect("a history");
    let mut docs = Vec::new();
    let mut events = 1;
    for execution in 2..=executions {
        let length = if is_long && execution == 2 { LONG } else { 1 };
        let mut doc = state.clone();
        doc["id"] = json!(format!("x:{execution}"));
        doc["execution"] = json!(execution);
        doc["events"] = json!(length);
        doc["head"] = json!(format!("c{}", length - 1));
        doc["output"] = json!(payload);
        docs.push(doc);
        docs.extend((0..length).map(|offset| history_doc(&history, execution, offset, payload)));
        events += length;
    }
    let (database, container) = world.names();
    let loaded = world.server().load(database, container, docs).await;
    loaded.expect("the documents are written");
    let (pk, raw) = (PartitionKey::new(NAME).expect("a key"), world.raw());
    let mut instance = world.document(NAME, "instance").await.expect("an instance");
    instance["executions"] = json!(executions + 1);
    instance["earlierEvents"] = json!(events);
    raw.replace(&pk, "instance", &instance, None, Retry::Idempotent)
        .await
        .expect("it is written");
}

fn ids(docs: &[Value]) -> BTreeSet<&str> {
    docs.iter().filter_map(|doc| doc["id"].as_str()).collect()
}

/// How much the documents say, without what the service adds to them.
fn size(docs: &[Value]) -> usize {
    docs.iter()
        .map(|doc| doc.to_string().len() - doc["_etag"].to_string().len())
        .sum()
}

/// The counts of the instance document are those of the documents.
pub fn assert_counts(docs: &[Value], context: &str) {
    let of = |kind: &str| docs.iter().filter(|doc| doc["type"] == kind).collect::<Vec<_>>();
    let (instances, executions) = (of("instance"), of("execution"));
    let events: u64 = executions.iter().filter_map(|doc| doc["events"].as_u64()).sum();
    assert_eq!(instances[0]["executions"], executions.len() + 1, "{context}");
    assert_eq!(instances[0]["earlierEvents"], events, "{context}");
}

pub fn keep(keep_last: u32) -> PruneOptions {
    PruneOptions {
        keep_last: Some(keep_last),
        completed_before: None,
    }
}

pub async fn executions(provider: &CosmosProvider) -> Vec<u64> {
    provider.list_executions(NAME).await.expect("a list")
}

/// Prunes so many executions in two processes, of which the first crashes.
async fn prune_many(many: u64) {
    let fixture = Fixture::on(1).await;
    let payload = "x".repeat(1_000);
    plant(&fixture, many, false, &payload).await;
    let (listener, crashing) = fixture.process().await;
    listener.crash_at_write(10, CrashPoint::AfterApplied);
    until_crash(&listener, crashing.prune_executions(NAME, keep(5))).await;
    assert!(listener.crashed(), "it takes many batches");
    let docs = fixture.world.documents().await;
    assert_counts(&docs, "after the crash");
    let left = executions(&fixture.provider).await;
    assert!(
        left.len() > many as usize / 2 && left.len() < many as usize,
        "{} are left",
        left.len()
    );
    assert_eq!(left[0], many + 2 - left.len() as u64, "oldest first: {left:?}");
    let listener = fixture.world.open_listener().await;
    let next = connect(fixture.world.builder_through(&listener).prune_time(PATIENT)).await;
    let pruned = next.prune_executions(NAME, keep(5)).await.expect("it continues");
    assert_eq!(
        (
            pruned.instances_processed,
            pruned.executions_deleted,
            pruned.events_deleted
        ),
        (1, left.len() as u64 - 5, left.len() as u64 - 5)
    );
    assert_eq!(executions(&next).await, (many - 3..=many + 1).collect::<Vec<_>>());
    assert_counts(&fixture.world.documents().await, "at the end");
    let counts = listener.counts();
    // An id and a few numbers of each document, twice: as a row and as a result of its batch.
    let documents = 2 * (left.len() as u64 - 5);
    assert!(
        counts.response_bytes < documents * 400,
        "{} bytes for {documents} documents",
        counts.response_bytes
    );
    assert_eq!(counts.creates + counts.upserts, 0, "{counts:?}");
    assert!(
        counts.batches <= documents / 60 + 5 && counts.queries <= documents / 90 + 10,
        "{counts:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruning_many_executions_reads_no_payload_and_continues_after_a_crash() {
    prune_many(1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 5,000 executions"]
async fn pruning_thousands_of_executions_reads_no_payload_and_continues_after_a_crash() {
    prune_many(5_000).await;
}

/// A full partition refuses what creates or grows. So no write of pruning may do that, not even for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruning_only_deletes_and_its_counts_are_exact_after_each_write() {
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::on(1).await;
        plant(&fixture, 20, true, "payload").await;
        let before = fixture.world.documents().await;
        let (listener, crashing) = fixture.process().await;
        listener.crash_at_write(n, point);
        until_crash(&listener, crashing.prune_executions(NAME, keep(2))).await;
        let context = format!("{point:?} {n}");
        let after = fixture.world.documents().await;
        assert!(ids(&after).is_subset(&ids(&before)), "{context}: something was created");
        assert!(size(&after) <= size(&before) + 200, "{context}: it has grown");
        assert_counts(&after, &context);
        // Whoever looks meanwhile finds the execution whole, empty, or not at all.
        let history = fixture.provider.read_history_with_execution_id(NAME, 2).await;
        let length = history.expect("it can be read").len() as u64;
        assert!(length == 0 || length == LONG, "{context}: {length} events");
        let pruned = fixture.provider.prune_executions(NAME, keep(2)).await;
        pruned.expect("the next process continues at once");
        assert_eq!(executions(&fixture.provider).await, [20, 21], "{context}");
        let after = fixture.world.documents().await;
        assert_counts(&after, &context);
        let history = after.iter().filter(|doc| doc["type"] == "history").count();
        assert_eq!(history, 2, "{context}: nothing of the others is left");
        enqueue(&fixture.provider, raised(NAME, "on")).await;
        let turn = turn(&fixture.provider, NAME).await;
        let decision = Decision {
            execution: 21,
            ..Decision::of(vec![heard(NAME, 21, 2)])
        };
        let committed = commit(&fixture.provider, &turn.lock_token, decision).await;
        committed.expect("the instance goes on");
        listener.crashed()
    })
    .await;
    assert!(crashes >= 8, "{crashes} crashes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_runs_between_two_batches_keeps_the_counts_exact() {
    let fixture = Fixture::on(1).await;
    plant(&fixture, 200, false, "payload").await;
    let (listener, slow) = fixture.process().await;
    let pause = listener.pause_when(|log| log.iter().filter(|record| record.kind.is_write()).count() == 2);
    let run = tokio::spawn(async move { slow.prune_executions(NAME, keep(1)).await });
    assert!(tests::is_paused(&pause, &run).await, "it takes several batches");
    enqueue(&fixture.provider, raised(NAME, "on")).await;
    let held = turn(&fixture.provider, NAME).await;
    drop(pause);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let decision = Decision {
        execution: 202,
        ..Decision::of(vec![started(NAME, 202)])
    };
    let committed = commit(&fixture.provider, &held.lock_token, decision).await;
    committed.expect("pruning does not take the lock of a turn");
    let pruned = run.await.expect("no panic").expect("it waits for the turn");
    assert_eq!(pruned.executions_deleted, 200);
    assert_eq!(executions(&fixture.provider).await, [201, 202]);
    assert_counts(&fixture.world.documents().await, "after both");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_too_short_for_all_executions_prune_them_together() {
    let fixture = Fixture::on(1).await;
    plant(&fixture, 300, false, "payload").await;
    let (listener, slow) = fixture.process().await;
    listener.set_faults(Faults {
        delay: Some(Duration::from_millis(60)),
        ..Faults::default()
    });
    let policy = Retention {
        keep_executions: Some(3),
        ..Retention::default()
    };
    let mut left = vec![executions(&fixture.provider).await.len()];
    while left.last() != Some(&3) {
        let request = PageRequest {
            deadline: Instant::now() + Duration::from_secs(2),
            ..page_of(10)
        };
        if let Err(error) = slow.maintain_retention(&policy, request).await {
            println!("this machine was too busy for anything within the time: {error}");
        }
        let now = executions(&fixture.provider).await.len();
        assert!(Some(&now) <= left.last(), "{left:?}, then {now}");
        left.push(now);
        assert!(left.len() < 100, "{left:?}");
    }
    assert!(left.len() > 2, "one run was enough: {left:?}");
    assert_counts(&fixture.world.documents().await, "at the end");
}
