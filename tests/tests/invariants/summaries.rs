//! Instances as we show them: from their acceptance on, with what blocks them, and cancelled ones apart from failed ones.
//! duroxide's own answers stay as they are.

use cosmos::{PartitionKey, Retry};
use cosmos_emulator::ServerOptions;
use duroxide::providers::{ProviderAdmin, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails, EventKind};
use duroxide_cosmos::{
    BlockCause, Clock, CosmosProvider, InstanceFilter, InstanceStatus, InstanceSummary, SummaryChange,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World};

async fn summary(provider: &CosmosProvider, instance: &str) -> InstanceSummary {
    let found = provider.instance_summary(instance).await.expect("it can be read");
    found.unwrap_or_else(|| panic!("{instance} has a summary"))
}

async fn listed(provider: &CosmosProvider, status: Option<InstanceStatus>) -> Vec<String> {
    let list = newest(provider, status, 100).await;
    list.into_iter().map(|summary| summary.instance).collect()
}

/// The first page of a search by status.
async fn newest(provider: &CosmosProvider, status: Option<InstanceStatus>, limit: usize) -> Vec<InstanceSummary> {
    let filter = InstanceFilter {
        status,
        ..InstanceFilter::default()
    };
    let page = provider.search(&filter, None, limit).await.expect("a page");
    page.instances
}

/// Ends an instance that has begun.
async fn end(provider: &CosmosProvider, instance: &str, kind: EventKind, status: &str, output: &str) {
    enqueue(provider, raised(instance, "end")).await;
    let turn = turn(provider, instance).await;
    let decision = Decision {
        metadata: ended(status, output),
        ..Decision::of(vec![event(instance, 1, 2, kind)])
    };
    commit(provider, &turn.lock_token, decision).await.expect("it ends");
}

fn failure(kind: AppErrorKind) -> EventKind {
    let details = ErrorDetails::Application {
        kind,
        message: "why".to_owned(),
        retryable: false,
    };
    EventKind::OrchestrationFailed { details }
}

async fn cancel(provider: &CosmosProvider, instance: &str) {
    let reason = "enough".to_owned();
    let kind = failure(AppErrorKind::Cancelled { reason });
    end(provider, instance, kind, "Failed", "canceled: enough").await;
}

