//! Deleting a tree: exact counts, and all or nothing wherever it is interrupted.

use cosmos_emulator::{CrashPoint, RequestKind, RequestRecord, ServerOptions};
use duroxide::providers::{ExecutionMetadata, ProviderAdmin};
use duroxide_cosmos::{CosmosProvider, Fetched};
use std::sync::Arc;
use tests::turns::*;
use tests::{ManualClock, World, connect, is_paused, recover, until_crash};

/// More documents than one batch deletes.
const ACTIVITIES: u64 = 120;
const LEVELS: usize = 3;

fn tree_names(name: &str) -> Vec<String> {
    (0..LEVELS).map(|level| format!("{name}-{level}")).collect()
}

/// A root, its child and its grandchild; the child has many activities queued.
async fn plant(provider: &CosmosProvider, name: &str) -> Vec<String> {
    let names = tree_names(name);
    for (level, instance) in names.iter().enumerate() {
        let parent = level.checked_sub(1).map(|parent| names[parent].clone());
        let metadata = ExecutionMetadata {
            parent_instance_id: parent,
            ..named()
        };
        begin_with(provider, instance, if level == 1 { ACTIVITIES } else { 0 }, metadata).await;
        enqueue(provider, raised(instance, "waiting")).await;
    }
    names
}

async fn exists(provider: &CosmosProvider, instance: &str) -> bool {
    provider.get_instance_info(instance).await.is_ok()
}

