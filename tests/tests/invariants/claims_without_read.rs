//! An activity is claimed in the version that its commit named, without a read. Such a claim takes nothing from anybody.

use cosmos::{Etag, PartitionKey, Retry};
use cosmos_emulator::RequestKind::{Patch, Read, Replace};
use cosmos_emulator::{Counts, ServerOptions};
use duroxide::providers::{Provider, ScheduledActivityIdentifier, TagFilter, WorkItem};
use duroxide_cosmos::testing::newer_build;
use duroxide_cosmos::{ClaimedWork, CosmosProvider, Fetched, TurnDecision, WorkTarget, WorkVersion};
use futures::future::join_all;
use serde_json::Value;
use std::sync::Arc;
use tests::cost::cost_of;
use tests::turns::*;
use tests::{ManualClock, World};

/// An instance with one activity, and the activity as its wakeup names it.
async fn scheduled_by(provider: &CosmosProvider, instance: &str) -> WorkTarget {
    let mut works = written_work(provider, instance, Decision::first(instance, 1)).await;
    let work = works.pop().expect("an activity");
    assert!(work.written.is_some(), "the commit named its version");
    work
}

async fn fetch(provider: &CosmosProvider, work: &WorkTarget) -> Fetched<ClaimedWork> {
    let fetched = provider
        .fetch_written_work(work, LOCK, None, &TagFilter::DefaultOnly)
        .await;
    fetched.expect("the fetch succeeds")
}

fn unversioned(work: &WorkTarget) -> WorkTarget {
    WorkTarget {
        written: None,
        ..work.clone()
    }
}

async fn item(world: &World, instance: &str) -> Option<Value> {
    world.document(instance, "w:1:2").await
}

#[track_caller]
fn is_busy(fetched: &Fetched<ClaimedWork>) {
    assert!(matches!(fetched, Fetched::Busy { .. }), "{fetched:?}");
}

#[track_caller]
fn is_nothing(fetched: &Fetched<ClaimedWork>) {
    assert!(matches!(fetched, Fetched::Nothing), "{fetched:?}");
}

#[tokio::test]
async fn a_claim_without_a_read_does_what_a_claim_with_a_read_does() {
    let world = World::start().await;
    let clock = Arc::new(ManualClock::default());
    let (writer, worker) = (world.provider_at(&clock).await, world.provider_at(&clock).await);
    let (blind, seen) = (scheduled_by(&writer, "i").await, scheduled_by(&writer, "j").await);
    let claimed = ready(fetch(&worker, &blind).await);
    let read = ready(fetch(&worker, &unversioned(&seen)).await);
    assert_eq!((claimed.attempt, read.attempt), (1, 1));
    assert_eq!(claimed.item, activity("i", 2));
    let fields = async |instance: &str| {
        let mut doc = item(&world, instance).await.expect("the item");
        assert!(doc["holder"]["token"].is_string(), "{doc}");
        for own in [
            "_etag",
            "_rid",
            "_self",
            "_ts",
            "_attachments",
            "pk",
            "item",
            "holder",
            "sortKey",
        ] {
            doc.as_object_mut().expect("a document").remove(own);
        }
        doc
    };
    assert_eq!(fields("i").await, fields("j").await);
    // It is renewed, released, claimed again and completed as any other.
    worker.renew_work_item_lock(&claimed.lock_token, LOCK).await.unwrap();
    worker
        .abandon_work_item(&claimed.lock_token, None, false)
        .await
        .unwrap();
    let again = ready(fetch(&worker, &unversioned(&blind)).await);
    assert_eq!(again.attempt, 2);
    worker
        .ack_work_item(&again.lock_token, Some(done("i", 2)))
        .await
        .unwrap();
    assert_eq!(item(&world, "i").await, None);
}

