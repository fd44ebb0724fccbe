//! What runs of maintenance remember: one writer wins, and nothing else of that name is touched.

use crate::support::*;
use cosmos::{PartitionKey, Retry};
use cosmos_emulator::Faults;
use duroxide::providers::ProviderAdmin;
use duroxide_cosmos::{CosmosProvider, MaintenanceState, UnfinishedSweep};
use serde_json::json;
use tests::turns::*;

const NAME: &str = "maintenance";

async fn read(provider: &CosmosProvider) -> MaintenanceState {
    provider.maintenance_state().await.expect("the state can be read")
}

async fn keep(provider: &CosmosProvider, state: MaintenanceState) -> bool {
    provider
        .keep_maintenance_state(state)
        .await
        .expect("the store is there")
}

fn at(state: &MaintenanceState, last_run_ms: u64) -> MaintenanceState {
    let mut state = state.clone();
    state.last_run_ms = last_run_ms;
    state
}

#[tokio::test]
async fn the_first_run_has_no_state_and_the_next_has_all_of_it() {
    let fixture = Fixture::new().await;
    assert_eq!(read(&fixture.provider).await, MaintenanceState::default());
    let mut state = MaintenanceState::default();
    state.last_run_ms = 11;
    state.notified_until_ms = 22;
    state.sweep = Some(UnfinishedSweep {
        now_ms: 33,
        last_run_ms: 44,
        after_ms: 55,
    });
    assert!(keep(&fixture.provider, state.clone()).await);
    let back = read(&fixture.process().await.1).await;
    assert_eq!((back.last_run_ms, back.notified_until_ms), (11, 22));
    assert_eq!(back.sweep, state.sweep);
    // A sweep that has ended is forgotten.
    let mut over = back;
    over.sweep = None;
    assert!(keep(&fixture.provider, over).await);
    assert_eq!(read(&fixture.provider).await.sweep, None);
}

#[tokio::test]
async fn of_two_runs_with_the_same_state_one_keeps_its_own() {
    let fixture = Fixture::new().await;
    let (_, other) = fixture.process().await;
    // Nothing was there, and then something.
    for round in 0..2 {
        let (mine, theirs) = (read(&fixture.provider).await, read(&other).await);
        assert_eq!(mine, theirs);
        assert!(keep(&fixture.provider, at(&mine, 10 + round)).await);
        assert!(!keep(&other, at(&theirs, 20 + round)).await, "round {round}");
        assert_eq!(read(&other).await.last_run_ms, 10 + round);
    }
    // The loser keeps its state when it has read again.
    let theirs = read(&other).await;
    assert!(keep(&other, at(&theirs, 99)).await);
    let (first, second) = {
        let state = read(&fixture.provider).await;
        futures::join!(keep(&fixture.provider, at(&state, 1)), keep(&other, at(&state, 2)))
    };
    assert!(first != second, "exactly one of two at once");
}

#[tokio::test]
async fn an_old_state_is_not_kept_over_a_newer_one() {
    let fixture = Fixture::new().await;
    let never = read(&fixture.provider).await;
    assert!(keep(&fixture.provider, at(&never, 1)).await);
    let old = read(&fixture.provider).await;
    assert!(keep(&fixture.provider, at(&old, 2)).await);
    for stale in [never, old] {
        assert!(!keep(&fixture.provider, at(&stale, 3)).await);
    }
    assert_eq!(read(&fixture.provider).await.last_run_ms, 2);
}

#[tokio::test]
async fn a_state_of_a_newer_version_is_read_and_replaced() {
    let fixture = Fixture::new().await;
    let newer = json!({ "id": NAME, "pk": NAME, "type": NAME, "lastRunMs": 7, "unheardOf": { "deep": [1] } });
    let pk = PartitionKey::new(NAME).expect("a valid partition key");
    let written = fixture.world.raw().create(&pk, &newer, Retry::Idempotent).await;
    written.expect("it is written");
    let state = read(&fixture.provider).await;
    assert_eq!(
        (state.last_run_ms, state.notified_until_ms, &state.sweep),
        (7, 0, &None)
    );
    assert!(keep(&fixture.provider, at(&state, 8)).await);
    assert_eq!(read(&fixture.provider).await.last_run_ms, 8);
}

#[tokio::test]
async fn a_writer_whose_answer_is_lost_does_not_lose_to_itself() {
    let fixture = Fixture::new().await;
    let (listener, provider) = fixture.process().await;
    for seed in 0..12 {
        let state = read(&provider).await;
        listener.set_faults(Faults {
            lost_after: 0.5,
            seed,
            ..Faults::default()
        });
        let kept = keep(&provider, at(&state, 100 + seed)).await;
        listener.clear_faults();
        assert!(kept, "seed {seed}");
        assert_eq!(read(&provider).await.last_run_ms, 100 + seed);
    }
}

#[tokio::test]
async fn instances_of_the_same_name_do_not_share_dead_letters() {
    let fixture = Fixture::new().await;
    assert!(keep(&fixture.provider, at(&MaintenanceState::default(), 5)).await);
    begin_with(&fixture.provider, NAME, 1, ended("Completed", "out")).await;
    assert!(fixture.provider.get_instance_info(NAME).await.is_ok());
    for again in 0..2 {
        // Alone and small; then with more than one batch deletes.
        if again == 1 {
            begin_with(&fixture.provider, NAME, 120, ended("Failed", "out")).await;
        }
        let deleted = fixture
            .provider
            .delete_instances_atomic(&[NAME.to_owned()], false)
            .await;
        assert_eq!(deleted.expect("it is deleted").instances_deleted, 1);
        let left = fixture.world.documents().await;
        let kinds: Vec<_> = left
            .iter()
            .filter(|doc| doc["pk"] == NAME && doc["type"] != "receipt")
            .map(|doc| &doc["type"])
            .collect();
        assert_eq!(kinds, [NAME], "{left:?}");
        assert_eq!(read(&fixture.provider).await.last_run_ms, 5);
    }
}
