//! A page costs the same, however much is stored.

use super::{filter, of_status, text, walk};
use crate::stored::{RANGES, blocked, document, load, world};
use cosmos_emulator::Counts;
use duroxide_cosmos::{CosmosProvider, InstanceFilter, InstanceStatus};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};
use tests::World;
use tests::turns::*;

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
#[ignore = "exhaustive: 20,000 instances; SEARCH_INSTANCES sets another number"]
async fn a_page_costs_the_same_at_any_size_and_a_walk_sees_each_once() {
    let most = std::env::var("SEARCH_INSTANCES").map_or(20_000, |count| count.parse().expect("a number"));
    let (world, clock, provider) = world().await;
    let began = Instant::now();
    measure(&world, &provider, &[1_000, (most / 10).max(1_000), most]).await;
    println!(
        "{most} instances stored and measured after {:.0} s",
        began.elapsed().as_secs_f64()
    );
    let began = Instant::now();
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
    let new = seen.iter().filter(|id| id.starts_with("new-")).count();
    println!(
        "a walk of {pages} pages, with a new instance after each, saw {} instances once each, {new} of them new, in {:.0} s",
        seen.len(),
        began.elapsed().as_secs_f64()
    );
    assert_eq!((seen.len() - new) as u64, most);
}