/// Recovers until nothing is left to recover.
async fn recover_all(provider: &CosmosProvider, clock: &ManualClock, context: &str) {
    for _ in 0..10 {
        clock.advance(REPAIRABLE);
        let recovered = recover(provider).await;
        if recovered.is_idle() && recovered.failed == 0 {
            return;
        }
    }
    panic!("{context}: recovery never ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_of_three_levels_is_deleted_whole_with_exact_counts() {
    let world = World::start().await;
    let provider = world.provider().await;
    let bystander = plant(&provider, "bystander").await;
    let names = plant(&provider, "tree").await;
    let mut all = provider.get_instance_tree(&names[0]).await.expect("a tree").all_ids;
    all.sort();
    assert_eq!(all, names);
    let error = provider.delete_instance(&names[0], false).await.expect_err("it runs");
    assert!(error.to_string().contains("force"), "{error}");
    let error = provider
        .delete_instances_atomic(&names[..2], true)
        .await
        .expect_err("the grandchild would stay");
    assert!(error.to_string().contains(&names[2]), "{error}");
    let deleted = provider.delete_instance(&names[0], true).await.expect("deleted");
    assert_eq!((deleted.instances_deleted, deleted.executions_deleted), (3, 3));
    assert_eq!(deleted.events_deleted, 3 + ACTIVITIES);
    assert_eq!(deleted.queue_messages_deleted, 3 + ACTIVITIES);
    let left = world.documents().await;
    // Receipts expire by themselves.
    let left: Vec<_> = left.iter().filter(|doc| doc["type"] != "receipt").collect();
    assert!(
        left.iter()
            .all(|doc| doc["pk"].as_str().is_some_and(|pk| pk.starts_with("bystander"))),
        "{left:?}"
    );
    for instance in bystander {
        turn(&provider, &instance).await;
    }
}

/// After an interrupted deletion and its repair: everything is there and usable, or nothing is.
async fn assert_whole(world: &World, provider: &CosmosProvider, names: &[String], context: &str) -> bool {
    let mut there = Vec::new();
    for instance in names {
        there.push(exists(provider, instance).await);
    }
    assert!(
        there.iter().all(|one| *one == there[0]),
        "{context}: half a tree: {there:?}"
    );
    let documents = world.documents().await;
    let marked: Vec<_> = documents.iter().filter(|doc| doc.get("deleting").is_some()).collect();
    assert!(marked.is_empty(), "{context}: marks stay: {marked:?}");
    let left: Vec<_> = documents.iter().filter(|doc| doc["queue"] == "repair").collect();
    assert!(left.is_empty(), "{context}: something is left to repair: {left:?}");
    let of_tree = |pk: &serde_json::Value| pk.as_str().is_some_and(|pk| names.iter().any(|name| name == pk));
    if there[0] {
        for instance in names {
            let turn = turn(provider, instance).await;
            let id = turn.item.history.len() as u64 + 1;
            let decision = Decision::of(vec![heard(instance, 1, id)]);
            commit(provider, &turn.lock_token, decision)
                .await
                .expect("the instance goes on");
        }
        let work = documents
            .iter()
            .filter(|doc| doc["type"] == "work" && of_tree(&doc["pk"]))
            .count();
        assert_eq!(work as u64, ACTIVITIES, "{context}: activities are gone");
    } else {
        // Receipts and abandoned decisions may stay: nothing reads them.
        let rest: Vec<_> = documents
            .iter()
            .filter(|doc| of_tree(&doc["pk"]) && doc.get("ttl").is_none())
            .collect();
        assert!(rest.is_empty(), "{context}: documents stay: {rest:?}");
    }
    there[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a tree for each write"]
async fn a_deletion_that_crashes_at_any_write_deletes_all_or_nothing() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let (mut kept, mut gone) = (0, 0);
    for point in [CrashPoint::BeforeApplied, CrashPoint::AfterApplied] {
        for n in 1.. {
            let context = format!("{point:?} at write {n}");
            let names = plant(&provider, &format!("{point:?}-{n}")).await;
            let (listener, crashing) = world.process_at(&clock).await;
            listener.crash_at_write(n, point);
            if let Some(outcome) = until_crash(&listener, crashing.delete_instance(&names[0], true)).await {
                outcome.expect("a deletion without a crash succeeds");
                assert!(n > 4, "only {n} writes were seen");
                break;
            }
            recover_all(&provider, &clock, &context).await;
            match assert_whole(&world, &provider, &names, &context).await {
                true => kept += 1,
                false => gone += 1,
            }
            // Whatever is left can be deleted now.
            provider
                .delete_instances_atomic(&names, true)
                .await
                .expect("deleted at last");
        }
    }
    assert!(kept > 0 && gone > 0, "both outcomes were met: {kept} kept, {gone} gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_deletion_met_by_a_fetch_is_completed_or_given_up() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    for n in 1..=4 {
        let names = plant(&provider, &format!("met-{n}")).await;
        let (listener, crashing) = world.process_at(&clock).await;
        listener.crash_at_write(n, CrashPoint::AfterApplied);
        let outcome = until_crash(&listener, crashing.delete_instance(&names[0], true)).await;
        assert!(outcome.is_none(), "write {n}: it did not die: {outcome:?}");
        clock.advance(REPAIRABLE);
        let mut ready = 0;
        for instance in &names {
            match provider
                .fetch_turn(instance, LOCK, None)
                .await
                .expect("the fetch succeeds")
            {
                Fetched::Ready(turn) => {
                    ready += 1;
                    let id = turn.item.history.len() as u64 + 1;
                    let decision = Decision::of(vec![heard(instance, 1, id)]);
                    commit(&provider, &turn.lock_token, decision)
                        .await
                        .expect("the instance goes on");
                }
                Fetched::Nothing => {}
                other => panic!("write {n}: {instance} stays busy after the deletion expired: {other:?}"),
            }
        }
        assert!(ready == 0 || ready == LEVELS, "write {n}: half a tree runs: {ready}");
    }
}

/// The deletion is slow between its marks and its decision, and a fetch gives it up meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_deleter_whose_deletion_was_given_up_deletes_nothing() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let names = plant(&provider, "slow").await;
    let listener = world.open_listener().await;
    let same: Arc<dyn cosmos::Clock> = Arc::clone(&clock) as Arc<dyn cosmos::Clock>;
    let slow = world.builder_through(&listener).clock(same);
    let slow = connect(slow.request_timeout(PATIENT).operation_timeout(PATIENT)).await;
    // Each lock is replaced by its marked version; the decision would be the one document that is created.
    let marks = |log: &[RequestRecord]| log.iter().filter(|record| record.kind == RequestKind::Replace).count();
    let pause = listener.pause_when(move |log| marks(log) == LEVELS);
    let root = names[0].clone();
    let deletion = tokio::spawn(async move { slow.delete_instance(&root, true).await });
    is_paused(&pause, &deletion).await;
    let locks = world.documents_of("instance").await;
    let marked = locks.iter().filter(|doc| doc.get("deleting").is_some()).count();
    assert_eq!(marked, LEVELS, "{:?}", listener.log());
    assert!(
        world.documents_of("deletion").await.is_empty(),
        "it is marked and not decided"
    );
    clock.advance(REPAIRABLE);
    // The fetch gives the deletion up, and goes on with its turn.
    turn(&provider, &names[2]).await;
    drop(pause);
    let outcome = deletion.await.expect("no panic");
    recover_all(&provider, &clock, "slow deletion").await;
    let whole = assert_whole(&world, &provider, &names, &format!("slow deletion, {outcome:?}")).await;
    assert_eq!(whole, outcome.is_err(), "the result is what happened: {outcome:?}");
}
