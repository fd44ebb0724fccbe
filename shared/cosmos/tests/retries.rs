//! The retry loop, against a scripted server: what is repeated, what is not, and which error the caller gets.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cosmos::{Batch, CosmosClient, Error, RequestKind, Retry};
use serde_json::{Value, json};
use support::{Act, Recorder, Scripted, answer, create, pk};

fn soon(millis: u64) -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_millis(millis)
}

#[tokio::test]
async fn throttling_waits_as_long_as_the_service_says_and_then_succeeds() {
    let throttled = answer(429).with("x-ms-substatus", 3200).with("x-ms-retry-after-ms", 60);
    let server = Scripted::playing(vec![throttled.clone(), throttled, answer(201)]).await;
    let started = Instant::now();
    create(&server.container(), Retry::Once).await.unwrap();
    assert_eq!(server.seen().len(), 3);
    assert!(
        started.elapsed() >= Duration::from_millis(120),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn throttling_that_does_not_fit_the_deadline_is_reported_at_once() {
    let server = Scripted::playing(vec![answer(429).with("x-ms-retry-after-ms", 60_000)]).await;
    let started = Instant::now();
    let container = server.container().within(soon(40_000));
    let error = create(&container, Retry::Idempotent).await.unwrap_err();
    assert!(
        matches!(error, Error::Throttled { retry_after: Some(after), .. } if after.as_secs() == 60),
        "{error}"
    );
    assert!(error.is_transient() && !error.after_ambiguity());
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_write_that_was_certainly_not_applied_is_repeated_even_if_declared_once() {
    for (status, substatus) in [
        (429, 3200),
        (449, 0),
        (503, 0),
        (410, 1007),
        (404, 1002),
        (403, 3),
        (403, 1008),
    ] {
        let refused = answer(status).with("x-ms-substatus", substatus);
        let server = Scripted::playing(vec![refused, answer(201)]).await;
        let result = create(&server.container(), Retry::Once).await;
        assert!(result.is_ok(), "{status}/{substatus}: {result:?}");
        assert_eq!(server.seen().len(), 2, "{status}/{substatus}");
    }
}

#[tokio::test]
async fn an_unknown_outcome_is_not_repeated_when_declared_once() {
    let unknown = [
        answer(408),
        answer(500),
        answer(502),
        answer(504),
        Act::Drop,
        Act::Truncate,
    ];
    for act in unknown {
        let server = Scripted::playing(vec![act.clone()]).await;
        let error = create(&server.container(), Retry::Once).await.unwrap_err();
        assert!(matches!(error, Error::Ambiguous { .. }), "{act:?}: {error}");
        assert!(error.is_transient());
        assert_eq!(server.seen().len(), 1, "{act:?}");
    }
}

#[tokio::test]
async fn an_unknown_outcome_is_repeated_when_declared_idempotent_and_the_echo_is_marked() {
    for (status, act) in [(409, Act::Drop), (409, answer(500)), (409, Act::Truncate)] {
        let server = Scripted::playing(vec![act, answer(status)]).await;
        let error = create(&server.container(), Retry::Idempotent).await.unwrap_err();
        assert!(error.is_conflict() && error.after_ambiguity(), "{error}");
        assert_eq!(server.seen().len(), 2);
    }
    let server = Scripted::playing(vec![answer(503), answer(409)]).await;
    let error = create(&server.container(), Retry::Idempotent).await.unwrap_err();
    assert!(
        error.is_conflict() && !error.after_ambiguity(),
        "503 was not processed: {error}"
    );
}

#[tokio::test]
async fn failures_after_an_unknown_outcome_never_claim_that_nothing_was_written() {
    let later = [answer(429).with("x-ms-retry-after-ms", 10), answer(503), answer(449)];
    // Each case lasts until its deadline, so they run at the same time.
    let cases = later.map(async |later: Act| {
        let server = Scripted::playing(vec![Act::Drop, later.clone()]).await;
        let container = server.container().within(soon(3_000));
        let error = create(&container, Retry::Idempotent).await.unwrap_err();
        assert!(
            matches!(error, Error::Ambiguous { .. }) && error.after_ambiguity(),
            "{later:?}: {error}"
        );
    });
    futures::future::join_all(cases).await;
}

#[tokio::test]
async fn reads_are_repeated_after_any_loss() {
    let server = Scripted::playing(vec![
        Act::Drop,
        answer(500),
        answer(408),
        answer(200).saying(r#"{"n":7}"#),
    ])
    .await;
    let found = server.container().read::<Value>(&pk("p"), "a").await.unwrap().unwrap();
    assert_eq!(found.doc["n"], 7);
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn a_server_that_never_answers_ends_at_the_deadline() {
    let server = Scripted::playing(vec![Act::Hang]).await;
    let started = Instant::now();
    let container = server.container().within(soon(300));
    let error = container.read::<Value>(&pk("p"), "a").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    let error = create(&container, Retry::Once).await.unwrap_err();
    assert!(
        matches!(error, Error::Timeout { .. }),
        "not sent, so nothing is ambiguous: {error}"
    );
    let writing = server.container().within(soon(200));
    let error = create(&writing, Retry::Idempotent).await.unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_attempt_that_hangs_is_given_up_for_another() {
    let server = Scripted::playing(vec![Act::Hang, answer(200)]).await;
    let config = server.config().request_timeout(Duration::from_millis(100));
    let container = CosmosClient::new(config).container("db", "things");
    assert!(container.read::<Value>(&pk("p"), "a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_dead_endpoint_is_unreachable_within_the_deadline() {
    // Bound without listening, so that no other process can listen on the port.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let endpoint = format!("http://{}", socket.local_addr().unwrap());
    let config = cosmos::ClientConfig::new(&endpoint, support::key()).unwrap();
    let client = CosmosClient::new(config.operation_timeout(Duration::from_secs(3)));
    let started = Instant::now();
    let result = create(&client.container("db", "c"), Retry::Once).await;
    let error = result.unwrap_err();
    assert!(
        matches!(error, Error::Unreachable { .. }) && error.is_transient(),
        "{error}"
    );
    let message = error.to_string();
    assert!(
        message.contains("127.0.0.1") && message.contains("check the endpoint"),
        "{message}"
    );
    assert!(error.context().unwrap().attempts > 1);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_final_answer_is_never_sent_twice() {
    for status in [400, 403, 404, 409, 412, 413] {
        let server = Scripted::playing(vec![answer(status)]).await;
        let result = server
            .container()
            .replace(&pk("p"), "a", &json!({"id": "a"}), None, Retry::Idempotent)
            .await;
        let error = result.unwrap_err();
        assert!(!error.is_transient(), "{status}: {error}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!(server.seen().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_moved_write_region_is_transient_after_one_more_try() {
    let server = Scripted::playing(vec![answer(403).with("x-ms-substatus", 3)]).await;
    let error = create(&server.container(), Retry::Once).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn each_attempt_has_its_own_date_and_signature() {
    let server = Scripted::playing(vec![answer(429).with("x-ms-retry-after-ms", 1_100), answer(201)]).await;
    server
        .container()
        .create(&pk("日本"), &json!({"id": "a"}), Retry::Once)
        .await
        .unwrap();
    let seen = server.seen();
    assert_ne!(seen[0].header("x-ms-date"), seen[1].header("x-ms-date"));
    assert_ne!(seen[0].header("authorization"), seen[1].header("authorization"));
    assert_eq!(seen[0].header("x-ms-version"), Some("2020-07-15"));
    assert_eq!(seen[0].header("prefer"), Some("return=minimal"));
    assert_eq!(
        seen[0].header("x-ms-documentdb-partitionkey"),
        Some(r#"["\u65e5\u672c"]"#)
    );
}

#[tokio::test]
async fn a_batch_is_repeated_when_the_failure_inside_its_207_is_transient() {
    for status in [429, 449, 503, 500] {
        let failed = json!([{"statusCode": 424}, {"statusCode": status, "retryAfterMilliseconds": 5}]);
        let fine = json!([{"statusCode": 201, "eTag": "\"1\""}, {"statusCode": 201, "eTag": "\"2\""}]);
        let server = Scripted::playing(vec![answer(207).saying(failed), answer(200).saying(fine)]).await;
        let results = server.container().batch(&pk("p"), &two(), Retry::Once).await.unwrap();
        assert_eq!(results[1].etag.as_ref().unwrap().as_str(), "\"2\"", "{status}");
        assert_eq!(server.seen().len(), 2, "{status}");
    }
}

#[tokio::test]
async fn a_batch_answered_with_200_and_a_failing_result_is_a_failure() {
    let body = json!([{"statusCode": 201}, {"statusCode": 409}]);
    let server = Scripted::playing(vec![answer(200).saying(body)]).await;
    let error = server
        .container()
        .batch(&pk("p"), &two(), Retry::Once)
        .await
        .unwrap_err();
    assert!(error.is_conflict() && error.batch_index() == Some(1), "{error}");
    assert!(error.to_string().contains("create `b`"), "{error}");
}

#[tokio::test]
async fn every_attempt_is_observed() {
    let busy = answer(429)
        .with("x-ms-substatus", 3200)
        .with("x-ms-retry-after-ms", 1)
        .with("x-ms-request-charge", 0.38);
    let server = Scripted::playing(vec![busy, Act::Drop, answer(201).with("x-ms-request-charge", 6.67)]).await;
    let recorder = Arc::new(Recorder::default());
    let observer: Arc<dyn cosmos::Observer> = Arc::<Recorder>::clone(&recorder);
    let client = CosmosClient::new(server.config().observer(observer));
    create(&client.container("db", "c"), Retry::Idempotent).await.unwrap();
    let all = recorder.all();
    let reports: Vec<_> = all
        .iter()
        .map(|one| (one.status, one.substatus, one.attempt, one.charge))
        .collect();
    assert_eq!(
        reports,
        [
            (Some(429), Some(3200), 1, 0.38),
            (None, None, 2, 0.0),
            (Some(201), None, 3, 6.67)
        ]
    );
    assert!(
        all.iter()
            .all(|one| one.kind == RequestKind::Create && one.request_bytes == 19)
    );
}

#[tokio::test]
async fn an_error_names_operation_document_partition_and_status() {
    let body = json!({"code": "Conflict", "message": "Entity with the specified id\nalready exists"});
    let server = Scripted::playing(vec![answer(409).saying(body)]).await;
    let error = server
        .container()
        .create(&pk("part-1"), &json!({"id": "doc-1"}), Retry::Once)
        .await
        .unwrap_err();
    let message = error.to_string();
    for part in ["create", "`doc-1`", "`part-1`", "`db/things`", "409", "already exists"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert!(!format!("{error:?} {message}").contains(support::KEY));
}

fn two() -> Batch {
    let mut batch = Batch::new();
    batch
        .create("a", &json!({"id": "a"}))
        .unwrap()
        .create("b", &json!({"id": "b"}))
        .unwrap();
    batch
}
