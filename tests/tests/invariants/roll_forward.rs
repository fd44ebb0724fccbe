//! Who serves what: slots divide instances, and whoever meets an unfinished commit finishes it.

use cosmos_emulator::{CrashPoint, ServerOptions};
use duroxide::providers::Provider;
use duroxide_cosmos::CosmosProvider;
use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World, connect, until_crash};

async fn serve_all(provider: &CosmosProvider) -> BTreeSet<String> {
    let mut served = BTreeSet::new();
    while let Some((item, _, _)) = provider
        .fetch_orchestration_item(LOCK, Duration::ZERO, None)
        .await
        .expect("the fetch succeeds")
    {
        assert!(
            served.insert(item.instance.clone()),
            "{} is served twice",
            item.instance
        );
    }
    served
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_halves_of_the_slots_divide_the_instances() {
    let world = World::start().await;
    let sender = world.provider().await;
    let low = connect(world.builder().slots(0..=127)).await;
    let high = connect(world.builder().slots(128..=255)).await;
    let all: BTreeSet<String> = (0..50).map(|n| format!("slotted-{n}")).collect();
    for instance in &all {
        enqueue(&sender, start_of(instance)).await;
    }
    let messages = world.documents_of("message").await;
    let within = |slots: RangeInclusive<u64>| -> BTreeSet<String> {
        let served = messages
            .iter()
            .filter(|doc| doc["slot"].as_u64().is_some_and(|slot| slots.contains(&slot)));
        served.filter_map(|doc| doc["pk"].as_str().map(str::to_owned)).collect()
    };
    // One after the other: each leaves the other's alone although they are free.
    let (low, high) = (serve_all(&low).await, serve_all(&high).await);
    assert_eq!((&low, &high), (&within(0..=127), &within(128..=255)));
    assert!(!low.is_empty() && !high.is_empty(), "{} and {}", low.len(), high.len());
    assert_eq!(low.union(&high).cloned().collect::<BTreeSet<_>>(), all);
}

const FAN_OUT: u64 = 300;

async fn work_ids(world: &World, instance: &str) -> Vec<String> {
    let docs = world.documents_of("work").await;
    docs.iter()
        .filter(|doc| doc["pk"] == instance)
        .map(|doc| doc["id"].to_string())
        .collect()
}

/// Crashes the commit of a fan-out at its `n`-th write. Answers whether the crash happened.
async fn crash_fan_out(world: &World, clock: &Arc<ManualClock>, instance: &str, n: u64) -> bool {
    let (listener, dying) = world.process_at(clock).await;
    enqueue(&dying, start_of(instance)).await;
    let token = turn(&dying, instance).await.lock_token;
    listener.crash_at_write(n, CrashPoint::AfterApplied);
    let outcome = until_crash(&listener, commit(&dying, &token, Decision::first(instance, FAN_OUT))).await;
    outcome
        .map(|said| said.expect("a commit without a crash succeeds"))
        .is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfinished_commit_is_rolled_forward_by_the_next_fetch() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let (mut unfinished, mut never) = (0, 0);
    for n in 1.. {
        let instance = format!("fan-{n}");
        if !crash_fan_out(&world, &clock, &instance, n).await {
            break;
        }
        let lock = world.document(&instance, "lock").await.expect("a lock");
        unfinished += usize::from(lock.get("unfinished").is_some());
        clock.advance(LATER);
        enqueue(&provider, raised(&instance, "wake")).await;
        let next = turn(&provider, &instance).await;
        let ids = work_ids(&world, &instance).await;
        let distinct: HashSet<&String> = ids.iter().collect();
        assert_eq!(ids.len(), distinct.len());
        if next.item.history.is_empty() {
            // The commit never happened: the start is still there, and nothing of the fan-out can be seen.
            never += 1;
            assert_eq!((ids.len(), next.item.messages.len()), (0, 2), "write {n}");
        } else {
            assert_eq!(ids.len() as u64, FAN_OUT, "write {n}");
            assert_eq!(next.item.history.len() as u64, FAN_OUT + 1, "write {n}");
            assert_eq!(next.item.messages.len(), 1, "write {n}: the start was consumed");
        }
        let id = next.item.history.len() as u64 + 1;
        let event = if id == 1 {
            started(&instance, 1)
        } else {
            heard(&instance, 1, id)
        };
        let decision = Decision::of(vec![event]);
        commit(&provider, &next.lock_token, decision)
            .await
            .expect("the instance goes on");
        assert_eq!(work_ids(&world, &instance).await.len(), ids.len(), "write {n}");
    }
    assert!(
        unfinished > 0 && never > 0,
        "both were met: {unfinished} unfinished, {never} undecided"
    );
    clock.advance(REPAIRABLE);
    while !provider.repair(100).await.expect("the repair runs").is_idle() {}
    for kind in ["staged", "staged-head"] {
        assert!(world.documents_of(kind).await.is_empty(), "{kind} documents stay");
    }
}
