//! Search: every filter finds what it should, newest first; a walk sees each instance once, whatever happens meanwhile; and a page costs
//! the same, however much is stored.

use cosmos_emulator::{Counts, ServerOptions};
use duroxide::providers::ProviderAdmin;
use duroxide_cosmos::{
    Clock as _, CosmosProvider, InstanceFilter, InstanceStatus, InstanceSummary, OverviewQuery, SearchError,
    StartRequest, Tags,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World};

const RANGES: u32 = 3;

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

/// An instance document, as a turn would have left it.
fn document(pk: &str, created_at: u64, fields: Value) -> Value {
    let mut document = json!({
        "id": "instance", "pk": pk, "type": "instance", "sortKey": "2", "name": "Sample", "version": "1.0.0", "createdAt": created_at,
        "updatedAt": created_at, "execution": 1, "status": "Running", "startedAt": created_at, "events": 1, "eventBytes": 10,
        "lastEventId": 1, "head": "c", "carried": 0, "executions": 1, "earlierEvents": 0, "customStatusVersion": 0, "kvRev": 0,
        "commits": ["c"], "v": 1,
    });
    for (name, value) in fields.as_object().expect("an object") {
        match value {
            Value::Null => document.as_object_mut().expect("an object").remove(name),
            value => document
                .as_object_mut()
                .expect("an object")
                .insert(name.clone(), value.clone()),
        };
    }
    document
}

async fn load(world: &World, documents: impl IntoIterator<Item = Value>) {
    let (db, container) = world.names();
    let loaded = world.server().load(db, container, documents).await;
    loaded.expect("the documents are written");
}

fn ids(found: &[InstanceSummary]) -> Vec<&str> {
    found.iter().map(|summary| summary.instance.as_str()).collect()
}

/// All pages.
async fn walk(provider: &CosmosProvider, filter: &InstanceFilter, limit: usize) -> Vec<InstanceSummary> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = provider.search(filter, cursor.as_deref(), limit).await.expect("a page");
        assert!(page.instances.len() <= limit);
        found.extend(page.instances);
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn filter(change: impl FnOnce(&mut InstanceFilter)) -> InstanceFilter {
    let mut filter = InstanceFilter::default();
    change(&mut filter);
    filter
}

fn of_status(status: InstanceStatus) -> InstanceFilter {
    filter(|filter| filter.status = Some(status))
}

fn blocked(since: u64) -> Value {
    json!({ "cause": "panic", "reason": "it panicked", "build": "b", "since": since, "tries": 1, "until": since + 1, "listed": true })
}

