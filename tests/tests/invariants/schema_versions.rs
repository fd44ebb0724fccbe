//! Two releases on one store, as during a deployment or after a rollback: the older one destroys nothing of the newer one.

use cosmos::{PartitionKey, Retry};
use duroxide::providers::{Provider, ProviderAdmin, SessionFetchConfig, TagFilter};
use duroxide_cosmos::testing::newer_build;
use duroxide_cosmos::{Fetched, PageRequest};
use serde_json::{Value, json};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::{
    Decision, LATER, LOCK, activity_id, begin, begin_with, commit, done, enqueue, heard, named, raised, snapshot, turn,
    work,
};
use tests::{ManualClock, World};
use tokio::time::Instant;

const ACTION: &str = "deploy the newer release everywhere";

#[track_caller]
fn is_foreign<T: Debug>(fetched: Fetched<T>) {
    match fetched {
        Fetched::Foreign { why } => assert!(why.contains(ACTION), "{why}"),
        other => panic!("a newer release wrote it, but the fetch found {other:?}"),
    }
}

/// The second turn: it hears one event.
fn second(instance: &str) -> Decision {
    Decision {
        metadata: named(),
        ..Decision::of(vec![heard(instance, 1, 3)])
    }
}

#[tokio::test]
async fn an_older_build_reports_what_a_newer_one_wrote_and_leaves_it_alone() {
    let world = World::start().await;
    let provider = world.provider().await;
    newer_build(1, begin_with(&provider, "new", 1, named())).await;
    begin(&provider, "old").await;
    // Older clients can still send to it.
    enqueue(&provider, raised("new", "x")).await;

    let before = snapshot(&world).await;
    for _ in 0..2 {
        is_foreign(provider.fetch_turn("new", LOCK, None).await.unwrap());
        let activity = activity_id("new", 2);
        let work = provider.fetch_work(&activity, LOCK, None, &TagFilter::DefaultOnly);
        is_foreign(work.await.unwrap());
    }
    let admin: &dyn ProviderAdmin = &*provider;
    for force in [false, true] {
        let refused = admin.delete_instance("new", force).await.unwrap_err().to_string();
        assert!(
            force || refused.contains(ACTION) || refused.contains("unning"),
            "{refused}"
        );
        assert!(!force || refused.contains(ACTION), "{refused}");
    }
    assert_eq!(snapshot(&world).await, before, "nothing has changed");

    // Others are served, and the newer build continues where it was.
    enqueue(&provider, raised("old", "x")).await;
    assert_eq!(turn(&provider, "old").await.attempt, 1);
    newer_build(1, async {
        let turn = turn(&provider, "new").await;
        assert_eq!(turn.attempt, 1, "the older build has not counted");
        commit(&provider, &turn.lock_token, second("new")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_newer_message_waits_for_the_newer_build_and_deletion_spares_it() {
    let world = World::start().await;
    let provider = world.provider().await;
    begin(&provider, "i").await;
    newer_build(1, enqueue(&provider, raised("i", "x"))).await;
    let before = snapshot(&world).await;
    is_foreign(provider.fetch_turn("i", LOCK, None).await.unwrap());
    assert_eq!(snapshot(&world).await, before);
    let admin: &dyn ProviderAdmin = &*provider;
    let refused = admin.delete_instance("i", true).await.unwrap_err().to_string();
    assert!(refused.contains(ACTION), "{refused}");
    assert_eq!(world.documents_of("message").await.len(), 1);
}

#[tokio::test]
async fn fields_that_a_build_does_not_know_survive_what_it_writes() {
    let world = World::start().await;
    let provider = world.provider().await;
    begin_with(&provider, "i", 1, named()).await;
    let ids = ["instance", "w:1:2"];
    let guard = json!({"paused": true, "since": 5});
    let pk = PartitionKey::new("i").unwrap();
    for id in ids {
        let mut doc = world.document("i", id).await.unwrap();
        assert_eq!(doc["v"], 1, "{doc}");
        doc["guard"] = guard.clone();
        world
            .raw()
            .replace(&pk, id, &doc, None, Retry::Idempotent)
            .await
            .unwrap();
    }
    // Claims, gives back and renews the activity; claims and commits a turn.
    let given_back = work(&provider, "i", 2).await;
    let delay = Some(Duration::ZERO);
    provider
        .abandon_work_item(&given_back.lock_token, delay, false)
        .await
        .unwrap();
    let claimed = work(&provider, "i", 2).await;
    provider.renew_work_item_lock(&claimed.lock_token, LOCK).await.unwrap();
    enqueue(&provider, raised("i", "x")).await;
    let next = turn(&provider, "i").await;
    commit(&provider, &next.lock_token, second("i")).await.unwrap();
    for id in ids {
        let doc = world.document("i", id).await.unwrap();
        assert_eq!((&doc["guard"], &doc["v"]), (&guard, &json!(1)), "{doc}");
    }
    provider
        .ack_work_item(&claimed.lock_token, Some(done("i", 2)))
        .await
        .unwrap();
}

#[tokio::test]
async fn every_document_has_a_version() {
    let world = World::start().await;
    let provider = world.provider().await;
    begin_with(&provider, "i", 2, named()).await;
    let claimed = work(&provider, "i", 2).await;
    provider
        .ack_work_item(&claimed.lock_token, Some(done("i", 2)))
        .await
        .unwrap();
    enqueue(&provider, raised("i", "x")).await;
    let documents = world.documents().await;
    let without: Vec<&Value> = documents.iter().filter(|doc| doc["v"] != 1).collect();
    assert!(documents.len() >= 5 && without.is_empty(), "{without:?}");
}

#[tokio::test]
async fn maintenance_counts_what_a_newer_build_wrote_and_goes_on() {
    let world = World::start().await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let claim = SessionFetchConfig {
        owner_id: "owner".to_owned(),
        lock_timeout: LOCK,
    };
    for session in ["old-1", "old-2"] {
        provider.claim_session(session, &claim).await.unwrap();
    }
    newer_build(1, provider.claim_session("new", &claim)).await.unwrap();
    clock.advance(LATER);
    let request = PageRequest {
        most: 100,
        cursor: None,
        deadline: Instant::now() + Duration::from_secs(30),
    };
    let pass = provider.maintain_sessions(request).await.unwrap();
    assert_eq!((pass.found, pass.done, pass.failed), (3, 2, 1));
    let left = world.documents_of("session").await;
    assert_eq!(left.len(), 1);
    assert_eq!((&left[0]["pk"], &left[0]["v"]), (&json!("new"), &json!(3)));
}
