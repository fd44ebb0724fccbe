//! Instances by the hour, and what is overdue.

use duroxide_lambda_api::types::{OverdueList, ProblemType, Throughput};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tests::ManualClock;
use tests::api::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hours_that_are_over_are_counted_once() {
    let clock = Arc::new(ManualClock::default());
    let site = Site::with(Options {
        clock: Arc::clone(&clock) as Arc<_>,
        ..Options::default()
    })
    .await;
    site.ran("Echo", "a", json!(1)).await;
    site.ran("Refuse", "b", json!(1)).await;
    site.started("Echo", "c", json!(1)).await;
    let throughput = async |query: &str| -> (u64, Throughput) {
        site.listener.reset();
        let reply = site.get(&format!("/v1/throughput{query}")).await;
        let found = serde_json::from_value(reply.is(200)).expect("the documented type");
        (site.listener.counts().requests, found)
    };
    let (_, now) = throughput("").await;
    assert_eq!(now.hours.len(), 24);
    let last = now.hours.last().expect("the hour that is not over");
    assert!(
        last.from.ends_with(":00:00.000Z") && last.from[..13] == now.at[..13],
        "{now:?}"
    );
    assert!(now.hours.is_sorted_by(|a, b| a.from < b.from));
    let sums = |found: &Throughput| {
        let sum = |of: fn(&duroxide_lambda_api::types::ThroughputHour) -> u64| found.hours.iter().map(of).sum::<u64>();
        (
            sum(|hour| hour.started),
            sum(|hour| hour.ended),
            sum(|hour| hour.failed),
        )
    };
    assert_eq!(sums(&now), (3, 2, 1));

    // Two hours later nothing of it can change.
    clock.advance(Duration::from_secs(2 * 3_600));
    let (first, then) = throughput("").await;
    assert_eq!(sums(&then), (3, 2, 1));
    let (again, same) = throughput("").await;
    assert_eq!(same.hours, then.hours);
    let ranges = {
        site.listener.reset();
        site.get("/v1/overdue").await.is(200);
        site.listener.counts().requests
    };
    // Of an hour in which nothing happened: what was started, and what has ended. The hour before may not be over.
    assert!(again >= 2 * ranges && again <= 2 * 2 * ranges, "{again} of {ranges}");
    assert!(first > again, "{first}");
    let (week, more) = throughput("?hours=168").await;
    assert_eq!((more.hours.len(), sums(&more)), (168, (3, 2, 1)));
    assert!(
        week <= 2 * again,
        "only the hours before, in which nothing happened: {week}"
    );
    assert_eq!(throughput("?hours=1").await.1.hours.len(), 1);
    for wrong in ["?hours=0", "?hours=169", "?hours=x", "?hour=1"] {
        let reply = site.get(&format!("/v1/throughput{wrong}")).await;
        reply.is_problem(ProblemType::InvalidRequest);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_overdue_is_empty_as_long_as_everything_runs() {
    let site = Site::start().await;
    site.ran("Echo", "a", json!(1)).await;
    site.started("Echo", "b", json!(1)).await;
    let reply = site.get("/v1/overdue?limit=100").await;
    let found: OverdueList = serde_json::from_value(reply.is(200)).expect("the documented type");
    assert_eq!(found.overdue, [], "it is due since now only");
    for wrong in ["?limit=0", "?limit=101", "?after=1"] {
        let reply = site.get(&format!("/v1/overdue{wrong}")).await;
        reply.is_problem(ProblemType::InvalidRequest);
    }
}
