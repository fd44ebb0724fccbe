//! Queries over all partitions, with ranges that split meanwhile.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use cosmos::{Container, Error, Query, RequestKind, Retry};
use serde::Deserialize;
use serde_json::{Value, json};
use support::account::{Account, account};
use support::{Scripted, Seen, answer, pk};

#[derive(Clone, Debug, Deserialize)]
struct Thing {
    n: u32,
}

const DOCUMENTS: u32 = 120;

fn ordered() -> Query {
    Query::new("SELECT c.n, c.id FROM c WHERE c.n >= 0 ORDER BY c.n")
}

async fn filled() -> Account {
    let account = account().await;
    let container = account.container();
    for n in 0..DOCUMENTS {
        // Scattered, so that neighbours in the order are in different ranges.
        let key = format!("p{}", n * 7 % 40);
        container
            .create(
                &pk(&key),
                &json!({"id": format!("d{n}"), "pk": key, "n": n}),
                Retry::Once,
            )
            .await
            .unwrap();
    }
    account
}

/// All steps of a sweep, with `between` after the first.
async fn sweep_all(container: &Container, page_size: u32, between: impl AsyncFnOnce()) -> Vec<Vec<u32>> {
    let mut between = Some(between);
    let mut cursor = None;
    let mut steps = Vec::new();
    loop {
        let sweep = container
            .sweep(&ordered(), page_size, cursor, |thing: &Thing| thing.n)
            .await
            .unwrap();
        steps.push(sweep.items.iter().map(|thing| thing.n).collect::<Vec<u32>>());
        if let Some(between) = between.take() {
            between().await;
        }
        cursor = sweep.cursor;
        if cursor.is_none() {
            return steps;
        }
    }
}

fn all() -> Vec<u32> {
    (0..DOCUMENTS).collect()
}

fn sorted(steps: &[Vec<u32>]) -> Vec<u32> {
    let mut items: Vec<u32> = steps.concat();
    items.sort_unstable();
    items
}

#[tokio::test]
async fn a_sweep_takes_one_page_of_every_range_in_order_and_continues() {
    let account = filled().await;
    let ranges = account.server.partition_ids("db", "things").await.len();
    assert!(ranges > 1);
    let before = account.recorder.all().len();
    let steps = sweep_all(&account.container(), 5, async || {}).await;
    assert_eq!(steps[0].len(), 5 * ranges);
    assert_eq!(steps[0][0], 0, "the first of all is in the first step");
    assert!(steps.iter().all(|step| step.is_sorted()));
    assert_eq!(sorted(&steps), all());
    let sent = &account.recorder.all()[before..];
    assert_eq!(
        sent.iter().filter(|one| one.kind == RequestKind::Ranges).count(),
        1,
        "the list of ranges is cached"
    );
}

#[tokio::test]
async fn a_sweep_over_a_split_drops_nothing_and_repeats_nothing() {
    let account = filled().await;
    let ids = account.server.partition_ids("db", "things").await;
    let steps = sweep_all(&account.container(), 4, async || {
        for id in &ids {
            account.server.split_partition("db", "things", *id).await;
        }
    })
    .await;
    assert_eq!(account.server.partition_ids("db", "things").await.len(), 2 * ids.len());
    assert_eq!(sorted(&steps), all());
    assert!(
        steps.iter().all(|step| !step.is_empty()),
        "a replay must not show as an empty step: {steps:?}"
    );
}

#[tokio::test]
async fn a_range_that_splits_twice_within_one_sweep_is_followed() {
    let account = filled().await;
    let container = account.container();
    let first = account.server.partition_ids("db", "things").await[0];
    let mut seen = Vec::new();
    let mut cursor = None;
    let mut splits = vec![first];
    loop {
        let sweep = container
            .sweep(&ordered(), 3, cursor, |thing: &Thing| thing.n)
            .await
            .unwrap();
        seen.push(sweep.items.iter().map(|thing| thing.n).collect::<Vec<u32>>());
        if let Some(id) = splits.pop().filter(|_| seen.len() <= 3) {
            let before: BTreeSet<u32> = account.server.partition_ids("db", "things").await.into_iter().collect();
            account.server.split_partition("db", "things", id).await;
            let after = account.server.partition_ids("db", "things").await;
            splits = after.into_iter().filter(|id| !before.contains(id)).take(1).collect();
        }
        cursor = sweep.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(sorted(&seen), all());
}

#[tokio::test]
async fn a_scan_and_an_ordered_query_find_everything_before_and_after_a_split() {
    let account = filled().await;
    let container = account.container();
    let plain = Query::new("SELECT VALUE c.n FROM c WHERE c.n >= @least").param("@least", 0);
    let count = Query::new("SELECT VALUE COUNT(1) FROM c");
    for splits in [false, true] {
        if splits {
            // The client's list of ranges is now out of date.
            let ids = account.server.partition_ids("db", "things").await;
            account.server.split_partition("db", "things", ids[0]).await;
        }
        let mut items = container.scan::<u32>(&plain).await.unwrap();
        items.sort_unstable();
        assert_eq!(items, all());
        let counts = container.scan::<u32>(&count).await.unwrap();
        assert_eq!(counts.len(), account.server.partition_ids("db", "things").await.len());
        assert_eq!(counts.iter().sum::<u32>(), DOCUMENTS);
        for most in [7, DOCUMENTS] {
            let (first, more) = container
                .first(&ordered(), most, |thing: &Thing| thing.n)
                .await
                .unwrap();
            let numbers: Vec<u32> = first.iter().map(|thing| thing.n).collect();
            assert_eq!((numbers, more), ((0..most).collect(), most < DOCUMENTS));
        }
    }
}

const WHOLE: &str = r#"{"PartitionKeyRanges":[{"id":"0","minInclusive":"","maxExclusive":"FF","parents":[]}]}"#;
const SPLIT: &str = r#"{"PartitionKeyRanges":[
    {"id":"1","minInclusive":"","maxExclusive":"7F","parents":["0"]},
    {"id":"2","minInclusive":"7F","maxExclusive":"FF","parents":["0"]}]}"#;

