//! What a restart answers in each state of the instance, and what a key makes of a repetition.

use crate::pause::support::Scene;
use duroxide_cosmos::{CosmosProvider, Explanation, RestartRequest, Restarted};
use tests::turns::*;

async fn in_place(provider: &CosmosProvider, instance: &str, key: Option<&str>) -> Restarted {
    let request = RestartRequest {
        instance,
        version: None,
        key,
    };
    let restarted = provider.restart_in_place(request, false).await;
    restarted.expect("the store answers")
}

async fn as_new(provider: &CosmosProvider, instance: &str, new_id: &str, key: Option<&str>) -> Restarted {
    let request = RestartRequest {
        instance,
        version: None,
        key,
    };
    let restarted = provider.restart_as_new(request, new_id).await;
    restarted.expect("the store answers")
}

const FIRST: Restarted = Restarted::Accepted { execution: 1 };
const SECOND: Restarted = Restarted::Accepted { execution: 2 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_an_instance_that_has_ended_is_restarted_in_place_and_any_as_a_new_one() {
    let scene = Scene::new().await;
    let provider = &scene.provider;
    assert_eq!(in_place(provider, "none", None).await, Restarted::NotFound);
    assert_eq!(as_new(provider, "none", "n", None).await, Restarted::NotFound);
    assert_eq!(in_place(provider, &"x".repeat(3_000), None).await, Restarted::NotFound);

    enqueue(provider, start_of("pending")).await;
    begin(provider, "running").await;
    begin(provider, "paused").await;
    provider.pause("paused", None, false).await.expect("it is paused");
    begin_with(provider, "between", 0, ended("ContinuedAsNew", "{}")).await;
    for instance in ["pending", "running", "paused", "between"] {
        assert_eq!(
            in_place(provider, instance, None).await,
            Restarted::NotEnded,
            "{instance}"
        );
        let new = format!("{instance}-new");
        assert_eq!(as_new(provider, instance, &new, None).await, FIRST, "{instance}");
    }
    for status in ["Completed", "Failed"] {
        begin_with(provider, status, 0, ended(status, "out")).await;
        assert_eq!(as_new(provider, status, &format!("{status}-new"), None).await, FIRST);
        assert_eq!(in_place(provider, status, None).await, SECOND, "{status}");
        assert_eq!(
            in_place(provider, status, None).await,
            Restarted::NotEnded,
            "it is under way"
        );
        let turn = turn(provider, status).await;
        assert!(turn.item.history.is_empty(), "{:?}", turn.item.history);
        assert_eq!((turn.item.execution_id, turn.item.messages.len()), (2, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_remembered_whatever_became_of_the_restart() {
    let scene = Scene::new().await;
    let provider = &scene.provider;
    begin_with(provider, "a", 0, ended("Failed", "out")).await;
    assert_eq!(in_place(provider, "a", Some("k")).await, SECOND);
    assert_eq!(in_place(provider, "a", Some("k")).await, Restarted::Repeated);
    // The restarted execution ends: the key still belongs to its request.
    let turn = turn(provider, "a").await;
    let decision = Decision {
        execution: 2,
        metadata: ended("Failed", "again"),
        ..Decision::of(vec![started("a", 2)])
    };
    commit(provider, &turn.lock_token, decision).await.expect("it ends");
    assert_eq!(in_place(provider, "a", Some("k")).await, Restarted::Repeated);
    let other = RestartRequest {
        instance: "a",
        version: Some("2.0.0"),
        key: Some("k"),
    };
    let other = provider.restart_in_place(other, false).await;
    assert_eq!(other.expect("the store answers"), Restarted::KeyReused);
    let third = Restarted::Accepted { execution: 3 };
    assert_eq!(in_place(provider, "a", Some("l")).await, third);

    assert_eq!(as_new(provider, "a", "b", Some("k")).await, FIRST);
    assert_eq!(as_new(provider, "a", "b", Some("k")).await, Restarted::Repeated);
    assert_eq!(as_new(provider, "a", "b", None).await, Restarted::Taken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_instance_that_waits_for_its_first_turn_is_explained_so() {
    let scene = Scene::new().await;
    let provider = &scene.provider;
    begin_with(provider, "a", 0, ended("Failed", "out")).await;
    assert_eq!(in_place(provider, "a", None).await, SECOND);
    let explained = provider.explain("a", &Default::default()).await;
    let explained: Explanation = explained.expect("the store answers").expect("it is there");
    let text = format!("{explained:?}");
    assert!(!text.to_lowercase().contains("lost"), "{text}");
}
