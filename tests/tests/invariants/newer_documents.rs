//! One document of a newer release among others: it stays as it is, and keeps nothing else from going on.

use cosmos::{PartitionKey, Retry};
use cosmos_emulator::{CrashPoint, RequestKind, RequestRecord, ServerOptions};
use duroxide::EventKind;
use duroxide::providers::{Provider, ProviderAdmin};
use duroxide_cosmos::testing::newer_build;
use duroxide_cosmos::{Fetched, TurnItem};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World, is_paused, recover, until_crash};

const ACTION: &str = "deploy the newer release everywhere";

/// Writes a document as it would be with this version.
async fn with_version(world: &World, instance: &str, id: &str, version: u64) -> Value {
    let mut doc = world.document(instance, id).await.expect("a document");
    doc["v"] = json!(version);
    let pk = PartitionKey::new(instance).expect("a key");
    let replaced = world.raw().replace(&pk, id, &doc, None, Retry::Idempotent).await;
    replaced.expect("it is written");
    doc
}

async fn id_of(world: &World, kind: &str, instance: &str) -> String {
    let docs = world.documents_of(kind).await;
    let doc = docs.iter().find(|doc| doc["pk"] == instance).expect("a document");
    doc["id"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn is_foreign(fetched: Fetched<TurnItem>, id: &str) {
    match fetched {
        Fetched::Foreign { why } => assert!(why.contains(ACTION) && why.contains(id), "{why}"),
        other => panic!("a newer release wrote '{id}', but the fetch found {other:?}"),
    }
}

#[tokio::test]
async fn a_newer_message_does_not_keep_others_from_being_given_back() {
    let world = World::start().await;
    let provider = world.provider().await;
    begin(&provider, "i").await;
    enqueue(&provider, raised("i", "old")).await;
    let claimed = turn(&provider, "i").await;
    newer_build(1, enqueue(&provider, raised("i", "new"))).await;
    let before = world.documents_of("message").await;
    let newer = before.iter().find(|doc| doc["v"] == 3).expect("a newer message");
    let hour = Some(Duration::from_secs(3600));
    provider
        .abandon_orchestration_item(&claimed.lock_token, hour, false)
        .await
        .expect("the turn is given back");
    let after = world.documents_of("message").await;
    assert!(after.contains(newer), "it stays as it was: {after:?}");
    let older = |docs: &[Value]| {
        let doc = docs.iter().find(|doc| doc["v"] == 1).expect("an older message");
        doc["dueAt"].as_u64().expect("a time")
    };
    assert!(older(&after) > older(&before), "{after:?}");
}

#[tokio::test]
async fn a_newer_key_or_history_document_is_reported_by_the_fetch_and_counts_no_attempt() {
    let world = World::start().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let first = turn(&provider, "i").await;
    let set = EventKind::KeyValueSet {
        key: "k".to_owned(),
        value: "v".to_owned(),
        last_updated_at_ms: 1,
    };
    let decision = Decision::of(vec![started("i", 1), event("i", 1, 2, set)]);
    commit(&provider, &first.lock_token, decision).await.expect("it begins");
    enqueue(&provider, raised("i", "x")).await;
    for kind in ["kv", "history"] {
        let id = id_of(&world, kind, "i").await;
        with_version(&world, "i", &id, 3).await;
        // It knows no history yet.
        let other = world.provider().await;
        for _ in 0..2 {
            is_foreign(other.fetch_turn("i", LOCK, None).await.expect("no error"), &id);
        }
        let read = match kind {
            "kv" => provider.get_kv_all_values("i").await.map(drop),
            _ => provider.read_history("i").await.map(drop),
        };
        let error = read.expect_err("a part is missing").to_string();
        assert!(error.contains(ACTION) && error.contains(&id), "{error}");
        with_version(&world, "i", &id, 1).await;
    }
    assert_eq!(turn(&provider, "i").await.attempt, 1, "nothing was counted");
}

#[tokio::test]
async fn newer_history_of_an_undecided_commit_keeps_no_turn() {
    let world = World::start().await;
    let provider = world.provider().await;
    begin(&provider, "i").await;
    enqueue(&provider, raised("i", "x")).await;
    // What a newer release staged and did not decide: it is in no chain.
    let mut orphan = world
        .document("i", &id_of(&world, "history", "i").await)
        .await
        .expect("a history");
    orphan["id"] = json!("h:1:1:undecided");
    orphan["commit"] = json!("undecided");
    orphan["v"] = json!(3);
    let pk = PartitionKey::new("i").expect("a key");
    let created = world.raw().create(&pk, &orphan, Retry::Idempotent).await;
    created.expect("it is written");
    assert_eq!(provider.read_history("i").await.expect("a history").len(), 1);
    let next = turn(&provider, "i").await;
    let decision = Decision::of(vec![heard("i", 1, 2)]);
    commit(&provider, &next.lock_token, decision).await.expect("it goes on");
}

#[tokio::test]
async fn fields_that_a_build_does_not_know_go_with_an_execution_that_continues_as_new() {
    let world = World::start().await;
    let provider = world.provider().await;
    begin_with(&provider, "i", 0, ended("ContinuedAsNew", "")).await;
    let pk = PartitionKey::new("i").expect("a key");
    let guard = json!({"why": "a newer release wrote it"});
    let mut doc = world.document("i", "instance").await.expect("an instance");
    doc["guard"] = guard.clone();
    let replaced = world
        .raw()
        .replace(&pk, "instance", &doc, None, Retry::Idempotent)
        .await;
    replaced.expect("it is written");
    for execution in [2, 1] {
        enqueue(&provider, raised("i", "x")).await;
        let next = turn(&provider, "i").await;
        let events = match execution {
            2 => vec![started("i", 2)],
            // A late write to the earlier execution keeps them, too.
            _ => vec![heard("i", 1, 2)],
        };
        let decision = Decision {
            execution,
            ..Decision::of(events)
        };
        commit(&provider, &next.lock_token, decision).await.expect("it goes on");
        for id in ["instance", "x:1"] {
            let doc = world.document("i", id).await.expect("a document");
            assert_eq!((&doc["guard"], &doc["v"]), (&guard, &json!(1)), "{execution}: {doc}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_with_a_newer_document_is_refused_whole() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    for instance in ["a", "b"] {
        begin_with(&provider, instance, 2, named()).await;
    }
    newer_build(1, enqueue(&provider, raised("b", "x"))).await;
    let newer = world.documents_of("message").await;
    let both = ["a".to_owned(), "b".to_owned()];
    let refused = provider
        .delete_instances_atomic(&both, true)
        .await
        .expect_err("b has a newer document");
    let (refused, id) = (refused.to_string(), newer[0]["id"].as_str().expect("an id"));
    assert!(refused.contains(ACTION) && refused.contains(id), "{refused}");
    assert_eq!(world.documents_of("work").await.len(), 4, "nothing is deleted");
    let marked = world
        .documents()
        .await
        .into_iter()
        .filter(|doc| doc.get("deleting").is_some());
    assert_eq!(marked.count(), 0, "nothing is marked");
    let deleted = newer_build(1, provider.delete_instances_atomic(&both, true)).await;
    assert_eq!(deleted.expect("the newer build may").instances_deleted, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_document_that_comes_after_the_decision_keeps_only_its_own_partition() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let all: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    for instance in &all {
        begin_with(&provider, instance, 2, named()).await;
    }
    let (listener, deletes) = world.process_at(&clock).await;
    // Three marks, and the decision.
    listener.crash_at_write(4, CrashPoint::AfterApplied);
    until_crash(&listener, deletes.delete_instances_atomic(&all, true)).await;
    assert_eq!(world.documents_of("deletion").await.len(), 1, "it is decided");
    newer_build(1, enqueue(&provider, raised("a", "x"))).await;
    clock.advance(REPAIRABLE);
    assert!(recover(&provider).await.failed > 0, "one partition is left");
    let left = world.documents().await;
    let of = |instance: &str| {
        let own = left
            .iter()
            .filter(|doc| doc["pk"] == instance && doc["type"] != "receipt");
        own.count()
    };
    assert!(of("a") > 3 && of("b") == 0 && of("c") == 0, "{left:?}");
    clock.advance(REPAIRABLE);
    let recovered = newer_build(1, recover(&provider)).await;
    assert_eq!(recovered.failed, 0);
    let left = world.documents().await;
    assert!(left.iter().all(|doc| doc["type"] == "receipt"), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_a_newer_release_rewrites_during_its_deletion_stays() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    // More documents than one batch deletes.
    begin_with(&provider, "i", 120, named()).await;
    let (listener, deletes) = world.process_at(&Arc::new(cosmos::SystemClock)).await;
    // The first batch: it follows the decision, the list of intents, and the list of what is to be deleted.
    let pause = listener.pause_when(|log: &[RequestRecord]| {
        let decided = log.iter().skip_while(|record| record.kind != RequestKind::Create);
        decided.filter(|record| record.kind == RequestKind::Query).count() == 2
    });
    let run = tokio::spawn(async move { deletes.delete_instance("i", true).await });
    assert!(is_paused(&pause, &run).await, "a batch deletes");
    with_version(&world, "i", "w:1:2", 3).await;
    drop(pause);
    let error = run.await.expect("no panic").expect_err("a newer document is left");
    let error = error.to_string();
    assert!(error.contains(ACTION) && error.contains("w:1:2"), "{error}");
    let left = world.documents_of("work").await;
    assert!(left.iter().any(|doc| doc["id"] == "w:1:2" && doc["v"] == 3), "{left:?}");
}

#[tokio::test]
async fn a_turn_that_cancels_an_activity_removes_it_although_a_newer_worker_has_claimed_it() {
    let world = World::start().await;
    let provider = world.provider().await;
    begin_with(&provider, "i", 1, named()).await;
    let claimed = newer_build(1, work(&provider, "i", 2)).await;
    assert_eq!(world.documents_of("work").await[0]["v"], 3);
    enqueue(&provider, raised("i", "x")).await;
    let next = turn(&provider, "i").await;
    let cancelled = provider.ack_orchestration_item(
        &next.lock_token,
        1,
        vec![heard("i", 1, 3)],
        Vec::new(),
        Vec::new(),
        named(),
        vec![activity_id("i", 2)],
    );
    cancelled.await.expect("the turn owns its activities");
    assert!(world.documents_of("work").await.is_empty());
    let late = newer_build(1, provider.ack_work_item(&claimed.lock_token, Some(done("i", 2)))).await;
    assert!(
        late.is_err(),
        "its result is dropped, as that of any cancelled activity"
    );
}
