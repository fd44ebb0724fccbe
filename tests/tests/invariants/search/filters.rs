//! Every filter finds what it should, newest first, and the counts agree with it.

use super::{filter, ids, of_status, text, walk};
use crate::stored::{RANGES, blocked, document, load, world};
use duroxide_cosmos::{Clock as _, InstanceFilter, InstanceStatus, InstanceSummary, OverviewQuery, SearchError};
use serde_json::{Value, json};
use std::time::Duration;
use tests::turns::*;

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
