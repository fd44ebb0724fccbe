//! A walk sees each instance once: of one millisecond, while others come and go, and while they begin.

use super::{filter, ids, of_status, text, walk};
use crate::stored::{document, load, world};
use duroxide::providers::ProviderAdmin;
use duroxide_cosmos::{Clock as _, InstanceFilter, InstanceStatus, StartRequest, Tags};
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;
use tests::turns::*;

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
