//! Restarts and batches through the API.

use duroxide_lambda_api::types::ProblemType;
use http::Request;
use serde_json::{Value, json};
use tests::api::*;

fn keyed(path: &str, key: &str, body: Value) -> Request<axum::body::Body> {
    with(request("POST", path, Some(body)), "idempotency-key", key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_restarted_as_a_new_one_and_in_place() {
    let site = Site::start().await;
    site.post("/v1/instances/none:restart", json!({}))
        .await
        .is_problem(ProblemType::NotFound);
    site.started("Echo", "a", json!("x")).await;
    site.post("/v1/instances/a:restart", json!({"inPlace": true}))
        .await
        .is_problem(ProblemType::StillRunning);
    site.cloud.drain().await;
    let new = site.post("/v1/instances/a:restart", json!({"newId": "b"})).await;
    assert_eq!(new.header("location"), "/v1/instances/b");
    assert_eq!(
        new.is(202),
        json!({"instance": "b", "restartedFrom": "a", "execution": 1, "repeated": false})
    );
    let again = site
        .post("/v1/instances/a:restart", json!({"inPlace": true}))
        .await
        .is(202);
    assert_eq!((&again["instance"], &again["execution"]), (&json!("a"), &json!(2)));
    site.cloud.drain().await;
    let b = site.get("/v1/instances/b").await.is(200);
    assert_eq!((&b["status"], &b["restartedFrom"]), (&json!("Completed"), &json!("a")));
    let a = site.get("/v1/instances/a").await.is(200);
    assert_eq!((&a["status"], &a["execution"]), (&json!("Completed"), &json!(2)));
    assert_eq!(a["output"], b["output"], "the same input");
    let executions = site.get("/v1/instances/a/executions").await.is(200);
    assert_eq!(
        executions["executions"].as_array().map(Vec::len),
        Some(2),
        "{executions}"
    );
    site.post("/v1/instances/a:restart", json!({"newId": "b"}))
        .await
        .is_problem(ProblemType::InstanceExists);

    let restart = || keyed("/v1/instances/a:restart", "k", json!({}));
    let first = site.send(restart()).await.is(202);
    let second = site.send(restart()).await.is(202);
    assert_eq!(
        (&second["instance"], &second["repeated"]),
        (&first["instance"], &json!(true))
    );
    site.send(keyed("/v1/instances/a:restart", "k", json!({"version": "1.0.0"})))
        .await
        .is_problem(ProblemType::KeyReused);
    for wrong in [
        json!({"inPlace": true, "newId": "c"}),
        json!({"alone": true}),
        json!({"newId": ""}),
        json!({"id": "c"}),
    ] {
        site.post("/v1/instances/a:restart", wrong)
            .await
            .is_problem(ProblemType::InvalidRequest);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_tried_begun_followed_and_listed() {
    let site = Site::start().await;
    for n in 0..5 {
        site.ran("Echo", &format!("i-{n}"), json!(n)).await;
    }
    site.started("Inbox", "open", json!(1)).await;
    site.cloud.drain().await;
    let filter = json!({"prefix": "i-"});
    let dry = site
        .post(
            "/v1/batches",
            json!({"filter": filter, "action": "delete", "dryRun": true}),
        )
        .await;
    let location = dry.header("location").to_owned();
    assert_eq!(dry.is(202)["state"], "Running");
    site.cloud.drain().await;
    let dry = site.get(&location).await.is(200);
    assert_eq!(
        (&dry["state"], &dry["counts"]["changed"]),
        (&json!("Completed"), &json!(5))
    );
    assert_eq!(dry["byStatus"], json!({"Completed": 5}));
    assert_eq!(site.get("/v1/counts").await.is(200)["total"], 6, "nothing has changed");

    let body = json!({"filter": {"all": true}, "action": "delete", "rate": 500});
    let begun = site.send(keyed("/v1/batches", "k", body.clone())).await.is(202);
    let again = site.send(keyed("/v1/batches", "k", body)).await.is(202);
    assert_eq!((&again["batch"], &again["repeated"]), (&begun["batch"], &json!(true)));
    site.send(keyed(
        "/v1/batches",
        "k",
        json!({"filter": {"all": true}, "action": "cancel"}),
    ))
    .await
    .is_problem(ProblemType::KeyReused);
    site.cloud.drain().await;
    let path = format!("/v1/batches/{}", begun["batch"].as_str().expect("an id"));
    let done = site.get(&path).await.is(200);
    assert_eq!(done["state"], "Completed", "{done}");
    assert_eq!(
        done["counts"],
        json!({"examined": 6, "changed": 5, "unchanged": 0, "gone": 0, "failed": 1})
    );
    assert!(done["by"].is_string(), "{done}");
    let failures = site.get(&format!("{path}/failures")).await.is(200);
    assert_eq!(
        failures,
        json!({"failures": [{"instance": "open", "reason": "it has not ended"}]})
    );
    assert_eq!(site.get("/v1/counts").await.is(200)["total"], 1);
    let listed = site.get("/v1/batches?limit=1").await.is(200);
    assert_eq!(listed["batches"][0]["batch"], begun["batch"]);
    assert!(listed["nextCursor"].is_string(), "{listed}");
    site.post(&format!("{path}:cancel"), json!({}))
        .await
        .is_problem(ProblemType::WrongState);
    site.get("/v1/batches/none").await.is_problem(ProblemType::NotFound);
    site.get("/v1/batches/none/failures")
        .await
        .is_problem(ProblemType::NotFound);
    site.post("/v1/batches/none:cancel", json!({}))
        .await
        .is_problem(ProblemType::NotFound);
    site.post(&format!("{path}:pause"), json!({}))
        .await
        .is_problem(ProblemType::NoSuchRoute);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_cancelled_before_it_has_done_anything() {
    let site = Site::start().await;
    site.started("Inbox", "open", json!(1)).await;
    let begun = site
        .post("/v1/batches", json!({"filter": {"name": "Inbox"}, "action": "cancel"}))
        .await
        .is(202);
    let path = format!("/v1/batches/{}", begun["batch"].as_str().expect("an id"));
    let cancelled = site.post(&format!("{path}:cancel"), json!({})).await.is(202);
    assert_eq!(cancelled["state"], "Cancelling");
    site.cloud.drain().await;
    let ended = site.get(&path).await.is(200);
    assert_eq!(
        (&ended["state"], &ended["counts"]["examined"]),
        (&json!("Cancelled"), &json!(0))
    );
    assert_eq!(site.get("/v1/instances/open").await.is(200)["status"], "Running");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_not_understood_begins_no_batch() {
    let site = Site::start().await;
    for wrong in [
        json!({"action": "pause"}),
        json!({"filter": {}, "action": "pause"}),
        json!({"filter": {"all": true, "name": "x"}, "action": "pause"}),
        json!({"filter": {"versions": "1"}, "action": "pause"}),
        json!({"filter": {"status": "Dreaming"}, "action": "pause"}),
        json!({"filter": {"all": true}, "action": "explode"}),
        json!({"filter": {"all": true}, "action": "pause", "force": true}),
        json!({"filter": {"all": true}, "action": "raise"}),
        json!({"filter": {"all": true}, "action": "pause", "rate": 0}),
        json!({"filter": {"all": true}, "action": "raise", "event": "e", "dataText": "x".repeat(70_000)}),
    ] {
        site.post("/v1/batches", wrong.clone())
            .await
            .is_problem(ProblemType::InvalidRequest);
    }
    assert_eq!(site.get("/v1/batches").await.is(200), json!({"batches": []}));
    for cursor in [
        "x",
        "1",
        "1-",
        "-1",
        "1-x",
        "99999999999999999999-1",
        "1-99999999",
        "%C3%BA%0F6",
    ] {
        let reply = site.get(&format!("/v1/batches?cursor={cursor}")).await;
        reply.is_problem(ProblemType::InvalidRequest);
    }
    site.get("/v1/batches?cursor=5-1").await.is(200);
}