#[tokio::test]
async fn a_repeated_wakeup_does_not_take_the_claim_of_a_running_activity() {
    let world = World::start().await;
    let clock = Arc::new(ManualClock::default());
    let (holder, other) = (world.provider_at(&clock).await, world.provider_at(&clock).await);
    let work = scheduled_by(&holder, "i").await;
    let claimed = ready(fetch(&holder, &work).await);
    let before = snapshot(&world).await;
    for provider in [&other, &holder] {
        is_busy(&fetch(provider, &work).await);
        is_busy(&fetch(provider, &unversioned(&work)).await);
    }
    // Nor does one that would match any version.
    let any = WorkVersion {
        etag: Etag::new("*"),
        ..work.written.clone().expect("a version")
    };
    let any = WorkTarget {
        written: Some(any),
        ..work.clone()
    };
    is_busy(&fetch(&other, &any).await);
    assert_eq!(snapshot(&world).await, before, "nothing was written");
    // Even when the claim has expired, only who reads the item may claim it.
    clock.advance(LATER);
    is_busy(&fetch(&other, &work).await);
    assert_eq!(snapshot(&world).await, before, "nothing was written");
    let taken_over = ready(fetch(&other, &unversioned(&work)).await);
    assert_eq!(taken_over.attempt, 2);
    let late = holder.ack_work_item(&claimed.lock_token, Some(done("i", 2))).await;
    late.expect_err("the activity was taken over");
}

#[tokio::test]
async fn a_released_activity_is_claimed_by_the_wakeup_without_the_old_version() {
    let world = World::start().await;
    let provider = world.provider().await;
    let work = scheduled_by(&provider, "i").await;
    let claimed = ready(fetch(&provider, &work).await);
    provider
        .abandon_work_item(&claimed.lock_token, None, false)
        .await
        .unwrap();
    is_busy(&fetch(&provider, &work).await);
    assert_eq!(ready(fetch(&provider, &unversioned(&work)).await).attempt, 2);
}

#[tokio::test]
async fn a_cancelled_or_completed_activity_is_not_claimed() {
    let world = World::start().await;
    let provider = world.provider().await;
    let cancelled = scheduled_by(&provider, "cancelled").await;
    enqueue(&provider, raised("cancelled", "1")).await;
    let next = turn(&provider, "cancelled").await;
    let decision = TurnDecision {
        execution: 1,
        events: vec![heard("cancelled", 1, 3)],
        cancelled: vec![cancelled.identifier()],
        ..TurnDecision::default()
    };
    provider.commit_turn(&next.lock_token, decision).done.await.unwrap();
    is_nothing(&fetch(&provider, &cancelled).await);

    let completed = scheduled_by(&provider, "completed").await;
    let claimed = ready(fetch(&provider, &completed).await);
    let result = done("completed", 2);
    provider.ack_work_item(&claimed.lock_token, Some(result)).await.unwrap();
    is_nothing(&fetch(&provider, &completed).await);
    assert_eq!(world.documents_of("work").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_claims_of_one_version_one_wins() {
    let world = World::start().await;
    let writer = world.provider().await;
    let work = scheduled_by(&writer, "i").await;
    let others = join_all((0..8).map(|_| world.provider())).await;
    let claims = (0..200).map(|n| fetch(&others[n % others.len()], &work));
    let claims = join_all(claims).await;
    let won = claims.iter().filter(|claim| matches!(claim, Fetched::Ready(_))).count();
    let busy = claims
        .iter()
        .filter(|claim| matches!(claim, Fetched::Busy { .. }))
        .count();
    assert_eq!((won, busy), (1, 199));
    assert_eq!(item(&world, "i").await.expect("the item")["attempts"], 1);
}

#[tokio::test]
async fn a_build_of_another_schema_version_never_claims_without_a_read() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    // What a newer build wrote, the older one only reads.
    let newer = newer_build(1, scheduled_by(&provider, "new")).await;
    let before = snapshot(&world).await;
    let (found, cost) = cost_of(world.listener(), fetch(&provider, &newer)).await;
    cost.is_exactly(&[Read], 1);
    match found {
        Fetched::Foreign { why } => assert!(why.contains("deploy the newer release everywhere"), "{why}"),
        other => panic!("a newer release wrote it, but the fetch found {other:?}"),
    }
    assert_eq!(snapshot(&world).await, before, "nothing has changed");
    let (claimed, cost) = cost_of(world.listener(), newer_build(1, fetch(&provider, &newer))).await;
    cost.is_exactly(&[Patch], 1);
    assert_eq!(ready(claimed).attempt, 1, "the older build has not counted");

    // What an older build wrote, the newer one reads before it claims.
    let older = scheduled_by(&provider, "old").await;
    let (claimed, cost) = cost_of(world.listener(), newer_build(1, fetch(&provider, &older))).await;
    cost.is_exactly(&[Read, Replace], 2);
    assert_eq!(ready(claimed).attempt, 1);
}

#[tokio::test]
async fn a_newer_build_that_wrote_the_item_since_keeps_it() {
    let world = World::start().await;
    let provider = world.provider().await;
    let work = scheduled_by(&provider, "i").await;
    let pk = PartitionKey::new("i").unwrap();
    let mut doc = item(&world, "i").await.expect("the item");
    doc["v"] = 3.into();
    doc["guard"] = true.into();
    let raw = world.raw();
    raw.replace(&pk, "w:1:2", &doc, None, Retry::Idempotent).await.unwrap();
    let before = snapshot(&world).await;
    is_busy(&fetch(&provider, &work).await);
    let found = fetch(&provider, &unversioned(&work)).await;
    assert!(matches!(found, Fetched::Foreign { .. }), "{found:?}");
    assert_eq!(snapshot(&world).await, before, "nothing has changed");
}

#[tokio::test]
async fn a_wakeup_that_names_another_tag_or_session_than_the_item_runs_nothing() {
    let world = World::start().await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let work = scheduled_by(&provider, "i").await;
    let tagged = WorkTarget {
        tag: Some("gpu".to_owned()),
        ..work.clone()
    };
    is_nothing(&fetch(&provider, &tagged).await);
    let any = provider.fetch_written_work(&tagged, LOCK, None, &TagFilter::Any).await;
    let error = any.expect_err("the item has no tag").to_string();
    assert!(error.contains("names another tag"), "{error}");
    clock.advance(LATER);
    ready(fetch(&provider, &unversioned(&work)).await);
}

#[tokio::test]
async fn a_work_item_of_more_than_a_megabyte_comes_with_its_claim() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    let large = "\u{1f980}\"\\ x".repeat(150_000);
    let mut decision = Decision::first("i", 1);
    for work in &mut decision.work {
        if let WorkItem::ActivityExecute { input, .. } = work {
            input.clone_from(&large);
        }
    }
    let works = written_work(&provider, "i", decision).await;
    let (claimed, cost) = cost_of(world.listener(), fetch(&provider, &works[0])).await;
    cost.is_exactly(&[Patch], 1);
    match ready(claimed).item {
        WorkItem::ActivityExecute { input, .. } => assert!(input == large, "the input is as it was"),
        other => panic!("{other:?}"),
    }
}