/// One instance of every kind, from the newest (`a`) to the oldest.
fn one_of_each() -> Vec<Value> {
    vec![
        document("a-running", 90, json!({ "tags": ["customer:ada", "plan:pro"] })),
        document(
            "b-pending",
            80,
            json!({ "name": null, "version": null, "startName": "Sample", "status": "Pending", "commits": [] }),
        ),
        document(
            "c-completed",
            70,
            json!({ "status": "Completed", "completedAt": 75, "name": "Other", "version": "2.0.0" }),
        ),
        document(
            "d-failed",
            60,
            json!({ "status": "Failed", "completedAt": 65, "tags": ["customer:ada"] }),
        ),
        document(
            "e-cancelled",
            50,
            json!({ "status": "Failed", "completedAt": 55, "cancelled": true, "parent": "a-running" }),
        ),
        document("f-blocked", 40, json!({ "blocked": blocked(41), "version": "2.0.0" })),
        document(
            "g-blocked-pending",
            30,
            json!({
                "name": null, "version": null, "startName": "Other", "status": "Pending", "commits": [], "blocked": blocked(31),
            }),
        ),
        document(
            "h-continued",
            20,
            json!({ "status": "ContinuedAsNew", "completedAt": 25, "customStatus": "busy" }),
        ),
        // Completed although a page of messages was left: it is not blocked any more.
        document(
            "i-was-blocked",
            10,
            json!({ "status": "Completed", "completedAt": 15, "blocked": blocked(11) }),
        ),
        // Only a fence.
        document(
            "j-fence",
            95,
            json!({ "name": null, "version": null, "status": "Pending", "commits": [] }),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_filter_finds_what_it_should_newest_first() {
    let (world, _, provider) = world().await;
    load(&world, one_of_each()).await;
    let tag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let name_and =
        |name: &str, status: InstanceStatus| filter(|filter| (filter.name, filter.status) = (text(name), Some(status)));
    let cases = [
        (InstanceFilter::default(), "abcdefghi"),
        (of_status(InstanceStatus::Running), "a"),
        (of_status(InstanceStatus::Pending), "b"),
        (of_status(InstanceStatus::Completed), "ci"),
        (of_status(InstanceStatus::Failed), "d"),
        (of_status(InstanceStatus::Cancelled), "e"),
        (of_status(InstanceStatus::Blocked), "fg"),
        (of_status(InstanceStatus::ContinuedAsNew), "h"),
        (filter(|filter| filter.name = text("Other")), "cg"),
        (filter(|filter| filter.name = text("Sample")), "abdefhi"),
        (filter(|filter| filter.name = text("nobody")), ""),
        (name_and("Sample", InstanceStatus::Completed), "i"),
        (name_and("Sample", InstanceStatus::Failed), "d"),
        (name_and("Sample", InstanceStatus::Cancelled), "e"),
        (name_and("Sample", InstanceStatus::Pending), "b"),
        (name_and("Other", InstanceStatus::Pending), ""),
        (name_and("Other", InstanceStatus::Blocked), "g"),
        (filter(|filter| filter.version = text("2.0.0")), "cf"),
        (
            filter(|filter| (filter.name, filter.version) = (text("Sample"), text("2.0.0"))),
            "f",
        ),
        (filter(|filter| filter.parent = text("a-running")), "e"),
        (filter(|filter| filter.prefix = text("")), "abcdefghi"),
        (filter(|filter| filter.prefix = text("c-")), "c"),
        (filter(|filter| filter.prefix = text("C-")), ""),
        (filter(|filter| filter.tags = vec![tag("customer", "ada")]), "ad"),
        (
            filter(|filter| filter.tags = vec![tag("customer", "ada"), tag("plan", "pro")]),
            "a",
        ),
        (
            filter(|filter| {
                (filter.tags, filter.status) = (vec![tag("customer", "ada")], Some(InstanceStatus::Failed))
            }),
            "d",
        ),
        (
            filter(|filter| (filter.tags, filter.prefix) = (vec![tag("customer", "ada")], text("a"))),
            "a",
        ),
        (filter(|filter| filter.created_from = Some(70)), "abc"),
        (filter(|filter| filter.created_to = Some(20)), "hi"),
        (
            filter(|filter| (filter.created_from, filter.created_to) = (Some(30), Some(60))),
            "defg",
        ),
        (
            filter(|filter| (filter.created_to, filter.status) = (Some(40), Some(InstanceStatus::Completed))),
            "i",
        ),
        (
            filter(|filter| (filter.prefix, filter.created_to) = (text("d"), Some(59))),
            "",
        ),
    ];
    for (filter, expected) in cases {
        for limit in [1, 2, 100] {
            let found = walk(&provider, &filter, limit).await;
            let letters: String = ids(&found).iter().map(|id| &id[..1]).collect();
            assert_eq!(letters, expected, "{filter:?}, {limit} per page");
        }
    }
    // What a list shows of an instance is what its own summary shows, without texts.
    for listed in walk(&provider, &InstanceFilter::default(), 100).await {
        let own = provider
            .instance_summary(&listed.instance)
            .await
            .expect("it can be read");
        let own = own.expect("an instance");
        assert_eq!(
            InstanceSummary {
                output: None,
                error: None,
                input: None,
                ..own
            },
            listed
        );
    }
    let strange = of_status(InstanceStatus::Other("Strange".to_owned()));
    assert!(matches!(
        provider.search(&strange, None, 1).await,
        Err(SearchError::Unsupported(_))
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_are_counted_by_name_and_status() {
    let (world, clock, provider) = world().await;
    load(&world, one_of_each()).await;
    let counts = provider.counts().await.expect("counts");
    let shown: Vec<String> = counts
        .iter()
        .map(|count| format!("{} {} {}", count.name, count.status, count.count))
        .collect();
    assert_eq!(
        shown,
        [
            "Other Blocked 1",
            "Other Completed 1",
            "Sample Blocked 1",
            "Sample Cancelled 1",
            "Sample Completed 1",
            "Sample ContinuedAsNew 1",
            "Sample Failed 1",
            "Sample Pending 1",
            "Sample Running 1"
        ]
    );
    // The same numbers as a search finds.
    for count in &counts {
        let of = filter(|filter| (filter.name, filter.status) = (text(&count.name), Some(count.status.clone())));
        assert_eq!(walk(&provider, &of, 100).await.len() as u64, count.count, "{count:?}");
    }
    let all = provider.instance_counts().await.expect("counts");
    assert_eq!(
        (all.total, all.blocked, all.failed, all.cancelled, all.executions),
        (9, 2, 1, 1, 7)
    );

    // Something real that waits, beside what was loaded long ago.
    enqueue(&provider, start_of("late")).await;
    clock.advance(Duration::from_secs(3_600));
    let query = OverviewQuery {
        recent: Duration::from_secs(2 * 3_600),
        ..OverviewQuery::default()
    };
    world.listener().reset();
    let overview = provider.overview(&query).await.expect("an overview");
    let requests = world.listener().counts().requests;
    println!("an overview of {RANGES} ranges: {requests} requests");
    assert!(requests <= 9 * u64::from(RANGES), "{requests}");
    assert_eq!(overview.now_ms, clock.now_ms());
    assert_eq!(
        (
            overview.started_recently,
            overview.ended_recently,
            overview.failed_recently
        ),
        (1, 0, 0)
    );
    assert_eq!(overview.backlog.oldest_due_ms, Some(clock.now_ms() - 3_600_000));
    assert_eq!(
        (overview.backlog.stuck_instances, overview.backlog.dead_letters),
        (1, 0)
    );
    let ever = OverviewQuery {
        recent: Duration::MAX,
        ..query
    };
    let ever = provider.overview(&ever).await.expect("an overview");
    assert_eq!(
        (ever.ended_recently, ever.failed_recently),
        (4, 1),
        "those that continued as new have not ended"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_cursor_is_refused() {
    let (world, _, provider) = world().await;
    load(&world, one_of_each()).await;
    let all = InstanceFilter::default();
    let page = provider.search(&all, None, 2).await.expect("a page");
    let cursor = page.next.expect("more");
    let (other, longest) = (of_status(InstanceStatus::Failed), "A".repeat(100_000));
    let damaged = [&cursor[1..], "", "%%%", "e30", &*longest, "null"];
    for (filter, cursor) in damaged.map(|text| (&all, text)).into_iter().chain([(&other, &*cursor)]) {
        let refused = provider.search(filter, Some(cursor), 2).await;
        assert!(matches!(refused, Err(SearchError::BadCursor(_))), "{refused:?}");
    }
    assert!(provider.search(&all, Some(&cursor), 2).await.is_ok());
}

/// Ids that are hard to quote, all accepted in the same millisecond.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_of_one_millisecond_are_found_once_each() {
    let (world, _, provider) = world().await;
    let strange = [
        "a/b",
        "it's",
        "\"quoted\"",
        "back\\slash",
        "日本",
        "\u{1F600}",
        "a b",
        "A",
        "a",
        "@pk",
        "%",
    ];
    let plain = (0..200).map(|n| format!("order-{n}"));
    let all: Vec<String> = strange.iter().map(|id| (*id).to_owned()).chain(plain).collect();
    load(&world, all.iter().map(|id| document(id, 7, json!({})))).await;
    for limit in [7, 50, 1_000] {
        let found = walk(&provider, &InstanceFilter::default(), limit).await;
        let unique: HashSet<&str> = ids(&found).into_iter().collect();
        assert_eq!((found.len(), unique.len()), (all.len(), all.len()), "{limit} per page");
        assert!(ids(&found).iter().rev().is_sorted(), "a stable order");
    }
    for id in strange {
        let prefix = filter(|filter| filter.prefix = text(id));
        let found = walk(&provider, &prefix, 10).await;
        assert!(ids(&found).contains(&id), "{id}");
    }
}

/// New instances come, old ones go, and a range splits: what was there from the beginning to the end is seen once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_sees_each_instance_once_while_others_come_and_go() {
    let (world, clock, provider) = world().await;
    let now = clock.now_ms();
    let id = |n: u64| format!("order-{n:03}");
    let version = |n: u64| if n.is_multiple_of(3) { "2.0.0" } else { "1.0.0" };
    let ended = |n: u64| json!({ "status": "Completed", "completedAt": now, "version": version(n) });
    load(&world, (0..300).map(|n| document(&id(n), now - 1_000 + n, ended(n)))).await;
    let tags = Tags::default();
    let completed = of_status(InstanceStatus::Completed);
    // No index has the version alone: what the ranges return is matched here.
    let version = filter(|filter| filter.version = text("2.0.0"));
    let (all, splits) = (InstanceFilter::default(), [true, false, false]);
    // Two are deleted in the first walk, one of them after it was seen.
    for (n, (filter, expected)) in [(all, 299), (completed, 298), (version, 99)].into_iter().enumerate() {
        let splits = splits[n];
        let (mut seen, mut cursor, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = provider.search(&filter, cursor.as_deref(), 20).await.expect("a page");
            seen.extend(page.instances.into_iter().map(|summary| summary.instance));
            cursor = page.next;
            pages += 1;
            if cursor.is_none() {
                break;
            }
            let instance = format!("new-{n}-{pages}");
            let request = StartRequest {
                instance: &instance,
                orchestration: "Sample",
                version: None,
                input: "{}",
                tags: &tags,
                key: None,
            };
            provider.start(request).await.expect("it starts");
            if splits && pages == 4 {
                let (db, container) = world.names();
                let ranges = world.server().partition_ids(db, container).await;
                world.server().split_partition(db, container, ranges[0]).await;
            }
            // The last instance of the page, and one that is still to come.
            if splits && pages == 6 {
                let last = seen.last().expect("one").clone();
                for gone in [last, id(17)] {
                    provider.delete_instance(&gone, true).await.expect("it is deleted");
                }
            }
        }
        let old: Vec<&String> = seen.iter().filter(|id| id.starts_with("order-")).collect();
        let unique: HashSet<&String> = seen.iter().collect();
        assert_eq!(unique.len(), seen.len(), "none twice");
        assert_eq!(old.len(), expected);
        assert!(old.windows(2).all(|pair| pair[0] > pair[1]), "newest first");
    }
}

/// A start that is taken by its first turn between two pages, or between the two reads of a page, is found by its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_by_name_finds_what_begins_meanwhile() {
    let (_world, clock, provider) = world().await;
    for n in 0..40 {
        enqueue(&provider, start_of(&format!("order-{n:02}"))).await;
        clock.advance(Duration::from_millis(1));
    }
    let by_name = filter(|filter| filter.name = text("Sample"));
    let walk = walk(&provider, &by_name, 4);
    let begin = async {
        for n in (0..40).rev() {
            let instance = format!("order-{n:02}");
            let turn = turn(&provider, &instance).await;
            let first = Decision::first(&instance, 0);
            commit(&provider, &turn.lock_token, first).await.expect("it begins");
        }
    };
    let (found, ()) = tokio::join!(walk, begin);
    let unique: HashSet<&str> = ids(&found).into_iter().collect();
    assert_eq!((found.len(), unique.len()), (40, 40));
}

/// The filters whose cost must be flat.
fn measured(now: u64) -> Vec<(&'static str, InstanceFilter)> {
    let rare = ("rare".to_owned(), "yes".to_owned());
    let common = ("common".to_owned(), "yes".to_owned());
    vec![
        ("all", InstanceFilter::default()),
        ("completed", of_status(InstanceStatus::Completed)),
        ("failed", of_status(InstanceStatus::Failed)),
        ("cancelled", of_status(InstanceStatus::Cancelled)),
        ("blocked", of_status(InstanceStatus::Blocked)),
        ("name", filter(|filter| filter.name = text("Sample"))),
        (
            "name, status",
            filter(|it| (it.name, it.status) = (text("Sample"), Some(InstanceStatus::Completed))),
        ),
        (
            "name, version",
            filter(|it| (it.name, it.version) = (text("Sample"), text("1.0.0"))),
        ),
        ("parent", filter(|filter| filter.parent = text("root"))),
        ("created", filter(|filter| filter.created_to = Some(now / 2))),
        ("rare tag", filter(|filter| filter.tags = vec![rare])),
        ("common tag", filter(|filter| filter.tags = vec![common.clone()])),
        ("rare prefix", filter(|filter| filter.prefix = text("rare-"))),
        ("common prefix", filter(|filter| filter.prefix = text("order-"))),
        (
            "common tag, failed",
            filter(|it| (it.tags, it.status) = (vec![common], Some(InstanceStatus::Failed))),
        ),
        ("version", filter(|filter| filter.version = text("0.9.0"))),
    ]
}

/// The `n`-th of very many instances: of each ten one has failed, one was cancelled.
fn one_of_many(n: u64) -> Value {
    let fields = match n % 10 {
        0 => json!({ "status": "Failed", "completedAt": n }),
        1 => json!({ "status": "Failed", "completedAt": n, "cancelled": true }),
        2 => json!({ "blocked": blocked(n) }),
        3 => json!({ "name": "Other", "parent": "root" }),
        _ => json!({ "status": "Completed", "completedAt": n }),
    };
    let rare = n % 1_000 == 4;
    let pk = if rare {
        format!("rare-{n}")
    } else {
        format!("order-{n}")
    };
    let mut document = document(&pk, n, fields);
    document["tags"] = if rare {
        json!(["rare:yes", "common:yes"])
    } else {
        json!(["common:yes"])
    };
    document
}

/// The most that a page of each filter costs, over some pages from the beginning.
async fn costs(world: &World, provider: &CosmosProvider, stored: u64) -> BTreeMap<&'static str, Counts> {
    let mut costs = BTreeMap::new();
    // The first one also lists the ranges.
    walk(provider, &of_status(InstanceStatus::Pending), 50).await;
    for (what, filter) in measured(stored) {
        let (mut cursor, mut most) = (None::<String>, Counts::default());
        for _ in 0..3 {
            world.listener().reset();
            let page = provider.search(&filter, cursor.as_deref(), 50).await.expect("a page");
            let counts = world.listener().counts();
            most.requests = most.requests.max(counts.requests);
            most.examined = most.examined.max(counts.examined);
            most.response_bytes = most.response_bytes.max(counts.response_bytes);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        println!(
            "{stored} instances, {what}: at most {} requests, {} examined, {} bytes for a page",
            most.requests, most.examined, most.response_bytes
        );
        costs.insert(what, most);
    }
    costs
}

/// A page costs at most this, whatever is stored.
fn assert_bounded(costs: &BTreeMap<&'static str, Counts>) {
    for (what, cost) in costs {
        let ranges = u64::from(RANGES);
        // An index decides: one read of a page from each range, and two for a name. A name begins with the pending ones.
        let (requests, examined) = match *what {
            "all" | "completed" | "cancelled" | "blocked" | "parent" | "created" | "name, status" | "name, version" => {
                (ranges, 50 * ranges)
            }
            "name" => (2 * ranges, 2 * 50 * ranges),
            // Some of those that an index finds were cancelled: a second step may be needed.
            "failed" => (2 * ranges, (50 + 500) * ranges),
            // A tag or prefix is looked for alone, then in the order of acceptance, in four steps.
            _ => ((2 + 4) * ranges, (1_000 + 50 + 3 * 500) * ranges),
        };
        assert!(
            cost.requests <= requests && cost.examined <= examined,
            "{what}: {cost:?}"
        );
        assert!(cost.response_bytes < 6_000_000, "{what}: {cost:?}");
    }
}

async fn measure(world: &World, provider: &CosmosProvider, sizes: &[u64]) {
    let mut stored = 0;
    for &size in sizes {
        load(world, (stored..size).map(one_of_many)).await;
        stored = size;
        assert_bounded(&costs(world, provider, stored).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_costs_the_same_with_500_and_3_000_instances() {
    let (world, _, provider) = world().await;
    measure(&world, &provider, &[500, 3_000]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 8,000 instances; SEARCH_INSTANCES sets another number"]
async fn a_page_costs_the_same_at_any_size_and_a_walk_sees_each_once() {
    let most = std::env::var("SEARCH_INSTANCES").map_or(8_000, |count| count.parse().expect("a number"));
    let (world, clock, provider) = world().await;
    measure(&world, &provider, &[1_000, most]).await;
    let (mut seen, mut cursor, mut pages) = (HashSet::new(), None, 0);
    loop {
        let page = provider
            .search(&InstanceFilter::default(), cursor.as_deref(), 1_000)
            .await
            .expect("a page");
        for summary in page.instances {
            assert!(seen.insert(summary.instance), "none twice");
        }
        cursor = page.next;
        pages += 1;
        if cursor.is_none() {
            break;
        }
        clock.advance(Duration::from_millis(1));
        enqueue(&provider, start_of(&format!("new-{pages}"))).await;
    }
    assert_eq!(seen.iter().filter(|id| !id.starts_with("new-")).count() as u64, most);
}
