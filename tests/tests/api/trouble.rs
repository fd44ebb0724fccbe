//! A store that is busy, or refuses.

use cosmos_emulator::{Faults, Refusing};
use duroxide_lambda_api::types::ProblemType;
use serde_json::json;
use std::time::Duration;
use tests::api::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttled_store_is_503_with_retry_after_and_a_retry_succeeds() {
    let site = Site::with(Options {
        time: Duration::from_millis(300),
        ..Options::default()
    })
    .await;
    site.listener.set_faults(Faults {
        throttled: 1.0,
        retry_after: Duration::from_millis(50),
        ..Faults::default()
    });
    let start = || {
        let start = request("POST", "/v1/orchestrations/Echo/instances", Some(json!({"input": 1})));
        with(start, "idempotency-key", "k")
    };
    for sent in [
        start(),
        request("GET", "/v1/instances/a", None),
        request("GET", "/v1/counts", None),
    ] {
        let reply = site.send(sent).await;
        let problem = reply.is_problem(ProblemType::StoreUnavailable);
        assert_eq!(reply.header("retry-after"), "1");
        assert!(!problem.detail.contains("127.0.0.1"), "{problem:?}");
    }
    site.listener.clear_faults();
    tests::until("the store answers again", async || {
        site.send(start()).await.status == 202
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusing_store_is_500_without_its_reason() {
    let site = Site::start().await;
    site.listener.refuse_when(|_| Some(Refusing::with(400)));
    let problem = site.get("/v1/instances/a").await.is_problem(ProblemType::Internal);
    assert!(problem.detail.contains("log"), "{problem:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_the_store_lost_do_no_harm() {
    let site = Site::start().await;
    site.listener.set_faults(Faults {
        seed: 7,
        lost_after: 0.5,
        ..Faults::default()
    });
    for n in 0..20 {
        let start = request("POST", "/v1/orchestrations/Inbox/instances", Some(json!({"input": 1})));
        let instance = site.send(with(start, "idempotency-key", &n.to_string())).await;
        let instance = instance.json()["instance"].as_str().expect("an id").to_owned();
        let event = request(
            "POST",
            &format!("/v1/instances/{instance}/queues/inbox"),
            Some(json!({"data": n})),
        );
        site.send(with(event, "idempotency-key", "one")).await.is(202);
    }
    site.listener.clear_faults();
    site.cloud.drain().await;
    let counts = site.get("/v1/counts").await.is(200);
    assert_eq!(
        counts["counts"],
        json!([{"name": "Inbox", "status": "Completed", "count": 20}])
    );
}
