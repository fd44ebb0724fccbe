//! Every id that duroxide takes works.

use duroxide_lambda_api::types::ProblemType;
use serde_json::json;
use tests::api::*;

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_with_slashes_quotes_emoji_and_verbs_work_everywhere() {
    let site = Site::start().await;
    let long = "é".repeat(512);
    for id in [
        "a/b",
        "\"quoted\"",
        "😀 family",
        "x:cancel",
        "100%",
        "..",
        "a?b#c",
        "back\\slash",
        "new\nline",
        &long,
    ] {
        let sent = encoded(id);
        let reply = site.post("/v1/orchestrations/Event/instances", json!({"id": id})).await;
        reply.is(202);
        site.cloud.drain().await;
        let by_location = site.get(reply.header("location")).await.is(200);
        assert_eq!(
            (&by_location["instance"], &by_location["status"]),
            (&json!(id), &json!("Running"))
        );
        for part in ["history", "tree", "kv", "executions", "stats"] {
            site.get(&format!("/v1/instances/{sent}/{part}")).await.is(200);
        }
        let parent = site.get(&format!("/v1/instances?prefix={sent}")).await.is(200);
        assert_eq!(parent["instances"][0]["instance"], id);
        site.post(
            &format!("/v1/instances/{sent}/events/{}", encoded("other/😀")),
            json!({}),
        )
        .await
        .is(202);
        site.post(&format!("/v1/instances/{sent}:cancel"), json!({}))
            .await
            .is(202);
        site.cloud.drain().await;
        assert_eq!(
            site.get(&format!("/v1/instances/{sent}")).await.is(200)["status"],
            "Cancelled",
            "{id}"
        );
        site.delete(&format!("/v1/instances/{sent}")).await.is(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_ends_like_a_verb_is_not_taken_for_one() {
    let site = Site::start().await;
    for id in ["x", "x:cancel"] {
        site.ran("Event", id, json!(null)).await;
    }
    site.post("/v1/instances/x%3Acancel", json!({}))
        .await
        .is_problem(ProblemType::NoSuchRoute);
    site.post("/v1/instances/x:cancel:cancel", json!({})).await.is(202);
    site.cloud.drain().await;
    assert_eq!(site.get("/v1/instances/x:cancel").await.is(200)["status"], "Cancelled");
    assert_eq!(site.get("/v1/instances/x").await.is(200)["status"], "Running");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_that_cannot_be_are_refused_or_not_found() {
    let site = Site::start().await;
    for id in ["", &"x".repeat(1025)] {
        let reply = site.post("/v1/orchestrations/Echo/instances", json!({"id": id})).await;
        reply.is_problem(ProblemType::InvalidRequest);
    }
    let long = "x".repeat(3000);
    site.get(&format!("/v1/instances/{long}"))
        .await
        .is_problem(ProblemType::NotFound);
    site.post(&format!("/v1/instances/{long}/events/e"), json!({}))
        .await
        .is_problem(ProblemType::NotFound);
    site.delete(&format!("/v1/instances/{long}"))
        .await
        .is_problem(ProblemType::NotFound);
    site.get(&format!("/v1/dead-letters/{long}/dead:t:1"))
        .await
        .is_problem(ProblemType::NotFound);
    site.get("/v1/instances/%FF")
        .await
        .is_problem(ProblemType::InvalidRequest);
}
