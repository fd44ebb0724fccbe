//! A request that is repeated with the same key has its effect once.

use duroxide_lambda_api::types::ProblemType;
use futures::StreamExt as _;
use http::Request;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::api::*;

const START: &str = "/v1/orchestrations/Inbox/instances";

fn keyed(path: &str, key: &str, body: Value) -> Request<axum::body::Body> {
    with(request("POST", path, Some(body)), "idempotency-key", key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_is_repeated_and_another_one_is_refused() {
    let site = Site::start().await;
    let first = site.send(keyed(START, "k1", json!({"input": 1}))).await.is(202);
    let again = site.send(keyed(START, "k1", json!({"input": 1}))).await.is(200);
    assert_eq!(
        (&again["instance"], &again["repeated"]),
        (&first["instance"], &json!(true))
    );
    for other in [
        json!({"input": 2}),
        json!({"input": 1, "tags": {"a": "b"}}),
        json!({"input": 1, "version": "1.0.0"}),
    ] {
        site.send(keyed(START, "k1", other))
            .await
            .is_problem(ProblemType::KeyReused);
    }
    let elsewhere = site
        .send(keyed("/v1/orchestrations/Echo/instances", "k1", json!({"input": 1})))
        .await;
    elsewhere.is_problem(ProblemType::KeyReused);
    let other = site.send(keyed(START, "k2", json!({"input": 1}))).await.is(202);
    assert_ne!(other["instance"], first["instance"]);
    let named = json!({"id": "mine", "input": 1});
    site.send(keyed(START, "k3", named.clone())).await.is(202);
    site.send(keyed(START, "k3", named.clone())).await.is(200);
    site.send(keyed(START, "k4", named))
        .await
        .is_problem(ProblemType::InstanceExists);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_is_recognised_after_its_instance_has_ended() {
    let site = Site::start().await;
    let body = || keyed("/v1/orchestrations/Echo/instances", "late", json!({"input": 1}));
    site.send(body()).await.is(202);
    site.cloud.drain().await;
    assert_eq!(site.send(body()).await.is(200)["repeated"], true);
    site.cloud.drain().await;
    assert_eq!(site.get("/v1/counts").await.is(200)["total"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_concurrent_starts_with_one_key_make_one_instance() {
    let site = Site::start().await;
    let sends = (0..1000).map(|_| site.send(keyed(START, "same", json!({"input": 1}))));
    let replies: Vec<Reply> = futures::stream::iter(sends).buffer_unordered(64).collect().await;
    let accepted = replies.iter().filter(|reply| reply.status == 202).count();
    let repeated = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!((accepted, repeated), (1, 999));
    let ids: BTreeSet<String> = replies
        .iter()
        .map(|reply| reply.json()["instance"].to_string())
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(site.get("/v1/counts").await.is(200)["total"], 1);
    site.cloud.drain().await;
    let instance = site.get("/v1/instances").await.is(200)["instances"][0].clone();
    assert_eq!(
        (&instance["status"], &instance["execution"]),
        (&json!("Running"), &json!(1))
    );
}

/// A client that never hears of its first attempt, whether or not it was carried out, and sends it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_loses_every_other_answer_makes_one_instance_and_one_event() {
    let site = Site::start().await;
    for round in 0..10 {
        let key = format!("round-{round}");
        let start = || keyed(START, &key, json!({"input": 2}));
        // The answer to this one is lost.
        site.send(start()).await;
        let instance = site.send(start()).await.is(200)["instance"]
            .as_str()
            .expect("an id")
            .to_owned();
        site.cloud.drain().await;
        for n in 1..=2 {
            let path = format!("/v1/instances/{instance}/queues/inbox");
            let event = || keyed(&path, &format!("{key}-{n}"), json!({"data": n}));
            site.send(event()).await;
            assert_eq!(site.send(event()).await.is(202)["repeated"], true);
            site.cloud.drain().await;
        }
        let ended = site.get(&format!("/v1/instances/{instance}")).await.is(200);
        assert_eq!(
            (&ended["status"], &ended["output"]),
            (&json!("Completed"), &json!([1, 2])),
            "{ended}"
        );
    }
    assert_eq!(site.get("/v1/counts").await.is(200)["total"], 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_with_one_key_and_other_data_are_refused() {
    let site = Site::start().await;
    site.ran("Inbox", "q", json!(2)).await;
    let path = "/v1/instances/q/queues/inbox";
    site.send(keyed(path, "k", json!({"data": 1}))).await.is(202);
    site.send(keyed(path, "k", json!({"data": 2})))
        .await
        .is_problem(ProblemType::KeyReused);
    let queue = "/v1/instances/q/queues/other";
    site.send(keyed(queue, "k", json!({"data": 1})))
        .await
        .is_problem(ProblemType::KeyReused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_cannot_be_is_refused() {
    let site = Site::start().await;
    for key in ["", &"k".repeat(256), "schlüssel"] {
        let reply = site.send(keyed(START, key, json!({"input": 1}))).await;
        reply.is_problem(ProblemType::InvalidRequest);
    }
    let mut twice = keyed(START, "a", json!({"input": 1}));
    twice
        .headers_mut()
        .append("idempotency-key", "b".parse().expect("a header"));
    site.send(twice).await.is_problem(ProblemType::InvalidRequest);
    assert_eq!(site.listener.counts().requests, 0);
}
