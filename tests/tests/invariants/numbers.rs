//! What operators see of the whole store, hour by hour and by age; and that following one instance costs what is new.

use crate::stored::{RANGES, load, world};
use cosmos_emulator::Counts;
use duroxide::EventKind;
use duroxide::providers::{Provider as _, WorkItem};
use duroxide_cosmos::{Clock as _, HourCounts, OverdueKind, OverviewQuery};
use serde_json::{Value, json};
use std::time::Duration;
use tests::World;
use tests::turns::*;

const HOUR_MS: u64 = 3_600_000;

/// Requests since the last call, for each range.
fn cost(world: &World) -> (u64, Counts) {
    let counts = world.listener().counts();
    world.listener().reset();
    (counts.requests / u64::from(RANGES), counts)
}

/// An instance that was accepted and has ended at these times.
fn instance(pk: &str, created_at: u64, end: Option<(u64, &str)>) -> Value {
    let mut document = json!({
        "id": "instance", "pk": pk, "type": "instance", "sortKey": "2", "name": "Sample", "createdAt": created_at, "status": "Running",
        "execution": 1, "v": 1,
    });
    if let Some((at, status)) = end {
        document["completedAt"] = json!(at);
        document["status"] = json!(status);
    }
    document
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_hour_counts_what_was_started_and_has_ended_in_it() {
    let (world, _, provider) = world().await;
    let at = |hour: u64, ms: u64| hour * HOUR_MS + ms;
    let mut cancelled = instance("cancelled", at(103, 0), Some((at(103, 5), "Failed")));
    cancelled["cancelled"] = json!(true);
    let mut pending = instance("pending", at(103, 1), None);
    pending["startName"] = json!("Sample");
    pending["status"] = json!("Pending");
    let mut fence = instance("fence", at(103, 1), None);
    for document in [&mut pending, &mut fence] {
        document.as_object_mut().expect("an object").remove("name");
    }
    let documents = [
        instance("before", at(100, 0) - 1, Some((at(100, 0) - 1, "Completed"))),
        instance("first", at(100, 0), Some((at(100, HOUR_MS - 1), "Completed"))),
        instance("across", at(100, HOUR_MS - 1), Some((at(101, 0), "Failed"))),
        instance("again", at(103, 0), Some((at(103, 1), "ContinuedAsNew"))),
        instance("after", at(104, 0), None),
        cancelled,
        pending,
        fence,
    ];
    load(&world, documents).await;
    let hour = |hour: u64, started, ended, failed| HourCounts {
        from_ms: hour * HOUR_MS,
        started,
        ended,
        failed,
    };
    let found = provider.throughput(100..104).await.expect("counts");
    assert_eq!(
        found,
        [
            hour(100, 2, 1, 0),
            hour(101, 0, 1, 1),
            hour(102, 0, 0, 0),
            hour(103, 3, 1, 0)
        ]
    );
    assert_eq!(provider.throughput(104..104).await.expect("counts"), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hours_cost_at_most_three_counts_each_and_quiet_ones_nothing() {
    let (world, _, provider) = world().await;
    provider.throughput(0..1).await.expect("counts");
    cost(&world);
    provider.throughput(100..268).await.expect("counts");
    let (requests, counts) = cost(&world);
    assert_eq!((requests, counts.examined), (2, 0), "a week in which nothing happened");

    let busy = (100..124).flat_map(|hour| {
        let at = hour * HOUR_MS;
        (0..20).map(move |n| instance(&format!("i-{hour}-{n}"), at + n, Some((at + 2 * n, "Failed"))))
    });
    let (db, container) = world.names();
    let loaded = world.server().load(db, container, busy).await;
    loaded.expect("the documents are written");
    let found = provider.throughput(100..124).await.expect("counts");
    assert!(
        found
            .iter()
            .all(|hour| (hour.started, hour.ended, hour.failed) == (20, 20, 20)),
        "{found:?}"
    );
    let (requests, counts) = cost(&world);
    println!(
        "a busy day: {requests} requests for each range, {} examined",
        counts.examined
    );
    assert_eq!(requests, 3 * 24);

    let found = provider.throughput(123..124).await.expect("counts");
    assert_eq!(found.len(), 1);
    let (requests, counts) = cost(&world);
    assert_eq!((requests, counts.examined), (3, 60), "one busy hour");
    let found = provider.throughput(0..168).await.expect("counts");
    assert_eq!(found.iter().map(|hour| hour.started).sum::<u64>(), 480);
    let (requests, _) = cost(&world);
    assert!(requests <= 3 * (24 + 8), "only the busy day is divided: {requests}");
}

fn timer(instance: &str, fire_at_ms: u64) -> WorkItem {
    WorkItem::TimerFired {
        instance: instance.to_owned(),
        execution_id: 1,
        id: 2,
        fire_at_ms,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_overdue_are_the_items_behind_the_numbers_of_the_overview() {
    let (world, clock, provider) = world().await;
    let query = OverviewQuery::default();
    assert_eq!(provider.overdue(&query, 20).await.expect("a list").items, []);
    cost(&world);
    provider.overdue(&query, 20).await.expect("a list");
    assert_eq!(cost(&world).0, 1, "nothing is overdue");

    begin_with(&provider, "w", 1, named()).await;
    clock.advance(Duration::from_secs(1));
    enqueue(&provider, start_of("s")).await;
    clock.advance(Duration::from_secs(1));
    enqueue(&provider, raised("e", "")).await;
    clock.advance(Duration::from_secs(1));
    enqueue(&provider, timer("t", clock.now_ms())).await;
    enqueue(&provider, start_of("held")).await;
    let kinds = async || -> Vec<(String, OverdueKind, Option<String>)> {
        let found = provider.overdue(&query, 20).await.expect("a list").items;
        assert!(found.is_sorted_by_key(|item| item.due_ms), "{found:?}");
        found
            .into_iter()
            .map(|item| (item.instance, item.kind, item.name))
            .collect()
    };
    let numbers = async || {
        let backlog = provider.overview(&query).await.expect("an overview").backlog;
        (backlog.stuck_instances, backlog.overdue_timers)
    };
    clock.advance(Duration::from_secs(119));
    assert_eq!((kinds().await, numbers().await), (vec![], (0, 0)));
    clock.advance(Duration::from_secs(2));
    let of = |instance: &str, kind, name: Option<&str>| (instance.to_owned(), kind, name.map(str::to_owned));
    let late_timer = of("t", OverdueKind::Timer, None);
    assert_eq!((kinds().await, numbers().await), (vec![late_timer.clone()], (0, 1)));

    clock.advance(Duration::from_secs(600));
    turn(&provider, "held").await;
    let expected = vec![
        of("w", OverdueKind::Activity, Some("Act")),
        of("s", OverdueKind::Message, Some("Sample")),
        of("e", OverdueKind::Message, Some("go")),
        late_timer,
    ];
    let found = kinds().await;
    assert_eq!((found, numbers().await), (expected, (4, 1)));
    cost(&world);
    let oldest = provider.overdue(&query, 1).await.expect("a list");
    assert_eq!((oldest.items.len(), oldest.items[0].instance.as_str()), (1, "w"));
    assert_eq!(cost(&world).0, 2, "and one for claims");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_a_history_of_5000_events_costs_what_is_new() {
    let (world, _, provider) = world().await;
    begin(&provider, "long").await;
    let first = provider.read("long").await.expect("a history").len() as u64;
    let append = async |from: u64, count: u64| {
        let events = (from + 1..=from + count).map(|id| event("long", 1, id, EventKind::KeyValuesCleared));
        let appended = provider.append_with_execution("long", 1, events.collect()).await;
        appended.expect("the events are appended");
    };
    let mut last = first;
    while last < 5_000 {
        append(last, 50).await;
        last += 50;
    }
    let ids = async |after: u64| -> Vec<u64> {
        let found = provider.history_after("long", 1, after).await.expect("a history");
        found
            .expect("an execution")
            .events
            .iter()
            .map(|event| event.event_id)
            .collect()
    };
    let all: Vec<u64> = (1..=last).collect();
    world.listener().reset();
    assert_eq!(ids(0).await, all);
    let whole = world.listener().counts();
    for after in [
        1,
        first,
        first + 1,
        first + 50,
        first + 77,
        last - 51,
        last - 50,
        last - 1,
    ] {
        assert_eq!(ids(after).await, all[after as usize..], "{after}");
    }
    world.listener().reset();
    assert!(ids(last).await.is_empty());
    let nothing = world.listener().counts();
    append(last, 3).await;
    world.listener().reset();
    assert_eq!(ids(last).await, [last + 1, last + 2, last + 3]);
    let new = world.listener().counts();
    world.listener().reset();
    assert_eq!(ids(last + 1).await, [last + 2, last + 3]);
    let part = world.listener().counts();
    println!(
        "{} bytes for {last} events, {} for 3 more",
        whole.response_bytes, new.response_bytes
    );
    assert_eq!((nothing.requests, new.requests, part.requests), (2, 3, 4));
    for counts in [&nothing, &new, &part] {
        assert!(counts.response_bytes * 50 < whole.response_bytes, "{counts:?}");
    }
    assert!(
        provider
            .history_after("long", 2, 0)
            .await
            .expect("no history")
            .is_none()
    );
    assert!(
        provider
            .history_after("other", 1, 0)
            .await
            .expect("no history")
            .is_none()
    );
}