/// What a build that cannot go on writes.
async fn block(world: &World, instance: &str, since: u64) {
    let mut doc = world.document(instance, "instance").await.expect("an instance");
    doc["blocked"] = json!({
        "cause": "panic", "reason": "it panicked", "build": "b7", "since": since, "tries": 3, "until": since + 5_000,
        "listed": true,
    });
    let pk = PartitionKey::new(instance).expect("an id");
    let replaced = world
        .raw()
        .replace(&pk, "instance", &doc, None, Retry::Idempotent)
        .await;
    replaced.expect("it is written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_started_instance_is_pending_before_its_first_turn() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let accepted = clock.now_ms();
    enqueue(&provider, start_of("order")).await;
    enqueue(&provider, raised("order", "early")).await;
    let pending = summary(&provider, "order").await;
    assert_eq!(
        (pending.status, pending.orchestration.as_str()),
        (InstanceStatus::Pending, "Sample")
    );
    assert_eq!((pending.input.as_deref(), pending.accepted_at), (Some("{}"), accepted));
    assert_eq!((pending.started_at, pending.version), (None, None));
    assert_eq!(listed(&provider, None).await, ["order"]);
    assert_eq!(listed(&provider, Some(InstanceStatus::Pending)).await, ["order"]);
    assert!(listed(&provider, Some(InstanceStatus::Running)).await.is_empty());
    // For duroxide it does not exist yet.
    assert!(provider.get_instance_info("order").await.is_err());
    assert_eq!(provider.list_instances().await.expect("a list"), [""; 0]);
    assert_eq!(provider.get_system_metrics().await.expect("metrics").total_instances, 0);

    clock.advance(Duration::from_secs(7));
    let turn = turn(&provider, "order").await;
    let first = Decision::first("order", 0);
    commit(&provider, &turn.lock_token, first).await.expect("it begins");
    let running = summary(&provider, "order").await;
    assert_eq!(
        (running.status, running.input, running.blocked),
        (InstanceStatus::Running, None, None)
    );
    assert_eq!(
        (running.accepted_at, running.started_at),
        (accepted, Some(accepted + 7_000))
    );
    assert!(listed(&provider, Some(InstanceStatus::Pending)).await.is_empty());

    clock.advance(Duration::from_secs(3));
    let output = "out".to_owned();
    end(
        &provider,
        "order",
        EventKind::OrchestrationCompleted { output },
        "Completed",
        "out",
    )
    .await;
    let completed = summary(&provider, "order").await;
    assert_eq!(
        (completed.took_ms(), completed.output.as_deref()),
        (Some(10_000), Some("out"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_only_fences_is_no_instance() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    // The turn of an event for nobody sets it aside, and leaves the document that fences.
    enqueue(&provider, raised("nobody", "early")).await;
    provider
        .fetch_turn("nobody", LOCK, None)
        .await
        .expect("the fetch succeeds");
    let fence = world.document("nobody", "instance").await.expect("it fences");
    assert_eq!(fence["status"], "Pending", "{fence}");
    for unknown in ["nobody", "never", "", &"i".repeat(5_000)] {
        let found = provider.instance_summary(unknown).await.expect("it can be read");
        assert_eq!(found, None, "{unknown}");
    }
    assert!(listed(&provider, None).await.is_empty());
    assert!(listed(&provider, Some(InstanceStatus::Pending)).await.is_empty());
    assert_eq!(provider.instance_counts().await.expect("counts"), Default::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_instance_says_why_until_it_ends() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    enqueue(&provider, start_of("pending")).await;
    begin(&provider, "running").await;
    begin(&provider, "well").await;
    for instance in ["pending", "running"] {
        block(&world, instance, clock.now_ms()).await;
        let blocked = summary(&provider, instance).await;
        assert_eq!(blocked.status, InstanceStatus::Blocked);
        let why = blocked.blocked.expect("a reason");
        assert_eq!((why.cause, why.build.as_str(), why.tries), (BlockCause::Panic, "b7", 3));
    }
    assert_eq!(summary(&provider, "pending").await.input.as_deref(), Some("{}"));
    let mut blocked = listed(&provider, Some(InstanceStatus::Blocked)).await;
    blocked.sort();
    assert_eq!(blocked, ["pending", "running"]);
    assert_eq!(listed(&provider, Some(InstanceStatus::Running)).await, ["well"]);
    assert!(listed(&provider, Some(InstanceStatus::Pending)).await.is_empty());
    cancel(&provider, "running").await;
    assert_eq!(summary(&provider, "running").await.status, InstanceStatus::Cancelled);
    assert_eq!(listed(&provider, Some(InstanceStatus::Blocked)).await, ["pending"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_instance_is_not_a_failed_one() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    for instance in ["cancelled", "failed", "older"] {
        begin(&provider, instance).await;
    }
    cancel(&provider, "cancelled").await;
    end(
        &provider,
        "failed",
        failure(AppErrorKind::OrchestrationFailed),
        "Failed",
        "why",
    )
    .await;
    cancel(&provider, "older").await;
    // An earlier release does not write the field.
    let mut doc = world.document("older", "instance").await.expect("an instance");
    let removed = doc.as_object_mut().and_then(|fields| fields.remove("cancelled"));
    assert_eq!(removed, Some(true.into()));
    let pk = PartitionKey::new("older").expect("an id");
    let replaced = world
        .raw()
        .replace(&pk, "instance", &doc, None, Retry::Idempotent)
        .await;
    replaced.expect("it is written");

    let cancelled = summary(&provider, "cancelled").await;
    assert_eq!(
        (cancelled.status, cancelled.error.as_deref(), cancelled.output),
        (InstanceStatus::Cancelled, Some("canceled: enough"), None)
    );
    assert_eq!(listed(&provider, Some(InstanceStatus::Cancelled)).await, ["cancelled"]);
    let mut failed = listed(&provider, Some(InstanceStatus::Failed)).await;
    failed.sort();
    assert_eq!(failed, ["failed", "older"]);
    // duroxide has no word for it.
    assert_eq!(
        provider.get_instance_info("cancelled").await.expect("info").status,
        "Failed"
    );
    assert_eq!(
        provider.get_system_metrics().await.expect("metrics").failed_instances,
        3
    );
    let counts = provider.instance_counts().await.expect("counts");
    assert_eq!(
        (counts.total, counts.failed, counts.cancelled, counts.running),
        (3, 2, 1, 0)
    );
}

/// Several physical ranges, and more instances than one page holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_of_many_instances_are_listed_and_all_are_counted() {
    const COUNT: usize = 250;
    let world = World::local(ServerOptions {
        partitions: 3,
        ..ServerOptions::default()
    })
    .await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    for n in 0..COUNT {
        let start = WorkItem::StartOrchestration {
            instance: format!("order-{n:03}"),
            orchestration: "Sample".to_owned(),
            input: "{}".to_owned(),
            version: None,
            parent_instance: Some("parent".to_owned()),
            parent_id: Some(1),
            parent_execution_id: Some(1),
            execution_id: 1,
        };
        enqueue(&provider, start).await;
        clock.advance(Duration::from_millis(1));
    }
    for status in [None, Some(InstanceStatus::Pending)] {
        let list = newest(&provider, status, 3).await;
        let newest: Vec<&str> = list.iter().map(|summary| summary.instance.as_str()).collect();
        assert_eq!(newest, ["order-249", "order-248", "order-247"]);
    }
    assert_eq!(provider.instance_counts().await.expect("counts").pending, COUNT);
    let pending = summary(&provider, "order-000").await;
    assert_eq!(pending.parent.as_deref(), Some("parent"), "its start says so");
}

/// Texts that are too long for the instance document are read from their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_texts_are_part_of_a_summary() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    begin(&provider, "order").await;
    let long = "x".repeat(20_000);
    enqueue(&provider, raised("order", "end")).await;
    let turn = turn(&provider, "order").await;
    let status = Some(long.clone());
    let decision = Decision {
        metadata: ended("Completed", &long),
        ..Decision::of(vec![event("order", 1, 2, EventKind::CustomStatusUpdated { status })])
    };
    commit(&provider, &turn.lock_token, decision).await.expect("it ends");
    let summary = summary(&provider, "order").await;
    assert_eq!(
        (summary.output.as_ref(), summary.custom_status.as_ref()),
        (Some(&long), Some(&long))
    );
    let list = newest(&provider, None, 1).await;
    assert_eq!(
        (list[0].custom_status.as_ref(), list[0].custom_status_version),
        (None, 1),
        "too long for a list"
    );
    assert_eq!(list[0].output, None, "a list has no outputs");
}

/// The status of an instance is one request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_summary_is_one_request() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let (listener, provider) = world.process_at(&clock).await;
    begin(&provider, "order").await;
    listener.reset();
    let seen = summary(&provider, "order").await;
    assert_eq!(listener.counts().requests, 1);

    // Who waits reads it only when it has changed.
    let provider = &provider;
    let again = |etag: String| async move { provider.instance_summary_if_changed("order", &etag).await };
    let unchanged = again(seen.etag.clone()).await.expect("it can be read");
    assert_eq!((unchanged, listener.counts().requests), (SummaryChange::Unchanged, 2));
    for other in ["*", "", "\"no such version\"", "line\nbreak"] {
        let changed = again(other.to_owned()).await.expect("it can be read");
        assert_eq!(changed, SummaryChange::Changed(Box::new(seen.clone())), "{other}");
    }
    cancel(provider, "order").await;
    match again(seen.etag.clone()).await.expect("it can be read") {
        SummaryChange::Changed(now) => {
            assert_eq!(
                (now.status, now.error.as_deref()),
                (InstanceStatus::Cancelled, Some("canceled: enough"))
            );
            assert_ne!(now.etag, seen.etag);
        }
        other => panic!("{other:?}"),
    }
    for unknown in ["nobody", "", &"i".repeat(5_000)] {
        let missing = provider.instance_summary_if_changed(unknown, &seen.etag).await;
        assert_eq!(missing.expect("it can be read"), SummaryChange::Missing, "{unknown}");
    }
}