fn is_ranges(seen: &Seen) -> bool {
    seen.line.contains("/pkranges")
}

/// The range and the continuation of each query.
fn queries(server: &Scripted) -> Vec<(String, Option<String>)> {
    let text = |value: Option<&str>| value.map(str::to_owned);
    let seen = server.seen().into_iter().filter(|seen| !is_ranges(seen));
    seen.map(|seen| {
        (
            text(seen.header("x-ms-documentdb-partitionkeyrangeid")).unwrap(),
            text(seen.header("x-ms-continuation")),
        )
    })
    .collect()
}

#[tokio::test]
async fn an_unordered_scan_continues_in_the_children_of_a_split() {
    let server = Scripted::start(|number, seen| match (number, is_ranges(seen)) {
        (0, _) => answer(200).saying(WHOLE),
        (1, _) => answer(200)
            .saying(json!({"Documents": [1]}))
            .with("x-ms-continuation", "here"),
        (2, _) => answer(410).with("x-ms-substatus", 1002),
        (_, true) => answer(200).saying(SPLIT),
        _ => answer(200).saying(json!({"Documents": [seen.header("x-ms-documentdb-partitionkeyrangeid")]})),
    })
    .await;
    let items = server
        .container()
        .scan::<Value>(&Query::new("SELECT * FROM c"))
        .await
        .unwrap();
    assert_eq!(items, [json!(1), json!("1"), json!("2")]);
    let here = Some("here".to_owned());
    let mut sent = queries(&server);
    sent[2..].sort();
    let expected = [("0", None), ("0", here.clone()), ("1", here.clone()), ("2", here)];
    assert_eq!(sent, expected.map(|(range, from)| (range.to_owned(), from)));
}

#[tokio::test]
async fn children_of_a_split_are_queried_with_the_token_of_their_parent() {
    let server = Scripted::start(|number, seen| match (number, is_ranges(seen)) {
        (0, _) => answer(200).saying(WHOLE),
        (1, _) => answer(200)
            .saying(json!({"Documents": []}))
            .with("x-ms-session-token", "0:1#44#1=3"),
        (2, _) => answer(410).with("x-ms-substatus", 1002),
        (_, true) => answer(200).saying(SPLIT),
        _ => answer(200).saying(json!({"Documents": []})),
    })
    .await;
    let container = server.container();
    let query = Query::new("SELECT * FROM c");
    container.scan::<Value>(&query).await.unwrap();
    container.scan::<Value>(&query).await.unwrap();
    let mut tokens: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.header("x-ms-session-token").map(str::to_owned))
        .collect();
    tokens[4..].sort();
    let text = |token: &str| Some(token.to_owned());
    assert_eq!(
        tokens,
        [
            None,
            None,
            text("0:1#44#1=3"),
            None,
            text("1:1#44#1=3"),
            text("2:1#44#1=3")
        ]
    );
}

#[tokio::test]
async fn an_empty_page_that_continues_is_not_the_end() {
    let server = Scripted::start(|number, seen| match (number, is_ranges(seen)) {
        (_, true) => answer(200).saying(WHOLE),
        (1, _) => answer(200)
            .saying(json!({"Documents": []}))
            .with("x-ms-continuation", "on"),
        _ => answer(200).saying(json!({"Documents": [{"n": 5}]})),
    })
    .await;
    let sweep = server
        .container()
        .sweep(&ordered(), 10, None, |thing: &Thing| thing.n)
        .await
        .unwrap();
    assert_eq!(sweep.items[0].n, 5);
    assert!(sweep.cursor.is_none());
}

#[tokio::test]
async fn a_range_that_never_stops_moving_ends_the_query_at_the_deadline() {
    let server = Scripted::start(|_, seen| match is_ranges(seen) {
        true => answer(200).saying(WHOLE),
        false => answer(410).with("x-ms-substatus", 1007),
    })
    .await;
    let started = std::time::Instant::now();
    let container = server
        .container()
        .within(tokio::time::Instant::now() + Duration::from_secs(4));
    let error = container
        .scan::<Value>(&Query::new("SELECT * FROM c"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::RangeGone { .. } | Error::Timeout { .. }) && error.is_transient(),
        "{error}"
    );
    assert!(server.seen().len() > 4, "it tried again");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_list_of_ranges_with_a_gap_is_refused_and_its_pages_are_joined() {
    let half = |id: &str, min: &str, max: &str| json!({"PartitionKeyRanges": [{"id": id, "minInclusive": min, "maxExclusive": max}]});
    let gap = half("0", "", "7F");
    let server = Scripted::start(move |_, _| answer(200).saying(&gap)).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    let result = server
        .container()
        .within(deadline)
        .scan::<Value>(&Query::new("SELECT * FROM c"))
        .await;
    let error = result.unwrap_err();
    assert!(error.to_string().contains("leave a gap"), "{error}");

    let (first, second) = (half("0", "", "7F"), half("1", "7F", "FF"));
    let server = Scripted::start(move |_, seen| match (is_ranges(seen), seen.header("if-none-match")) {
        (true, None) => answer(200).saying(&first),
        (true, Some(_)) => answer(200).saying(&second),
        _ => answer(200).saying(json!({"Documents": [1]})),
    })
    .await;
    let items = server
        .container()
        .scan::<u32>(&Query::new("SELECT * FROM c"))
        .await
        .unwrap();
    assert_eq!(items, [1, 1]);
}