/// Sends nothing but one PATCH and one batch for each activity, whatever its size, also when a process polls.
#[tokio::test]
async fn a_polling_process_claims_what_it_committed_without_a_read() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    // The list of ranges, and the first sweep.
    let none = provider.fetch_work_item(LOCK, std::time::Duration::ZERO, None, &TagFilter::Any);
    assert!(none.await.unwrap().is_none());
    let mut decision = Decision::first("i", 3);
    if let WorkItem::ActivityExecute { input, .. } = &mut decision.work[1] {
        *input = "x".repeat(100_000);
    }
    written_work(&provider, "i", decision).await;
    world.listener().reset();
    for _ in 0..3 {
        let fetched = provider.fetch_work_item(LOCK, PATIENT, None, &TagFilter::Any).await;
        let (item, token, attempt) = fetched.unwrap().expect("an activity");
        let WorkItem::ActivityExecute { id, .. } = item else {
            panic!("{item:?}");
        };
        assert_eq!(attempt, 1);
        provider.ack_work_item(&token, Some(done("i", id))).await.unwrap();
    }
    let Counts {
        patches,
        batches,
        reads,
        replaces,
        ..
    } = world.listener().counts();
    assert_eq!((patches, batches, reads, replaces), (3, 3, 0, 0));
}

#[tokio::test]
async fn a_polling_process_reads_what_another_has_written_since() {
    let world = World::local(ServerOptions::default()).await;
    let (provider, other) = (world.provider().await, world.provider().await);
    scheduled_by(&provider, "i").await;
    let activity = ScheduledActivityIdentifier {
        instance: "i".to_owned(),
        execution_id: 1,
        activity_id: 2,
    };
    let claimed = other.fetch_work(&activity, LOCK, None, &TagFilter::Any).await.unwrap();
    let claimed = ready(claimed);
    other.abandon_work_item(&claimed.lock_token, None, false).await.unwrap();
    let fetched = provider.fetch_work_item(LOCK, PATIENT, None, &TagFilter::Any).await;
    let (_, _, attempt) = fetched.unwrap().expect("the activity");
    assert_eq!(attempt, 2);
}
