//! A logical partition at its 20 GB, which refuses whatever creates or grows a document: its instance can still be pruned and
//! deleted.

use crate::pruning::{NAME, assert_counts, executions, keep, plant};
use crate::support::*;
use cosmos_emulator::{CrashPoint, Listener};
use duroxide::providers::{ExecutionMetadata, Provider, ProviderAdmin};
use duroxide_cosmos::{CosmosProvider, PageRequest, Retention};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;

/// As many commits as a lock names: an instance that fills its partition has had more.
const COMMITS: u64 = 8;

/// More documents than one batch deletes, in a partition that is full now, and a process that works on it.
async fn full(fixture: &Fixture) -> (Listener, Arc<CosmosProvider>) {
    plant(fixture, 150, true, "payload").await;
    for n in 0..COMMITS {
        enqueue(&fixture.provider, raised(NAME, "on")).await;
        let turn = turn(&fixture.provider, NAME).await;
        let decision = Decision {
            execution: 151,
            ..Decision::of(vec![heard(NAME, 151, n + 2)])
        };
        let committed = commit(&fixture.provider, &turn.lock_token, decision).await;
        committed.expect("it goes on");
    }
    let (listener, process) = fixture.process().await;
    listener.fill_partition(NAME);
    let refused = process.enqueue_for_orchestrator(raised(NAME, "more"), None).await;
    let refused = refused.expect_err("there is no room").to_string();
    assert!(refused.contains("full"), "{refused}");
    (listener, process)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_partition_is_full_is_pruned() {
    let fixture = Fixture::on(1).await;
    let (_listener, process) = full(&fixture).await;
    let pruned = process.prune_executions(NAME, keep(2)).await.expect("it is pruned");
    assert_eq!(pruned.executions_deleted, 149);
    assert_eq!(executions(&fixture.provider).await, [150, 151]);
    assert_counts(&fixture.world.documents().await, "after it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_prunes_an_instance_whose_partition_is_full() {
    let fixture = Fixture::on(1).await;
    let (_listener, process) = full(&fixture).await;
    let policy = Retention {
        keep_executions: Some(2),
        ..Retention::default()
    };
    let request = PageRequest {
        deadline: tokio::time::Instant::now() + Duration::from_secs(60),
        ..page_of(10)
    };
    let pass = process
        .maintain_retention(&policy, request)
        .await
        .expect("it is searched");
    assert_eq!((pass.done, pass.failed), (1, 0), "{pass:?}");
    assert_eq!(executions(&fixture.provider).await, [150, 151]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_partition_is_full_is_deleted_with_its_tree() {
    for with_child in [false, true] {
        let fixture = Fixture::on(1).await;
        let (_listener, process) = full(&fixture).await;
        if with_child {
            let metadata = ExecutionMetadata {
                parent_instance_id: Some(NAME.to_owned()),
                ..named()
            };
            begin_with(&fixture.provider, "child", 0, metadata).await;
        }
        let deleted = process.delete_instance(NAME, true).await.expect("it is deleted");
        assert_eq!(deleted.instances_deleted, 1 + u64::from(with_child));
        let left = fixture.world.documents().await;
        assert!(left.iter().all(|doc| doc["type"] == "receipt"), "{left:?}");
    }
}

/// There is nothing that its lock could give up for the mark. It is refused whole, before anything is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_of_few_turns_whose_partition_is_full_is_refused_and_stays_as_it_was() {
    let fixture = Fixture::on(1).await;
    plant(&fixture, 150, false, "payload").await;
    let (listener, process) = fixture.process().await;
    listener.fill_partition(NAME);
    // The lock has a new version, and a decision to abort stays until its TTL.
    let kept = async || {
        let of_instance = |doc: &Value| doc["type"] != "deletion" && doc["type"] != "instance";
        let docs = fixture.world.documents().await.into_iter();
        docs.filter(of_instance).collect::<Vec<Value>>()
    };
    let before = kept().await;
    let refused = process.delete_instance(NAME, true).await.expect_err("there is no room");
    assert!(refused.to_string().contains("full (20 GB)"), "{refused}");
    assert_eq!(kept().await, before);
    let instance = fixture.world.document(NAME, "instance").await.expect("an instance");
    assert!(instance.get("deleting").is_none(), "{instance}");
    // What fits one batch is deleted whole at once.
    process.prune_executions(NAME, keep(1)).await.expect("it is pruned");
    let deleted = process.delete_instance(NAME, true).await.expect("it is deleted");
    assert_eq!(deleted.instances_deleted, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_is_aborted_in_a_full_partition_leaves_the_instance_as_it_was() {
    let fixture = Fixture::on(1).await;
    let (listener, process) = full(&fixture).await;
    // Its version is another one, and the names of older commits gave way to the mark.
    let state = async || {
        let mut instance = fixture.world.document(NAME, "instance").await.expect("an instance");
        let fields = instance.as_object_mut().expect("a document");
        fields.retain(|name, _| !name.starts_with('_') && name != "commits");
        instance
    };
    let before = state().await;
    // Nobody can decide: marking ends, and the decision is refused.
    listener.refuse_when(|request| {
        let decides = request.kind == cosmos_emulator::RequestKind::Create;
        decides.then(|| cosmos_emulator::Refusing::with(400))
    });
    process
        .delete_instance(NAME, true)
        .await
        .expect_err("it is not decided");
    listener.refuse_nothing();
    fixture.clock.advance(MUCH_LATER);
    let pass = process.maintain_unfinished(page_of(10)).await.expect("it is searched");
    assert_eq!(pass.failed, 0, "{pass:?}");
    assert_eq!(state().await, before, "without a mark");
    let pruned = process.prune_executions(NAME, keep(1)).await.expect("it is pruned");
    assert_eq!(pruned.executions_deleted, 150);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_a_full_partition_keeps_from_being_rolled_forward_does_not_keep_it_from_being_pruned() {
    const ACTIVITIES: u64 = 150;
    let fixture = Fixture::on(1).await;
    plant(&fixture, 20, false, "payload").await;
    enqueue(&fixture.provider, raised(NAME, "on")).await;
    let (listener, crashing) = fixture.process().await;
    let turn = turn(&crashing, NAME).await;
    let decision = Decision {
        execution: 21,
        work: (2..2 + ACTIVITIES).map(|id| activity(NAME, id)).collect(),
        ..Decision::of(vec![heard(NAME, 21, 2)])
    };
    // What is staged, and the decision.
    listener.crash_at_write(2, CrashPoint::AfterApplied);
    until_crash(&listener, commit(&crashing, &turn.lock_token, decision)).await;
    let unfinished = || async {
        let instance = fixture.world.document(NAME, "instance").await.expect("an instance");
        instance.get("unfinished").is_some()
    };
    assert!(unfinished().await, "the commit is decided");

    let (listener, process) = fixture.process().await;
    listener.fill_partition(NAME);
    fixture.clock.advance(OVERDUE);
    let refused = process
        .fetch_turn(NAME, LOCK, None)
        .await
        .expect_err("there is no room");
    assert!(refused.to_string().contains("full"), "{refused}");
    let pruned = process.prune_executions(NAME, keep(1)).await.expect("it is pruned");
    assert_eq!(pruned.executions_deleted, 20);
    assert_counts(&fixture.world.documents().await, "after it");
    assert!(unfinished().await, "it waits for room");

    // There is room now.
    let fetched = fixture.provider.fetch_turn(NAME, LOCK, None).await;
    fetched.expect("it is rolled forward");
    assert!(!unfinished().await);
    assert_eq!(fixture.world.documents_of("work").await.len() as u64, ACTIVITIES);
}
