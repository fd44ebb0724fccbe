//! The instances that need attention: each reason is found by an index, merged newest first, in pages whose price is bounded.

use cosmos_emulator::{Counts, ServerOptions};
use duroxide_cosmos::{Attention, Clock as _, CosmosProvider, InstanceFilter, InstancePage};
use serde_json::{Value, json};
use std::sync::Arc;
use tests::{ManualClock, World};

const RANGES: u32 = 3;
const DAY_MS: u64 = 24 * 3_600_000;
const MINUTE_MS: u64 = 60_000;

async fn world() -> (World, Arc<ManualClock>, Arc<CosmosProvider>) {
    let world = World::local(ServerOptions {
        partitions: RANGES,
        count_examined: true,
        keep_log: false,
        ..ServerOptions::default()
    })
    .await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    (world, clock, provider)
}

async fn load(world: &World, documents: Vec<Value>) {
    let (db, container) = world.names();
    let loaded = world.server().load(db, container, documents).await;
    loaded.expect("the documents are written");
}

fn instance(pk: &str, created_at: u64, fields: Value) -> Value {
    let mut document = json!({
        "id": "instance", "pk": pk, "type": "instance", "sortKey": "2", "name": "Sample", "version": "1.0.0", "createdAt": created_at,
        "updatedAt": created_at, "execution": 1, "status": "Running", "startedAt": created_at, "events": 1, "eventBytes": 10,
        "lastEventId": 1, "head": "c", "carried": 0, "executions": 1, "earlierEvents": 0, "customStatusVersion": 0, "kvRev": 0,
        "commits": ["c"], "v": 1,
    });
    let all = document.as_object_mut().expect("an object");
    all.extend(fields.as_object().expect("an object").clone());
    document
}

fn failed(pk: &str, created_at: u64, ended_at: u64) -> Value {
    instance(pk, created_at, json!({ "status": "Failed", "completedAt": ended_at }))
}

fn blocked(since: u64) -> Value {
    json!({ "cause": "panic", "reason": "r", "build": "b", "since": since, "tries": 1, "until": since + 1, "listed": true })
}

/// An activity of an instance.
fn work(pk: &str, due_at: u64, fields: Value) -> Value {
    let mut document = json!({
        "id": "w:1:2", "pk": pk, "type": "work", "queue": "work", "dueAt": due_at, "sortKey": "1", "v": 1,
        "item": { "ActivityExecute": { "name": "Act" } },
    });
    let all = document.as_object_mut().expect("an object");
    all.extend(fields.as_object().expect("an object").clone());
    document
}

fn dead_letter(pk: &str, at: u64) -> Value {
    json!({
        "id": "dead:a:1", "pk": pk, "type": "dead-letter", "queue": "dead", "givenUpAt": at, "sortKey": format!("{at:020}-{pk}"),
        "givenUp": { "cause": "poison-activity", "reason": "r", "attempts": 10, "items": [], "omitted": 0 }, "v": 1,
    })
}

/// Every kind of instance; those with a capital letter need attention.
fn scene(now: u64) -> Vec<Value> {
    let late = now - 11 * MINUTE_MS;
    vec![
        instance("fine", now - 10, json!({})),
        failed("Failed", now - 20 * DAY_MS, now - DAY_MS + 1),
        failed("failed-before", now - 20, now - DAY_MS - 1),
        instance("Blocked", now - 30, json!({ "blocked": blocked(now - 5) })),
        instance(
            "paused",
            now - 40,
            json!({ "blocked": blocked(now - 5), "paused": { "since": 1, "listed": true } }),
        ),
        instance("BlockedActivity", now - 50, json!({})),
        work(
            "BlockedActivity",
            now + DAY_MS,
            json!({ "parked": true, "blocked": blocked(now - 5) }),
        ),
        // It was blocked once, and runs now.
        instance("runs", now - 60, json!({})),
        work("runs", now + MINUTE_MS, json!({ "blocked": blocked(now - 5) })),
        instance("Overdue", now - 70, json!({})),
        work("Overdue", late, json!({})),
        instance("due", now - 80, json!({})),
        work("due", now - MINUTE_MS, json!({})),
        instance(
            "DeadLetter",
            now - 90,
            json!({ "status": "Completed", "completedAt": now - 9 * DAY_MS }),
        ),
        dead_letter("DeadLetter", now - 9 * DAY_MS),
        dead_letter("deleted", now - 1),
        failed("FailedDead", now - 100, now - 5),
        dead_letter("FailedDead", now - 6),
    ]
}

fn attention() -> InstanceFilter {
    InstanceFilter {
        needs_attention: true,
        ..InstanceFilter::default()
    }
}

fn ids(page: &InstancePage) -> Vec<&str> {
    page.instances.iter().map(|one| one.instance.as_str()).collect()
}

