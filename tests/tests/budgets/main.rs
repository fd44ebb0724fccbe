//! The budgets of the design, counted at the emulator's listener: how many requests each operation takes, and how many
//! of them wait for each other.

mod maintenance;
mod orchestrations;
mod polling;
mod queueing;
mod steps;
mod turns;

use cosmos_emulator::{Counts, ServerOptions};
use duroxide::providers::{ExecutionMetadata, Provider, ProviderAdmin, TagFilter, WorkItem};
use duroxide::{Client, Event, EventKind};
use duroxide_cosmos::{
    ClaimedWork, CosmosProvider, EventRequest, EventTarget, Fetched, Raised, StartRequest, Started, SummaryChange,
    Tags, TurnItem,
};
use std::sync::Arc;
use std::time::Duration;
use tests::cost::{SLOW, cost_of};
use tests::turns::{Decision, activity_id, done, enqueue, event, heard, raised, ready, start_of, written_work};
use tests::{World, connect};

/// Longer than any test.
const LOCK: Duration = Duration::from_secs(3_600);
const PARTITIONS: u32 = 4;

async fn world() -> World {
    World::local(ServerOptions {
        partitions: PARTITIONS,
        ..ServerOptions::default()
    })
    .await
}

async fn fetch(provider: &CosmosProvider, instance: &str) -> Fetched<TurnItem> {
    let fetched = provider.fetch_turn(instance, LOCK, None).await;
    fetched.expect("the fetch succeeds")
}

async fn begin_turn(provider: &CosmosProvider, instance: &str) -> Fetched<TurnItem> {
    let begun = provider.begin_turn(instance, None, LOCK, None).await;
    begun.expect("the fetch succeeds")
}

async fn fetch_work(provider: &CosmosProvider, instance: &str, id: u64) -> Fetched<ClaimedWork> {
    let activity = activity_id(instance, id);
    let fetched = provider.fetch_work(&activity, LOCK, None, &TagFilter::Any).await;
    fetched.expect("the fetch succeeds")
}

/// Completes an activity that was claimed.
async fn complete(provider: &CosmosProvider, claimed: &ClaimedWork, instance: &str, id: u64) {
    let completed = provider.ack_work_item(&claimed.lock_token, Some(done(instance, id)));
    completed.await.expect("the activity completes");
}

/// An instance that has had its first turn.
async fn begun(provider: &CosmosProvider, instance: &str, activities: u64) {
    enqueue(provider, start_of(instance)).await;
    let turn = ready(fetch(provider, instance).await);
    commit(provider, &turn.lock_token, Decision::first(instance, activities)).await;
}

async fn commit(provider: &CosmosProvider, token: &str, decision: Decision) {
    let committed = tests::turns::commit(provider, token, decision).await;
    committed.expect("the turn commits");
}

/// The turn that takes the result of activity 2 and completes.
fn last(instance: &str) -> Decision {
    let result = EventKind::ActivityCompleted {
        result: "out".to_owned(),
    };
    let completed = EventKind::OrchestrationCompleted {
        output: "out".to_owned(),
    };
    Decision {
        events: vec![
            Event::with_event_id(3, instance, 1, Some(2), result),
            event(instance, 1, 4, completed),
        ],
        metadata: ExecutionMetadata {
            status: Some("Completed".to_owned()),
            output: Some("out".to_owned()),
            ..ExecutionMetadata::default()
        },
        ..Decision::default()
    }
}
