//! Retention of trees that one run cannot delete, and of children whose parent is gone.

use crate::retention::{AGE, OLD, left, plant, retain, set};
use crate::support::*;
use cosmos_emulator::Faults;
use duroxide::providers::{ExecutionMetadata, ProviderAdmin, WorkItem};
use duroxide_cosmos::{CosmosProvider, PageRequest, PassOutcome};
use futures::StreamExt as _;
use std::time::Duration;
use tests::turns::*;
use tokio::time::Instant;

/// A root that has ended, with so many children, each of which has one child.
async fn plant_tree(provider: &CosmosProvider, root: &str, children: usize) {
    plant(provider, root, None, Some("Completed")).await;
    let pairs = (0..children).map(|n| async move {
        let child = format!("{root} {n}");
        plant(provider, &child, Some(root), Some("Completed")).await;
        plant(provider, &format!("{child} leaf"), Some(&child), Some("Failed")).await;
    });
    futures::stream::iter(pairs)
        .buffer_unordered(8)
        .collect::<Vec<()>>()
        .await;
}

async fn run_for(provider: &CosmosProvider, time: Duration) -> PassOutcome {
    let request = PageRequest {
        deadline: Instant::now() + time,
        ..page_of(10)
    };
    provider
        .maintain_retention(&OLD, request)
        .await
        .expect("it can be searched")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_too_large_for_one_run_is_deleted_by_several() {
    let fixture = Fixture::new().await;
    plant_tree(&fixture.provider, "small", 5).await;
    fixture.clock.advance(AGE + AGE);
    let (listener, slow) = fixture.process().await;
    listener.set_faults(Faults {
        delay: Some(Duration::from_millis(25)),
        ..Faults::default()
    });
    // In proportion to the machine: an item has half of its page's time, in which a small tree can be deleted and a large
    // one not even marked.
    let begun = Instant::now();
    assert_eq!(run_for(&slow, Duration::from_secs(600)).await.done, 1);
    let time = begun.elapsed() * 5;
    plant_tree(&fixture.provider, "large", 70).await;
    fixture.clock.advance(AGE + AGE);
    let mut sizes = vec![left(&fixture).await.len()];
    while sizes.last() != Some(&0) {
        let pass = run_for(&slow, time).await;
        // A part that was decided when the time ended is finished by recovery, as after a crash.
        fixture.clock.advance(MUCH_LATER);
        let ended = fixture.provider.maintain_unfinished(page_of(100)).await;
        assert_eq!(ended.expect("it can be searched").failed, 0);
        let names = left(&fixture).await;
        // Otherwise the scheduled runs would wait for an interval.
        let says_so = pass.partial + pass.failed > 0 || pass.cursor.is_some();
        assert!(names.is_empty() || says_so, "{pass:?} leaves {names:?}");
        assert!(
            names.is_empty() || names.contains("large"),
            "the root goes last: {names:?}"
        );
        let orphans = names.iter().filter_map(|name| name.strip_suffix(" leaf"));
        let orphans: Vec<&str> = orphans.filter(|parent| !names.contains(*parent)).collect();
        assert!(orphans.is_empty(), "leaves go before their parents: {orphans:?}");
        sizes.push(names.len());
        assert!(sizes.len() < 30, "it gets nowhere: {sizes:?}");
    }
    assert!(sizes.len() > 2, "one run was enough: {sizes:?}");
}

fn start_of_child() -> WorkItem {
    WorkItem::StartOrchestration {
        instance: "child".to_owned(),
        orchestration: "Sample".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: Some("parent".to_owned()),
        parent_id: Some(2),
        parent_execution_id: Some(1),
        execution_id: 1,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_was_started_after_its_parent_was_deleted_is_deleted_in_time() {
    let fixture = Fixture::new().await;
    let provider = &fixture.provider;
    fixture.leave_undelivered("parent", vec![start_of_child()]).await;
    let deleted = provider.delete_instance("parent", true).await.expect("it is deleted");
    assert_eq!(deleted.instances_deleted, 1);
    // The start was accepted, so it is delivered.
    let first = turn(provider, "child").await;
    let decision = Decision {
        events: vec![started("child", 1)],
        metadata: ExecutionMetadata {
            parent_instance_id: Some("parent".to_owned()),
            ..ended("Completed", "out")
        },
        ..Decision::default()
    };
    commit(provider, &first.lock_token, decision).await.expect("it ends");
    plant(provider, "grandchild", Some("child"), None).await;
    plant(provider, "root", None, None).await;
    plant(provider, "its child", Some("root"), Some("Completed")).await;
    fixture.clock.advance(AGE + AGE);
    assert_eq!(retain(provider, &OLD, 10).await.done, 0, "the grandchild still runs");
    enqueue(provider, raised("grandchild", "end")).await;
    let last = turn(provider, "grandchild").await;
    let decision = Decision {
        metadata: ended("Completed", "out"),
        ..Decision::of(vec![heard("grandchild", 1, 3)])
    };
    commit(provider, &last.lock_token, decision).await.expect("it ends");
    assert_eq!(retain(provider, &OLD, 10).await.done, 1, "the tree of the child");
    assert_eq!(left(&fixture).await, set(&["its child", "root"]));
}

/// Children of roots that run stay for as long as these do. Each is examined once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_does_not_examine_the_children_of_those_that_run_again_and_again() {
    let fixture = Fixture::new().await;
    let provider = &fixture.provider;
    plant(provider, "root", None, None).await;
    for n in 0..30 {
        plant(provider, &format!("c{n}"), Some("root"), Some("Completed")).await;
        fixture.clock.advance(Duration::from_millis(10));
    }
    fixture.clock.advance(AGE + AGE);
    let (listener, runs) = fixture.process().await;
    let mut costs = Vec::new();
    for _ in 0..3 {
        listener.reset();
        assert_eq!(totals(&retain(&runs, &OLD, 5).await), (0, 0, 0, 0));
        let counts = listener.counts();
        costs.push((counts.requests, counts.response_bytes));
    }
    assert!(costs[1].0 < costs[0].0 && costs[1].1 < costs[0].1 / 2, "{costs:?}");
    assert_eq!(costs[1], costs[2], "and not more the next time");
    // A later one is still found.
    plant(provider, "orphan", Some("nobody"), Some("Completed")).await;
    fixture.clock.advance(AGE + AGE);
    assert_eq!(retain(&runs, &OLD, 5).await.done, 1);
    assert!(!left(&fixture).await.contains("orphan"));
}
