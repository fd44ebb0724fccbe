//! Expired affinity sessions are removed page by page; those with work, and those in use, stay.

use crate::support::*;
use duroxide::providers::{Provider, SessionFetchConfig, WorkItem};
use duroxide_cosmos::{CosmosProvider, Fetched, PassOutcome};
use futures::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;

const LEASE: Duration = Duration::from_secs(30);

async fn claim(provider: &CosmosProvider, session: &str, owner: &str) {
    let config = SessionFetchConfig {
        owner_id: owner.to_owned(),
        lock_timeout: LEASE,
    };
    let held = provider
        .claim_session(session, &config)
        .await
        .expect("the store can be reached");
    assert!(matches!(held, Fetched::Ready(())), "{session}: {held:?}");
}

async fn claim_many(fixture: &Fixture, prefix: &str, count: usize) {
    let claims = (0..count).map(|n| {
        let (provider, session) = (Arc::clone(&fixture.provider), format!("{prefix}-{n:03}"));
        async move { claim(&provider, &session, "owner").await }
    });
    futures::stream::iter(claims)
        .buffer_unordered(32)
        .collect::<Vec<()>>()
        .await;
}

fn work_of(session: &str) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: format!("instance of {session}"),
        execution_id: 1,
        id: 2,
        name: "Act".to_owned(),
        input: String::new(),
        session_id: Some(session.to_owned()),
        tag: None,
    }
}

async fn sessions(fixture: &Fixture) -> Vec<String> {
    let docs = fixture.world.documents_of("session").await;
    let mut names: Vec<String> = docs
        .iter()
        .filter_map(|doc| doc["pk"].as_str().map(str::to_owned))
        .collect();
    names.sort();
    names
}

async fn clean(provider: &CosmosProvider, most: u32) -> PassOutcome {
    all_pages(most, |page| provider.maintain_sessions(page)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requests_for_each_removed_session_stay_flat() {
    let mut costs = Vec::new();
    for count in [60, 300] {
        let fixture = Fixture::new().await;
        claim_many(&fixture, "s", count).await;
        assert_eq!(clean(&fixture.provider, 25).await.found, 0, "they live");
        fixture.clock.advance(LATER);
        fixture.world.listener().reset();
        let pass = clean(&fixture.provider, 25).await;
        assert_eq!(totals(&pass), (count as u64, count as u64, 0, 0));
        costs.push(fixture.world.listener().counts().requests as f64 / count as f64);
        assert!(sessions(&fixture).await.is_empty());
    }
    println!("requests for each removed session, of 60 and 300: {costs:?}");
    assert!(costs[1] <= costs[0] * 1.1 && costs[1] < 1.5, "{costs:?}");
}

#[tokio::test]
async fn sessions_with_work_stay_and_hide_none_behind_them() {
    let fixture = Fixture::new().await;
    claim_many(&fixture, "busy", 12).await;
    for session in sessions(&fixture).await {
        fixture
            .provider
            .enqueue_for_worker(work_of(&session))
            .await
            .expect("it is queued");
    }
    fixture.clock.advance(Duration::from_secs(1));
    claim_many(&fixture, "idle", 12).await;
    fixture.clock.advance(LATER);
    claim(&fixture.provider, "alive", "owner").await;
    let pass = clean(&fixture.provider, 1).await;
    assert_eq!(totals(&pass), (24, 12, 0, 0));
    let left = sessions(&fixture).await;
    assert_eq!(left.len(), 13);
    assert!(
        left.iter().all(|name| name == "alive" || name.starts_with("busy")),
        "{left:?}"
    );
    // duroxide's own verb does the same without pages.
    fixture.clock.advance(LATER);
    let removed = fixture.provider.cleanup_orphaned_sessions(Duration::ZERO).await;
    assert_eq!(removed.expect("sessions can be searched"), 1);
    assert_eq!(sessions(&fixture).await.len(), 12);
}

#[tokio::test]
async fn a_session_that_is_claimed_again_meanwhile_stays() {
    let fixture = Fixture::new().await;
    claim(&fixture.provider, "wanted", "one").await;
    fixture.clock.advance(LATER);
    let (listener, cleaner) = fixture.process().await;
    // Before its third kind of request, the removal: the list of ranges, the sweep and the check were answered.
    let pause = listener.pause_when(|log| log.len() == 1 + 2 * PARTITIONS as usize);
    let cleaning = tokio::spawn(async move { clean(&cleaner, 10).await });
    assert!(tests::is_paused(&pause, &cleaning).await);
    claim(&fixture.provider, "wanted", "two").await;
    drop(pause);
    let pass = cleaning.await.expect("the pass ends");
    assert_eq!(totals(&pass), (1, 0, 0, 0), "{pass:?}");
    let doc = fixture.world.document("wanted", "session").await.expect("it is there");
    assert_eq!(doc["owner"], "two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cleanup_that_crashes_at_any_write_is_completed_by_the_next() {
    for point in BOTH {
        for n in 1.. {
            let fixture = Fixture::new().await;
            claim_many(&fixture, "s", 3).await;
            fixture.clock.advance(LATER);
            let (listener, crashing) = fixture.process().await;
            listener.crash_at_write(n, point);
            until_crash(&listener, crashing.maintain_sessions(page_of(10))).await;
            let left = sessions(&fixture).await.len() as u64;
            assert_eq!(clean(&fixture.provider, 10).await.done, left, "{point:?} {n}");
            assert!(sessions(&fixture).await.is_empty(), "{point:?} {n}");
            if !listener.crashed() {
                assert_eq!(n, 4, "{point:?}: one write for each");
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_cleanups_at_once_do_no_harm() {
    let fixture = Fixture::new().await;
    claim_many(&fixture, "s", 60).await;
    fixture
        .provider
        .enqueue_for_worker(work_of("s-007"))
        .await
        .expect("it is queued");
    fixture.clock.advance(LATER);
    let (one, two) = (fixture.process().await.1, fixture.process().await.1);
    let (first, second) = futures::join!(clean(&one, 7), clean(&two, 7));
    assert_eq!((first.failed, second.failed), (0, 0));
    assert_eq!(first.done + second.done, 59, "each is removed by one of them");
    assert_eq!(sessions(&fixture).await, ["s-007"]);
}