async fn walk(provider: &CosmosProvider, filter: &InstanceFilter, limit: usize) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = provider.search(filter, cursor.as_deref(), limit).await.expect("a page");
        found.extend(ids(&page).into_iter().map(str::to_owned));
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_reason_is_found_newest_first_and_nothing_else() {
    use Attention::{Blocked, BlockedActivity, DeadLetter, Failed, Overdue};
    let (world, clock, provider) = world().await;
    let now = clock.now_ms();
    load(&world, scene(now)).await;
    let page = provider.search(&attention(), None, 20).await.expect("a page");
    let expected: [(&str, &[Attention]); 6] = [
        ("Blocked", &[Blocked]),
        ("BlockedActivity", &[BlockedActivity]),
        ("Overdue", &[Overdue]),
        ("DeadLetter", &[DeadLetter]),
        ("FailedDead", &[Failed, DeadLetter]),
        ("Failed", &[Failed]),
    ];
    let found: Vec<(&str, &[Attention])> = ids(&page)
        .into_iter()
        .map(|id| (id, page.attention[id].as_slice()))
        .collect();
    assert_eq!(found, expected);
    assert!(!page.is_truncated && page.next.is_none());

    let all: Vec<&str> = expected.iter().map(|(id, _)| *id).collect();
    for limit in [1, 2, 3, 5] {
        assert_eq!(walk(&provider, &attention(), limit).await, all, "in pages of {limit}");
    }
    let with = |change: fn(&mut InstanceFilter, u64)| {
        let mut filter = attention();
        change(&mut filter, now);
        filter
    };
    for (filter, expected) in [
        (
            with(|filter, _| filter.prefix = Some("Blocked".to_owned())),
            &["Blocked", "BlockedActivity"] as &[_],
        ),
        (with(|filter, _| filter.name = Some("Sample".to_owned())), &all),
        (with(|filter, _| filter.name = Some("Other".to_owned())), &[]),
        (
            with(|filter, now| filter.completed_from = Some(now - 2 * DAY_MS)),
            &["failed-before", "FailedDead", "Failed"],
        ),
        (
            with(|filter, _| filter.status = Some(duroxide_cosmos::InstanceStatus::Running)),
            &["BlockedActivity", "Overdue"],
        ),
    ] {
        assert_eq!(walk(&provider, &filter, 2).await, expected, "{filter:?}");
    }
    let cursor = provider.search(&attention(), None, 1).await.expect("a page").next;
    let other = provider.search(&InstanceFilter::default(), cursor.as_deref(), 1).await;
    assert!(other.is_err(), "a cursor of another search");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_an_instance_is_a_filter_of_any_search() {
    let (world, clock, provider) = world().await;
    let now = clock.now_ms();
    load(&world, scene(now)).await;
    let filter = |from: Option<u64>, to: Option<u64>| InstanceFilter {
        status: Some(duroxide_cosmos::InstanceStatus::Failed),
        completed_from: from,
        completed_to: to,
        ..InstanceFilter::default()
    };
    for (from, to, expected) in [
        (None, None, &["failed-before", "FailedDead", "Failed"] as &[_]),
        (Some(now - DAY_MS), None, &["FailedDead", "Failed"]),
        (Some(now - DAY_MS), Some(now - DAY_MS + 1), &["Failed"]),
        (None, Some(now - DAY_MS - 1), &["failed-before"]),
    ] {
        assert_eq!(walk(&provider, &filter(from, to), 2).await, expected);
    }
}

fn cost(world: &World) -> (u64, Counts) {
    let counts = world.listener().counts();
    world.listener().reset();
    (counts.requests / u64::from(RANGES), counts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_costs_the_same_whatever_is_stored() {
    let (world, clock, provider) = world().await;
    let now = clock.now_ms();
    provider.search(&attention(), None, 20).await.expect("a page");
    cost(&world);
    provider.search(&attention(), None, 20).await.expect("a page");
    let (requests, counts) = cost(&world);
    // Overdue, dead letters, blocked activities; blocked and failed instances.
    assert_eq!((requests, counts.examined), (5, 0), "nothing needs attention");

    let ended = |n: u64| {
        instance(
            &format!("done-{n}"),
            now - n,
            json!({ "status": "Completed", "completedAt": now }),
        )
    };
    let old = |n: u64| failed(&format!("old-{n}"), now - n, now - 2 * DAY_MS);
    load(&world, (0..600).map(ended).chain((0..300).map(old)).collect()).await;
    load(&world, scene(now)).await;
    let page = provider.search(&attention(), None, 20).await.expect("a page");
    assert_eq!(page.instances.len(), 6);
    let (requests, counts) = cost(&world);
    println!("{requests} requests for each range, {} examined", counts.examined);
    assert!(requests <= 5 + 2 + 2 * 2, "{requests}");
    assert!(
        counts.examined <= 2 * 300 + 40,
        "completed ones are not read: {}",
        counts.examined
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_cannot_look_at_everything_says_so() {
    let (world, clock, provider) = world().await;
    let now = clock.now_ms();
    let letters = (0..201).flat_map(|n| {
        let pk = format!("i-{n:03}");
        [instance(&pk, now - n, json!({})), dead_letter(&pk, now - n)]
    });
    load(&world, letters.collect()).await;
    let page = provider.search(&attention(), None, 50).await.expect("a page");
    assert!(page.is_truncated && page.instances.len() == 50);
    assert_eq!(walk(&provider, &attention(), 90).await.len(), 200);
}
