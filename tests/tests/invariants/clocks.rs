//! Clocks that differ, and versions that are more than three digits long.

use duroxide::providers::{DispatcherCapabilityFilter, Provider, SemverRange};
use duroxide_cosmos::Fetched;
use semver::Version;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_clock_is_ahead_claims_early_and_repeats_nothing() {
    let world = World::start().await;
    let (on_time, ahead) = (Arc::new(ManualClock::default()), Arc::new(ManualClock::default()));
    ahead.advance(Duration::from_secs(600));
    let (a, b) = (world.provider_at(&on_time).await, world.provider_at(&ahead).await);
    enqueue(&a, start_of("order")).await;
    let early = turn(&a, "order").await;
    let taken = turn(&b, "order").await;
    assert_eq!(taken.attempt, 2);
    let decision = |id| Decision {
        events: vec![started("order", 1), scheduled("order", id)],
        work: vec![activity("order", id)],
        messages: vec![start_of(&format!("child-{id}"))],
        ..Decision::default()
    };
    let before = snapshot(&world).await;
    let error = commit(&a, &early.lock_token, decision(2))
        .await
        .expect_err("the lock was taken");
    assert!(!error.is_retryable(), "{error}");
    assert_eq!(before, snapshot(&world).await, "the failed commit wrote something");
    commit(&b, &taken.lock_token, decision(3))
        .await
        .expect("the new holder commits");
    assert!(commit(&a, &early.lock_token, decision(2)).await.is_err());
    assert_eq!(a.read("order").await.expect("history").len(), 2);
    let work = world.documents_of("work").await;
    assert_eq!(work.len(), 1, "{work:?}");
    let children: Vec<_> = world
        .documents_of("message")
        .await
        .iter()
        .map(|doc| doc["pk"].clone())
        .collect();
    assert_eq!(children, ["child-3"]);

    // What the clock ahead wrote is not hidden from the one that is on time for longer than the difference.
    let fetched = a.fetch_turn("child-3", LOCK, None).await.expect("the fetch succeeds");
    assert!(matches!(fetched, Fetched::Nothing | Fetched::Ready(_)), "{fetched:?}");
    on_time.advance(Duration::from_secs(601));
    turn(&a, "child-3").await;
}

fn range(min: &str, max: &str) -> DispatcherCapabilityFilter {
    let version = |text: &str| Version::parse(text).expect("a version");
    DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![SemverRange {
            min: version(min),
            max: version(max),
        }],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_beyond_999_are_compared_as_versions() {
    let world = World::start().await;
    let provider = world.provider().await;
    let pinned = duroxide::providers::ExecutionMetadata {
        pinned_duroxide_version: Some(Version::new(1, 0, 1000)),
        ..named()
    };
    begin_with(&provider, "pinned", 0, pinned).await;
    enqueue(&provider, raised("pinned", "1")).await;
    for (min, max, fits) in [
        ("1.1.0", "1.2.0", false),
        ("1.0.0", "1.0.999", false),
        ("1.0.1001", "9.0.0", false),
        ("0.1000.0", "0.1000.1000", false),
        ("1.0.999", "1.0.1001", true),
        ("0.0.1", "1.1.0", true),
        ("1.0.1000", "1.0.1000", true),
    ] {
        let filter = range(min, max);
        let directed = provider
            .fetch_turn("pinned", LOCK, Some(&filter))
            .await
            .expect("the fetch succeeds");
        let token = match directed {
            Fetched::Ready(turn) => Some(turn.lock_token),
            Fetched::Foreign { .. } => None,
            other => panic!("nobody holds it, and there is something to do: {other:?}"),
        };
        assert_eq!(token.is_some(), fits, "{min}..={max}");
        if let Some(token) = token {
            provider
                .abandon_orchestration_item(&token, None, true)
                .await
                .expect("it is abandoned");
        }
        let found = provider
            .fetch_orchestration_item(LOCK, Duration::ZERO, Some(&filter))
            .await
            .expect("a fetch");
        assert_eq!(found.is_some(), fits, "undirected, {min}..={max}");
        if let Some((_, token, _)) = found {
            provider
                .abandon_orchestration_item(&token, None, true)
                .await
                .expect("it is abandoned");
        }
    }
}
