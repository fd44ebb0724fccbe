//! An activity of an affinity session, claimed in the version that its commit named: the session first, then the item.

use cosmos::{PartitionKey, Retry};
use cosmos_emulator::RequestKind::{Batch, Create, Delete, Patch, Read, Replace};
use cosmos_emulator::ServerOptions;
use duroxide::EventKind;
use duroxide::providers::{Provider, SessionFetchConfig, TagFilter, WorkItem};
use duroxide_cosmos::{ClaimedWork, CosmosProvider, Fetched, WorkTarget};
use tests::World;
use tests::cost::cost_of;
use tests::turns::*;

async fn fetch_in_session(provider: &CosmosProvider, work: &WorkTarget, owner: &str) -> Fetched<ClaimedWork> {
    let session = SessionFetchConfig {
        owner_id: owner.to_owned(),
        lock_timeout: LOCK,
    };
    let fetched = provider
        .fetch_written_work(work, LOCK, Some(&session), &TagFilter::DefaultOnly)
        .await;
    fetched.expect("the fetch succeeds")
}

#[track_caller]
fn is_busy(fetched: &Fetched<ClaimedWork>) {
    assert!(matches!(fetched, Fetched::Busy { .. }), "{fetched:?}");
}

#[track_caller]
fn is_nothing(fetched: &Fetched<ClaimedWork>) {
    assert!(matches!(fetched, Fetched::Nothing), "{fetched:?}");
}

/// The first turn of an instance, with one activity of the session `cart`.
fn in_session(instance: &str) -> Decision {
    let mut decision = Decision::first(instance, 1);
    for work in &mut decision.work {
        if let WorkItem::ActivityExecute { session_id, .. } = work {
            *session_id = Some("cart".to_owned());
        }
    }
    for event in &mut decision.events {
        if let EventKind::ActivityScheduled { session_id, .. } = &mut event.kind {
            *session_id = Some("cart".to_owned());
        }
    }
    decision
}

#[tokio::test]
async fn an_activity_of_a_session_claims_the_session_first_and_costs_six_requests() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    let works = written_work(&provider, "i", in_session("i")).await;
    assert_eq!(works[0].session.as_deref(), Some("cart"));
    let ((), cost) = cost_of(world.listener(), async {
        let claimed = ready(fetch_in_session(&provider, &works[0], "me").await);
        provider
            .ack_work_item(&claimed.lock_token, Some(done("i", 2)))
            .await
            .unwrap();
    })
    .await;
    cost.is_exactly(&[Read, Create, Patch, Batch, Read, Replace], 6);
}

#[tokio::test]
async fn a_session_of_another_owner_leaves_the_item_untouched() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    let works = written_work(&provider, "i", in_session("i")).await;
    let session = SessionFetchConfig {
        owner_id: "other".to_owned(),
        lock_timeout: LOCK,
    };
    provider.claim_session("cart", &session).await.unwrap();
    let before = snapshot(&world).await;
    let (found, cost) = cost_of(world.listener(), fetch_in_session(&provider, &works[0], "me")).await;
    is_busy(&found);
    cost.is_exactly(&[Read], 1);
    // A caller that serves no sessions leaves it alone.
    let without = provider
        .fetch_written_work(&works[0], LOCK, None, &TagFilter::Any)
        .await;
    is_nothing(&without.unwrap());
    assert_eq!(snapshot(&world).await, before, "nothing was written");
}

#[tokio::test]
async fn a_session_that_was_taken_for_an_item_that_is_gone_is_returned() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    let works = written_work(&provider, "i", in_session("i")).await;
    // Another process has claimed the item; its session has expired meanwhile.
    let claimed = ready(fetch_in_session(&provider, &works[0], "me").await);
    let pk = PartitionKey::new("cart").unwrap();
    let raw = world.raw();
    raw.delete(&pk, "session", None, Retry::Idempotent).await.unwrap();
    let other = world.provider().await;
    let (found, cost) = cost_of(world.listener(), fetch_in_session(&other, &works[0], "other")).await;
    is_busy(&found);
    cost.is_exactly(&[Read, Create, Patch, Delete], 4);
    assert_eq!(world.document("cart", "session").await, None);

    provider
        .ack_work_item(&claimed.lock_token, Some(done("i", 2)))
        .await
        .unwrap();
    is_nothing(&fetch_in_session(&other, &works[0], "other").await);
    assert_eq!(world.document("cart", "session").await, None);
}
