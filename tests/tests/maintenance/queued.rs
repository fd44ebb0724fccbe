//! What a due item contains: which activity it is, and when it was queued.

use crate::due::{all, timer, window};
use crate::support::*;
use cosmos::Clock;
use duroxide::providers::{Provider, ScheduledActivityIdentifier, TagFilter, WorkItem};
use duroxide_cosmos::{CosmosProvider, DueItem, Fetched, Target, WorkTarget};
use std::time::Duration;
use tests::turns::*;

/// The one item that an instance has in the window.
async fn only(fixture: &Fixture, instance: &str) -> DueItem {
    let now = fixture.clock.now_ms();
    let items = all(&fixture.provider, &[window(0, now + 10_000_000)], 100).await;
    let mut own: Vec<DueItem> = items
        .into_iter()
        .filter(|item| item.target.instance() == instance)
        .collect();
    assert_eq!(own.len(), 1, "{instance}: {own:?}");
    own.remove(0)
}

#[tokio::test]
async fn an_activity_is_named_with_its_execution_and_its_tag() {
    let fixture = Fixture::new().await;
    let item = WorkItem::ActivityExecute {
        instance: "an/odd id".to_owned(),
        execution_id: 3,
        id: 17,
        name: "Act".to_owned(),
        input: String::new(),
        session_id: None,
        tag: Some("gpu".to_owned()),
    };
    fixture.provider.enqueue_for_worker(item).await.expect("it is queued");
    let expected = Target::Work(WorkTarget {
        instance: "an/odd id".to_owned(),
        execution: 3,
        activity: 17,
        tag: Some("gpu".to_owned()),
        ..WorkTarget::default()
    });
    assert_eq!(only(&fixture, "an/odd id").await.target, expected);
}

#[tokio::test]
async fn every_item_has_the_time_it_was_queued_whatever_its_origin() {
    let fixture = Fixture::new().await;
    let minute = Duration::from_secs(60);
    let provider = &fixture.provider;

    // From a client, at once and with a delay.
    let t0 = fixture.clock.now_ms();
    let delayed = provider
        .enqueue_for_orchestrator(raised("delayed", ""), Some(minute))
        .await;
    delayed.expect("it is queued");
    fixture.clock.advance(minute / 2);
    let item = only(&fixture, "delayed").await;
    assert_eq!((item.queued_ms, item.due_ms), (Some(t0), t0 + 60_000));
    assert!(!item.is_timer, "a delayed message");

    // From a commit: a timer of its own, an activity, and a message that another delivers much later.
    enqueue(provider, start_of("source")).await;
    fixture.clock.advance(minute);
    let (listener, maker) = fixture.process().await;
    refuse(&listener, &["target"], cosmos_emulator::Refusing::with(403));
    let held = turn(&maker, "source").await;
    let t1 = fixture.clock.now_ms();
    let decision = Decision {
        events: vec![started("source", 1), scheduled("source", 2)],
        messages: vec![timer("source", t1 + 500_000), start_of("target")],
        work: vec![activity("source", 2)],
        ..Decision::default()
    };
    commit(&maker, &held.lock_token, decision).await.expect("it commits");
    fixture.clock.advance(minute);
    assert_eq!(deliver_all(provider, 10).await.done, 1);
    let target = only(&fixture, "target").await;
    assert_eq!(
        (target.queued_ms, target.due_ms),
        (Some(t1), fixture.clock.now_ms()),
        "queued when it was committed, due since it was delivered"
    );
    let own = all(provider, &[window(0, t1 + 1_000_000)], 100).await;
    let own: Vec<_> = own
        .into_iter()
        .filter(|item| item.target.instance() == "source")
        .collect();
    assert_eq!(own.iter().map(|item| item.queued_ms).collect::<Vec<_>>(), [Some(t1); 2]);
    assert_eq!(
        own.iter().map(|item| item.due_ms).collect::<Vec<_>>(),
        [t1, t1 + 500_000]
    );
    assert_eq!(own.iter().map(|item| item.is_timer).collect::<Vec<_>>(), [false, true]);

    // From a worker, and again after a release with a delay.
    let claimed = claim(provider, "source").await;
    provider
        .abandon_work_item(&claimed, Some(minute), false)
        .await
        .expect("it is released");
    fixture.clock.advance(minute);
    let own = all(provider, &[window(0, fixture.clock.now_ms())], 100).await;
    let item = own
        .iter()
        .find(|item| item.target.instance() == "source")
        .expect("it is due again");
    assert_eq!(item.queued_ms, Some(t1), "it still is what the commit queued");
    let claimed = claim(provider, "source").await;
    let t2 = fixture.clock.now_ms();
    provider
        .ack_work_item(&claimed, Some(done("source", 2)))
        .await
        .expect("it completes");
    fixture.clock.advance(minute);
    let own = all(provider, &[window(t1, t2)], 100).await;
    let item = own
        .iter()
        .find(|item| item.target.instance() == "source")
        .expect("its completion is due");
    assert!(matches!(item.target, Target::Turn { .. }), "{item:?}");
    assert_eq!(item.queued_ms, Some(t2));
}

async fn claim(provider: &CosmosProvider, instance: &str) -> String {
    let activity = ScheduledActivityIdentifier {
        instance: instance.to_owned(),
        execution_id: 1,
        activity_id: 2,
    };
    let fetched = provider
        .fetch_work(&activity, LOCK, None, &TagFilter::DefaultOnly)
        .await;
    match fetched.expect("it can be fetched") {
        Fetched::Ready(claimed) => claimed.lock_token,
        other => panic!("{other:?}"),
    }
}
