//! What a call that prunes leaves, and says so: when its time is over, and for a newer release.

use crate::pruning::{NAME, assert_counts, executions, keep, plant};
use crate::support::*;
use cosmos::{PartitionKey, Retry};
use cosmos_emulator::Faults;
use duroxide::providers::{InstanceFilter, ProviderAdmin, ProviderError, PruneOptions};
use duroxide_cosmos::CosmosProvider;
use duroxide_cosmos::testing::newer_build;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tests::connect;

const MANY: u64 = 300;

/// A process that prunes for a short time only, on a slow store.
async fn hurried(fixture: &Fixture) -> Arc<CosmosProvider> {
    let listener = fixture.world.open_listener().await;
    listener.set_faults(Faults {
        delay: Some(Duration::from_millis(60)),
        ..Faults::default()
    });
    let config = fixture.world.builder_through(&listener);
    connect(config.prune_time(Duration::from_millis(500))).await
}

/// Calls until it succeeds. Every error says how much the call has deleted.
async fn until_pruned(fixture: &Fixture, prune: impl AsyncFn() -> Result<u64, ProviderError>) -> u32 {
    let mut left = executions(&fixture.provider).await.len();
    for calls in 1..100 {
        let pruned = prune().await;
        let now = executions(&fixture.provider).await.len();
        let expected = format!("{} executions with {} events are deleted", left - now, left - now);
        assert_counts(&fixture.world.documents().await, &expected);
        match pruned {
            Ok(deleted) => {
                assert_eq!((deleted, now), ((left - now) as u64, 1));
                return calls;
            }
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                let error = error.to_string();
                assert!(
                    error.contains(&expected) && error.contains("call it again"),
                    "{expected}: {error}"
                );
            }
        }
        left = now;
    }
    panic!("{left} are left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_prunes_ends_in_time_and_says_how_far_it_came() {
    let fixture = Fixture::on(1).await;
    plant(&fixture, MANY, false, "payload").await;
    let slow = hurried(&fixture).await;
    let prune = async || {
        let pruned = slow.prune_executions(NAME, keep(1)).await;
        pruned.map(|pruned| pruned.executions_deleted)
    };
    assert!(until_pruned(&fixture, prune).await > 1, "one call was enough");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_prunes_many_instances_ends_in_time_and_says_how_far_it_came() {
    let fixture = Fixture::on(1).await;
    plant(&fixture, MANY, false, "payload").await;
    let slow = hurried(&fixture).await;
    let prune = async || {
        let pruned = slow.prune_executions_bulk(InstanceFilter::default(), keep(1)).await;
        pruned.map(|pruned| pruned.executions_deleted)
    };
    assert!(until_pruned(&fixture, prune).await > 1, "one call was enough");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_document_keeps_only_its_own_execution_from_being_pruned() {
    let fixture = Fixture::on(1).await;
    plant(&fixture, 30, true, "payload").await;
    let pk = PartitionKey::new(NAME).expect("a key");
    // The last of many history documents, one of few, and an execution.
    let newer = ["h:2:99:c99", "h:4:0:c0", "x:7"];
    for id in newer {
        let mut doc = fixture.world.document(NAME, id).await.expect("a document");
        doc["v"] = json!(3);
        let replaced = fixture
            .world
            .raw()
            .replace(&pk, id, &doc, None, Retry::Idempotent)
            .await;
        replaced.expect("it is written");
    }
    let error = fixture.provider.prune_executions(NAME, keep(1)).await;
    let error = error.expect_err("three are left").to_string();
    for part in ["27 executions", newer[0], "deploy the newer release everywhere"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(executions(&fixture.provider).await, [2, 4, 7, 31]);
    let docs = fixture.world.documents().await;
    assert_counts(&docs, "without three");
    let history = docs.iter().filter(|doc| doc["type"] == "history").count();
    assert_eq!(history, 100 + 1 + 1 + 1, "nothing of them is deleted");
    // Those that are not to be pruned are no failure.
    let none = PruneOptions {
        completed_before: Some(1),
        ..keep(1)
    };
    let none = fixture.provider.prune_executions(NAME, none).await;
    assert_eq!(none.expect("nothing is selected").executions_deleted, 0);
    let pruned = newer_build(1, fixture.provider.prune_executions(NAME, keep(1))).await;
    assert_eq!(pruned.expect("the newer build may").executions_deleted, 3);
    assert_eq!(executions(&fixture.provider).await, [31]);
}
