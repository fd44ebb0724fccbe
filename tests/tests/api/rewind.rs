//! Rewinding and forking through the API.

use duroxide_lambda_api::types::ProblemType;
use serde_json::json;
use tests::api::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_instance_is_rewound_and_shows_what_was_undone() {
    let site = Site::start().await;
    site.post("/v1/instances/none:rewind", json!({}))
        .await
        .is_problem(ProblemType::NotFound);
    site.started("Echo", "a", json!("x")).await;
    site.post("/v1/instances/a:rewind", json!({}))
        .await
        .is_problem(ProblemType::WrongState);
    site.post("/v1/instances/a:cancel", json!({"reason": "by mistake"}))
        .await
        .is(202);
    site.cloud.drain().await;
    assert_eq!(site.get("/v1/instances/a").await.is(200)["status"], "Cancelled");

    let planned = site
        .post("/v1/instances/a:rewind", json!({"dryRun": true}))
        .await
        .is(200);
    assert_eq!((&planned["dryRun"], &planned["instance"]), (&json!(true), &json!("a")));
    assert_eq!(site.get("/v1/instances/a").await.is(200)["status"], "Cancelled");
    let rewound = site
        .post("/v1/instances/a:rewind", json!({"reason": "it was wanted"}))
        .await
        .is(202);
    assert_eq!(
        (&rewound["dryRun"], &rewound["undone"]),
        (&json!(false), &planned["undone"])
    );
    site.cloud.drain().await;
    let shown = site.get("/v1/instances/a").await.is(200);
    assert_eq!(shown["status"], "Completed", "{shown}");
    let rewind = &shown["rewinds"][0];
    assert_eq!(
        (&rewind["number"], &rewind["reason"], &rewind["cancelled"]),
        (&json!(1), &json!("it was wanted"), &json!(true))
    );
    let history = site.get("/v1/instances/a/history").await.is(200);
    assert_eq!(history["rewinds"], 1);
    let undone = site.get("/v1/instances/a/history?undone=1").await.is(200);
    assert_eq!(undone["undone"]["number"], 1);
    assert!(undone["events"].to_string().contains("by mistake"), "{undone}");
    let first = site.get("/v1/instances/a/history?undone=1&limit=1").await.is(200);
    assert_eq!(first["events"].as_array().map(Vec::len), Some(1));
    assert_eq!(first["nextAfter"], first["events"][0]["event_id"]);
    site.get("/v1/instances/a/history?undone=2")
        .await
        .is_problem(ProblemType::NotFound);
    site.post("/v1/instances/a:rewind", json!({}))
        .await
        .is_problem(ProblemType::WrongState);
    let explained = site.get("/v1/instances/a/explain").await.is(200);
    assert!(
        explained["evidence"].to_string().contains("it was wanted"),
        "{explained}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_forked() {
    let site = Site::start().await;
    site.post("/v1/instances/none:fork", json!({"newId": "b"}))
        .await
        .is_problem(ProblemType::NotFound);
    site.started("Echo", "a", json!("x")).await;
    site.cloud.drain().await;
    let source = site.get("/v1/instances/a").await.is(200);
    assert_eq!(source["status"], "Completed");
    let planned = site
        .post("/v1/instances/a:fork", json!({"newId": "b", "dryRun": true}))
        .await
        .is(200);
    assert_eq!((&planned["instance"], &planned["source"]), (&json!("b"), &json!("a")));
    site.get("/v1/instances/b").await.is_problem(ProblemType::NotFound);
    site.post("/v1/instances/a:fork", json!({"newId": "b", "at": 1, "input": "y"}))
        .await
        .is(202);
    site.cloud.drain().await;
    let made = site.get("/v1/instances/b").await.is(200);
    assert_eq!(
        (&made["status"], &made["forkedFrom"]["instance"]),
        (&json!("Completed"), &json!("a"))
    );
    assert_ne!(made["output"], source["output"], "it had another input");
    site.post("/v1/instances/a:fork", json!({"newId": "b"}))
        .await
        .is_problem(ProblemType::InstanceExists);
    for body in [
        json!({}),
        json!({"newId": ""}),
        json!({"newId": "c", "results": [{"event": 1, "result": 1}]}),
        json!({"newId": "c", "version": "two"}),
        json!({"newId": "c", "input": 1, "inputText": "1"}),
    ] {
        site.post("/v1/instances/a:fork", body)
            .await
            .is_problem(ProblemType::InvalidRequest);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_not_understood_rewinds_nothing() {
    let site = Site::start().await;
    site.started("Echo", "a", json!("x")).await;
    for body in [
        json!({"befor": 3}),
        json!({"before": 0}),
        json!({"reason": "x".repeat(1025)}),
        json!({"alone": "yes"}),
    ] {
        site.post("/v1/instances/a:rewind", body)
            .await
            .is_problem(ProblemType::InvalidRequest);
    }
}
