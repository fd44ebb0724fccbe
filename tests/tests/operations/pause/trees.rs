//! An instance with its descendants.

use super::support::*;
use cosmos_emulator::{Refusing, RequestKind};
use duroxide::providers::WorkItem;
use duroxide_cosmos::{Fetched, InstanceStatus, PauseOutcome};
use std::time::Duration;
use tests::turns::*;
use tests::{recover, until_crash};

/// The start of a child by its parent.
fn child_of(parent: &str, instance: &str) -> WorkItem {
    let WorkItem::StartOrchestration {
        orchestration,
        input,
        version,
        execution_id,
        ..
    } = start_of(instance)
    else {
        unreachable!("it is a start");
    };
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration,
        input,
        version,
        parent_instance: Some(parent.to_owned()),
        parent_id: Some(2),
        parent_execution_id: Some(1),
        execution_id,
    }
}

fn parenthood(parent: Option<&str>) -> duroxide::providers::ExecutionMetadata {
    duroxide::providers::ExecutionMetadata {
        parent_instance_id: parent.map(str::to_owned),
        ..named()
    }
}

/// Commits the first turn of an instance that was started, which starts these children.
async fn first_turn(scene: &Scene, instance: &str, parent: Option<&str>, children: &[&str]) {
    let turn = turn(&scene.provider, instance).await;
    let decision = Decision {
        messages: children.iter().map(|child| child_of(instance, child)).collect(),
        metadata: parenthood(parent),
        ..Decision::first(instance, 1)
    };
    commit(&scene.provider, &turn.lock_token, decision)
        .await
        .expect("it commits");
}

/// A root with two children, one of which has a child of its own.
async fn tree() -> Scene {
    let scene = Scene::new().await;
    enqueue(&scene.provider, start_of(INSTANCE)).await;
    first_turn(&scene, INSTANCE, None, &["a", "b"]).await;
    first_turn(&scene, "a", Some(INSTANCE), &["a1"]).await;
    first_turn(&scene, "a1", Some("a"), &[]).await;
    scene
}

async fn statuses(scene: &Scene) -> Vec<Option<InstanceStatus>> {
    let mut all = Vec::new();
    for instance in [INSTANCE, "a", "b", "a1"] {
        all.push(scene.status(instance).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_is_paused_and_resumed_as_a_whole_and_a_single_instance_alone() {
    use InstanceStatus::{Paused, Pending, Running};
    let scene = tree().await;
    let alone = scene.provider.pause("a", None, false).await.expect("the store answers");
    assert_eq!((alone.outcome, alone.changed), (PauseOutcome::Changed, 1));
    assert_eq!(
        statuses(&scene).await,
        [Some(Running), Some(Paused), Some(Pending), Some(Running)]
    );
    let all = scene
        .provider
        .pause(INSTANCE, None, true)
        .await
        .expect("the store answers");
    assert_eq!(
        (all.outcome, all.changed),
        (PauseOutcome::Changed, 3),
        "one was paused before"
    );
    assert_eq!(statuses(&scene).await, vec![Some(Paused); 4]);
    let again = scene
        .provider
        .pause(INSTANCE, None, true)
        .await
        .expect("the store answers");
    assert_eq!((again.outcome, again.changed), (PauseOutcome::Unchanged, 0));
    let resumed = scene.provider.resume(INSTANCE, true).await.expect("the store answers");
    assert_eq!((resumed.outcome, resumed.changed), (PauseOutcome::Changed, 4));
    assert_eq!(
        statuses(&scene).await,
        [Some(Running), Some(Running), Some(Pending), Some(Running)]
    );
    let works = resumed.due.iter().filter(|due| due.target.activity().is_some());
    assert_eq!(
        works.count(),
        3,
        "the activity of each that has begun: {:?}",
        resumed.due
    );
    turn(&scene.provider, "b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_whose_start_is_committed_and_not_delivered_is_paused_before_it_begins() {
    let scene = Scene::new().await;
    enqueue(&scene.provider, start_of(INSTANCE)).await;
    let (listener, maker) = scene.process(Duration::from_secs(2)).await;
    let starting = ready(maker.fetch_turn(INSTANCE, LOCK, None).await.expect("the store answers"));
    let own = cosmos::PartitionKey::new(INSTANCE).expect("a partition key").header();
    listener.refuse_when(move |request| {
        let is_delivery = matches!(request.kind, RequestKind::Create | RequestKind::Batch);
        (is_delivery && request.partition_key.as_ref() != Some(&own)).then(|| Refusing::with(403))
    });
    let decision = Decision {
        messages: vec![child_of(INSTANCE, "late"), start_of("detached")],
        ..Decision::first(INSTANCE, 0)
    };
    commit(&maker, &starting.lock_token, decision)
        .await
        .expect("it commits");
    assert_eq!(
        scene.world.documents_of("intent").await.len(),
        2,
        "nothing is delivered"
    );
    let paused = scene
        .provider
        .pause(INSTANCE, None, true)
        .await
        .expect("the store answers");
    assert_eq!(
        (paused.outcome, paused.changed),
        (PauseOutcome::Changed, 2),
        "it and its child"
    );
    let woken: Vec<&str> = paused.due.iter().map(|due| due.target.instance()).collect();
    assert_eq!(
        woken,
        ["detached"],
        "what it has started without being its parent goes on"
    );
    let fetched = fetch_turn(&scene.provider, "late").await;
    assert!(matches!(fetched, Fetched::Paused { .. }), "{fetched:?}");
    // Whoever delivers the same start again starts nothing.
    scene.clock.advance(REPAIRABLE);
    recover(&scene.provider).await;
    let fetched = fetch_turn(&scene.provider, "late").await;
    assert!(matches!(fetched, Fetched::Paused { .. }), "{fetched:?}");
    scene.provider.resume(INSTANCE, true).await.expect("the store answers");
    let begun = turn(&scene.provider, "late").await;
    assert_eq!(begun.item.messages.len(), 1, "one start: {:?}", begun.item.messages);
}

/// Killed at every write of the tree: what is paused is so from the root downwards, and another call continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_whose_pause_or_resumption_is_killed_at_any_write_is_completed_by_another_call() {
    for when in BOTH {
        for pauses in [true, false] {
            let mut n = 1;
            loop {
                let context = format!("pauses: {pauses}, killed at write {n}, {when:?}");
                let scene = tree().await;
                let change = async |provider: &duroxide_cosmos::CosmosProvider, pauses: bool| match pauses {
                    true => provider.pause(INSTANCE, None, true).await,
                    false => provider.resume(INSTANCE, true).await,
                };
                if !pauses {
                    change(&scene.provider, true).await.expect("it is paused");
                }
                let (listener, operator) = scene.process(Duration::from_secs(5)).await;
                listener.crash_at_write(n, when);
                let done = until_crash(&listener, change(&operator, pauses)).await;
                let is_changed = |status: &Option<InstanceStatus>| (*status == Some(InstanceStatus::Paused)) == pauses;
                let after = statuses(&scene).await;
                let [root, a, b, a1] = [0, 1, 2, 3].map(|place| is_changed(&after[place]));
                assert!(root || !(a || b || a1), "{context}: {after:?}");
                assert!(a || !a1, "{context}: {after:?}");
                change(&scene.provider, pauses).await.expect("another call continues");
                assert!(statuses(&scene).await.iter().all(is_changed), "{context}");
                if done.is_some() {
                    assert_eq!(n - 1, 4, "one write for each instance");
                    break;
                }
                n += 1;
            }
        }
    }
}
