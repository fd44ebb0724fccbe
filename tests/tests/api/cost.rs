//! What a request costs, as the store counts it.

use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tests::api::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_a_status_and_an_event_are_one_request_each() {
    let site = Site::start().await;
    let requests = || {
        let counted = site.listener.counts();
        site.listener.reset();
        (counted.requests, counted.cross_partition_queries)
    };
    let start = |key: &str, body| {
        with(
            request("POST", "/v1/orchestrations/Inbox/instances", Some(body)),
            "idempotency-key",
            key,
        )
    };
    site.send(start("k", json!({"id": "a", "input": 2, "tags": {"x": "y"}})))
        .await
        .is(202);
    assert_eq!(requests(), (1, 0), "start");
    site.get("/v1/instances/a").await.is(200);
    assert_eq!(requests(), (1, 0), "the status of a pending instance");
    site.cloud.drain().await;
    let reply = site.get("/v1/instances/a").await;
    reply.is(200);
    assert_eq!(requests(), (1, 0), "the status of a running instance");
    let again = with(
        request("GET", "/v1/instances/a", None),
        "if-none-match",
        reply.header("etag"),
    );
    site.send(again).await.is(304);
    assert_eq!(requests(), (1, 0), "the status of an instance that has not changed");
    let event = request("POST", "/v1/instances/a/queues/inbox", Some(json!({"data": 1})));
    site.send(with(event, "idempotency-key", "e")).await.is(202);
    assert_eq!(requests(), (1, 0), "an event with a key");
    site.post("/v1/instances/a/queues/inbox", json!({"data": 1}))
        .await
        .is(202);
    assert_eq!(requests(), (1, 0), "an event without a key");
    site.cloud.drain().await;
    site.get("/v1/instances/a").await.is(200);
    assert_eq!(requests(), (1, 0), "the status of an instance that has ended");
    site.get("/v1/instances/a?wait=25").await.is(200);
    assert_eq!(requests(), (1, 0), "waiting for what has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_of_25_seconds_is_at_most_eight_requests() {
    let timer = Arc::new(Paused::default());
    let site = Site::with(Options {
        timer: Arc::clone(&timer) as Arc<_>,
        ..Options::default()
    })
    .await;
    let waited = || timer.0.lock().expect("no panic").drain(..).sum::<Duration>();
    site.ran("Event", "a", json!(null)).await;
    site.listener.reset();
    let reply = site.get("/v1/instances/a?wait=25").await;
    assert_eq!(reply.is(200)["status"], "Running");
    assert_eq!(
        (site.listener.counts().requests, waited()),
        (8, Duration::from_secs(25))
    );

    site.listener.reset();
    let known = with(
        request("GET", "/v1/instances/a?wait=25", None),
        "if-none-match",
        reply.header("etag"),
    );
    site.send(known).await.is(304);
    assert_eq!(
        (site.listener.counts().requests, waited()),
        (8, Duration::from_secs(25))
    );

    site.listener.reset();
    let start = request("POST", "/v1/orchestrations/Event/instances", Some(json!({"id": "b"})));
    let reply = site.send(with(start, "prefer", "wait=25")).await;
    reply.is(202);
    assert_eq!(reply.header("preference-applied"), "wait=25");
    assert_eq!(
        (site.listener.counts().requests, waited()),
        (8, Duration::from_secs(25))
    );
}
