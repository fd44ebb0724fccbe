//! Pausing and resuming through the API.

use duroxide_lambda_api::types::ProblemType;
use serde_json::json;
use tests::api::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_paused_and_resumed_and_seen_so_everywhere() {
    let site = Site::start().await;
    site.post("/v1/instances/none:pause", json!({}))
        .await
        .is_problem(ProblemType::NotFound);
    site.post("/v1/instances/none:resume", json!({}))
        .await
        .is_problem(ProblemType::NotFound);
    site.started("Echo", "a", json!("x")).await;
    let paused = site
        .post("/v1/instances/a:pause", json!({"reason": "the shop is down"}))
        .await;
    assert_eq!(paused.is(202), json!({"instance": "a", "changed": 1}));
    let again = site.post("/v1/instances/a:pause", json!({"children": true})).await;
    assert_eq!(again.is(202), json!({"instance": "a", "changed": 0}));
    site.cloud.drain().await;
    let shown = site.get("/v1/instances/a").await.is(200);
    assert_eq!(
        (&shown["status"], &shown["paused"]["reason"]),
        (&json!("Paused"), &json!("the shop is down"))
    );
    assert!(
        shown["paused"]["since"]
            .as_str()
            .is_some_and(|since| since.ends_with('Z')),
        "{shown}"
    );
    let listed = site.get("/v1/instances?status=paused").await.is(200);
    assert_eq!(
        (
            &listed["instances"][0]["instance"],
            listed["instances"].as_array().map(Vec::len)
        ),
        (&json!("a"), Some(1))
    );
    let counts = site.get("/v1/counts").await.is(200);
    assert_eq!(
        counts["counts"],
        json!([{"name": "Echo", "status": "Paused", "count": 1}])
    );
    assert_eq!(site.get("/v1/stats").await.is(200)["paused"], 1);
    let overview = site.get("/v1/overview").await.is(200);
    assert_eq!((&overview["paused"], &overview["stuck"]), (&json!(1), &json!(0)));
    let still = site.get("/v1/instances/a?wait=1").await.is(200);
    assert_eq!(still["status"], "Paused", "it is waited for like a running one");

    assert_eq!(
        site.post("/v1/instances/a:resume", json!({})).await.is(202),
        json!({"instance": "a", "changed": 1})
    );
    site.cloud.drain().await;
    let done = site.get("/v1/instances/a").await.is(200);
    assert_eq!((&done["status"], done.get("paused")), (&json!("Completed"), None));
    site.post("/v1/instances/a:pause", json!({}))
        .await
        .is_problem(ProblemType::WrongState);
    site.post("/v1/instances/a:resume", json!({}))
        .await
        .is_problem(ProblemType::WrongState);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_instance_can_be_cancelled_and_deleted() {
    let site = Site::start().await;
    for id in ["a", "b"] {
        site.started("Echo", id, json!("x")).await;
        site.post(&format!("/v1/instances/{id}:pause"), json!({})).await.is(202);
    }
    site.post("/v1/instances/a:cancel", json!({"reason": "enough"}))
        .await
        .is(202);
    site.cloud.drain().await;
    let shown = site.get("/v1/instances/a").await.is(200);
    assert_eq!(
        (&shown["status"], &shown["error"]),
        (&json!("Cancelled"), &json!("canceled: enough"))
    );
    assert_eq!(site.delete("/v1/instances/b").await.status, 409);
    site.delete("/v1/instances/b?force=true").await.is(200);
    site.get("/v1/instances/b").await.is_problem(ProblemType::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_not_understood_pauses_nothing() {
    let site = Site::start().await;
    site.started("Echo", "a", json!("x")).await;
    for body in [
        json!({"child": true}),
        json!({"reason": "x".repeat(1025)}),
        json!({"children": "yes"}),
    ] {
        site.post("/v1/instances/a:pause", body)
            .await
            .is_problem(ProblemType::InvalidRequest);
    }
    site.post("/v1/instances/a:resume", json!({"reason": "x"}))
        .await
        .is_problem(ProblemType::InvalidRequest);
    site.post("/v1/instances/a:stop", json!({}))
        .await
        .is_problem(ProblemType::NoSuchRoute);
    assert_eq!(site.get("/v1/instances/a").await.is(200)["status"], "Pending");
}
