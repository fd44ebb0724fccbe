//! Each route, with the answers of its row in the table.

use duroxide_lambda_api::routes::ROUTES;
use duroxide_lambda_api::types::{Instance, ProblemType, Started, Status};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tests::api::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_is_accepted_and_its_instance_ends_with_an_output() {
    let site = Site::start().await;
    let body = json!({"id": "order-7", "input": {"n": 1.50}, "tags": {"customer": "ada"}});
    let reply = site.post("/v1/orchestrations/Echo/instances", body).await;
    let started: Started = serde_json::from_value(reply.is(202)).expect("the documented type");
    assert_eq!((started.instance.as_str(), started.repeated), ("order-7", false));
    assert_eq!(reply.header("location"), "/v1/instances/order-7");

    let pending = site.get("/v1/instances/order-7").await.is(200);
    assert_eq!(
        (&pending["status"], &pending["input"]),
        (&json!("Pending"), &Value::Null)
    );
    let with_input = site.get("/v1/instances/order-7?includeInput=true").await.is(200);
    assert_eq!(with_input["input"], json!({"n": 1.5}));

    site.cloud.drain().await;
    let reply = site.get("/v1/instances/order-7").await;
    let ended: Instance = serde_json::from_value(reply.is(200)).expect("the documented type");
    assert_eq!(
        (ended.status, ended.orchestration.as_str()),
        (Status::Completed, "Echo")
    );
    assert_eq!(ended.output.expect("an output").json(), "{\"n\":1.5}");
    assert_eq!(ended.tags["customer"], "ada");
    assert!(ended.duration_ms.is_some() && ended.version.is_some() && ended.completed_at.is_some());
    let raw = site.get("/v1/instances/order-7?raw=true").await.is(200);
    assert_eq!(raw["output"], json!("{\"n\":1.5}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_that_is_no_json_arrives_as_it_is() {
    let site = Site::start().await;
    for (id, text) in [
        ("plain", "hello"),
        ("broken", "{\"a\":"),
        ("empty", ""),
        ("quoted", "\"q\""),
        ("lines", "a\n\u{1F600}"),
    ] {
        let body = json!({"id": id, "inputText": text});
        site.post("/v1/orchestrations/Echo/instances", body).await.is(202);
        site.cloud.drain().await;
        let raw = site.get(&format!("/v1/instances/{id}?raw=true")).await.is(200);
        assert_eq!(raw["output"], text, "{id}");
    }
    assert_eq!(site.get("/v1/instances/plain").await.is(200)["output"], "hello");
    assert_eq!(site.get("/v1/instances/quoted").await.is(200)["output"], "q");
    let null = json!({"id": "null", "input": null});
    site.post("/v1/orchestrations/Echo/instances", null).await.is(202);
    site.cloud.drain().await;
    let shown = site.get("/v1/instances/null").await;
    assert!(shown.text().contains("\"output\":null"), "{}", shown.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_is_taken_is_refused() {
    let site = Site::start().await;
    site.started("Echo", "a", json!(1)).await;
    let again = json!({"id": "a", "input": 1});
    site.post("/v1/orchestrations/Echo/instances", again)
        .await
        .is_problem(ProblemType::InstanceExists);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_instance_has_its_error() {
    let site = Site::start().await;
    site.ran("Refuse", "a", json!("x")).await;
    let failed = site.get("/v1/instances/a").await.is(200);
    assert_eq!(failed["status"], "Failed");
    assert!(
        failed["error"].as_str().is_some_and(|error| error.contains("refused")),
        "{failed}"
    );
    assert_eq!(failed.get("output"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_and_messages_reach_an_instance_until_it_has_ended() {
    let site = Site::start().await;
    site.ran("Event", "e", json!(null)).await;
    site.ran("Inbox", "q", json!(1)).await;
    let sent = site
        .post("/v1/instances/e/events/Go", json!({"data": {"by": "ada"}}))
        .await
        .is(202);
    assert_eq!(sent, json!({"instance": "e", "repeated": false}));
    site.post("/v1/instances/q/queues/inbox", json!({"dataText": "7"}))
        .await
        .is(202);
    site.cloud.drain().await;
    assert_eq!(
        site.get("/v1/instances/e").await.is(200)["output"],
        json!({"by": "ada"})
    );
    assert_eq!(site.get("/v1/instances/q").await.is(200)["output"], json!([7]));
    for path in ["/v1/instances/e/events/Go", "/v1/instances/q/queues/inbox"] {
        site.post(path, json!({})).await.is_problem(ProblemType::InstanceEnded);
    }
    for path in ["/v1/instances/x/events/Go", "/v1/instances/x/queues/inbox"] {
        site.post(path, json!({})).await.is_problem(ProblemType::NotFound);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_cancelled_once() {
    let site = Site::start().await;
    site.ran("Event", "a", json!(null)).await;
    site.post("/v1/instances/a:cancel", json!({"reason": "enough"}))
        .await
        .is(202);
    site.cloud.drain().await;
    let cancelled = site.get("/v1/instances/a").await.is(200);
    assert_eq!(cancelled["status"], "Cancelled");
    assert!(
        cancelled["error"]
            .as_str()
            .is_some_and(|error| error.contains("enough")),
        "{cancelled}"
    );
    site.post("/v1/instances/a:cancel", json!({}))
        .await
        .is_problem(ProblemType::WrongState);
    site.post("/v1/instances/b:cancel", json!({}))
        .await
        .is_problem(ProblemType::NotFound);
    site.post("/v1/instances/a:explode", json!({}))
        .await
        .is_problem(ProblemType::NoSuchRoute);
    site.post("/v1/instances/a", json!({}))
        .await
        .is_problem(ProblemType::NoSuchRoute);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_instance_is_cancelled_with_its_first_turn() {
    let site = Site::start().await;
    site.started("Event", "a", json!(null)).await;
    site.post("/v1/instances/a:cancel", json!({"reason": "enough"}))
        .await
        .is(202);
    site.cloud.drain().await;
    assert_eq!(site.get("/v1/instances/a").await.is(200)["status"], "Cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_has_ended_is_deleted_with_its_children() {
    let site = Site::start().await;
    site.ran("Event", "running", json!(null)).await;
    site.delete("/v1/instances/running")
        .await
        .is_problem(ProblemType::StillRunning);
    site.started("Echo", "pending", json!(1)).await;
    site.delete("/v1/instances/pending")
        .await
        .is_problem(ProblemType::StillRunning);
    assert_eq!(
        site.delete("/v1/instances/pending?force=true").await.is(200)["instances"],
        1
    );
    site.get("/v1/instances/pending")
        .await
        .is_problem(ProblemType::NotFound);
    site.ran("Parent", "p", json!("x")).await;
    site.delete("/v1/instances/p%2Fchild")
        .await
        .is_problem(ProblemType::IsChild);
    let deleted = site.delete("/v1/instances/p").await.is(200);
    assert_eq!(deleted["instances"], 2, "{deleted}");
    site.delete("/v1/instances/p").await.is_problem(ProblemType::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_are_listed_and_pruned() {
    let site = Site::start().await;
    site.ran("Rounds", "r", json!(4)).await;
    let page = site.get("/v1/instances/r/executions?limit=2").await.is(200);
    let numbers = |page: &Value| -> Vec<u64> {
        let executions = page["executions"].as_array().expect("a list").iter();
        executions
            .map(|execution| execution["execution"].as_u64().expect("a number"))
            .collect()
    };
    assert_eq!((numbers(&page), &page["nextAfter"]), (vec![1, 2], &json!(2)));
    assert_eq!(page["executions"][0]["status"], "ContinuedAsNew");
    let rest = site.get("/v1/instances/r/executions?after=2&limit=100").await.is(200);
    assert_eq!((numbers(&rest), rest.get("nextAfter")), (vec![3, 4, 5], None));
    let pruned = site.post("/v1/instances/r:prune", json!({"keep": 2})).await.is(200);
    assert_eq!(pruned["executions"], 3, "{pruned}");
    let kept = site.get("/v1/instances/r/executions").await.is(200);
    assert_eq!(numbers(&kept), [4, 5]);
    site.get("/v1/instances/r/history?execution=1")
        .await
        .is_problem(ProblemType::NotFound);
    site.post("/v1/instances/r:prune", json!({"keep": 0}))
        .await
        .is_problem(ProblemType::InvalidRequest);
    site.post("/v1/instances/x:prune", json!({}))
        .await
        .is_problem(ProblemType::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_is_paged_and_has_the_attempts_of_activities() {
    let site = Site::start().await;
    site.ran("Keys", "k", json!("Kyoto")).await;
    let whole = site.get("/v1/instances/k/history").await.is(200);
    let events = whole["events"].as_array().expect("a list");
    assert!(events.len() > 4, "{whole}");
    assert_eq!(events[0]["type"], "OrchestrationStarted");
    assert_eq!(whole["attempts"][0]["ended"][0]["end"], "completed", "{whole}");
    let (mut seen, mut attempts, mut after) = (Vec::new(), BTreeMap::new(), 0);
    loop {
        let page = site
            .get(&format!("/v1/instances/k/history?limit=2&after={after}"))
            .await
            .is(200);
        seen.extend(page["events"].as_array().expect("a list").clone());
        for of in page["attempts"].as_array().expect("a list") {
            attempts.insert(of["activity"].as_u64(), of.clone());
        }
        match page["nextAfter"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(&seen, events);
    assert_eq!(json!(attempts.into_values().collect::<Vec<_>>()), whole["attempts"]);
    site.get("/v1/instances/k/history?execution=2")
        .await
        .is_problem(ProblemType::NotFound);
    site.started("Echo", "pending", json!(1)).await;
    let none = site.get("/v1/instances/pending/history").await.is(200);
    assert_eq!(none["events"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tree_the_keys_and_the_sizes_of_an_instance_are_shown() {
    let site = Site::start().await;
    site.ran("Parent", "p", json!("x")).await;
    let tree = site.get("/v1/instances/p/tree").await.is(200);
    let ids: Vec<_> = tree["instances"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["instance"].clone())
        .collect();
    assert_eq!(ids, ["p", "p/child"]);
    assert_eq!(tree["instances"][1]["parent"], "p");
    let first = site.get("/v1/instances/p/tree?limit=1").await.is(200);
    assert_eq!(
        (&first["nextAfter"], first["instances"].as_array().map(Vec::len)),
        (&json!("p"), Some(1))
    );
    let second = site.get("/v1/instances/p/tree?limit=1&after=p").await.is(200);
    assert_eq!(
        (&second["instances"][0]["instance"], second.get("nextAfter")),
        (&json!("p/child"), None)
    );

    let keys = site.get("/v1/instances/p%2Fchild/kv").await.is(200);
    assert_eq!(
        keys["values"][0],
        json!({"key": "greeting", "value": "Hello, \"x\"!"}),
        "{keys}"
    );
    let page = site.get("/v1/instances/p%2Fchild/kv?limit=1").await.is(200);
    assert_eq!(page["nextAfter"], "greeting");
    let rest = site.get("/v1/instances/p%2Fchild/kv?after=greeting").await.is(200);
    assert_eq!(rest["values"][0]["key"], "tag:customer");
    let stats = site.get("/v1/instances/p%2Fchild/stats").await.is(200);
    assert_eq!(
        (&stats["keys"], stats["events"].as_u64() > Some(2)),
        (&json!(2), true),
        "{stats}"
    );
    let child = site.get("/v1/instances/p%2Fchild").await.is(200);
    assert_eq!(
        (&child["customStatus"], &child["tags"]),
        (&json!("begun"), &json!({"customer": "ada"}))
    );
    for part in ["history", "tree", "kv", "executions", "stats"] {
        site.get(&format!("/v1/instances/x/{part}"))
            .await
            .is_problem(ProblemType::NotFound);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_overview_and_stats_add_up() {
    let site = Site::start().await;
    for id in ["a", "b"] {
        site.ran("Echo", id, json!(1)).await;
    }
    site.ran("Refuse", "c", json!(1)).await;
    site.ran("Event", "d", json!(1)).await;
    let counts = site.get("/v1/counts").await.is(200);
    assert_eq!(
        counts,
        json!({"total": 4, "counts": [
            {"name": "Echo", "status": "Completed", "count": 2},
            {"name": "Event", "status": "Running", "count": 1},
            {"name": "Refuse", "status": "Failed", "count": 1}
        ]})
    );
    let overview = site.get("/v1/overview").await.is(200);
    assert_eq!(
        (&overview["failedRecently"], &overview["startedRecently"]),
        (&json!(1), &json!(4)),
        "{overview}"
    );
    assert_eq!((&overview["deadLetters"], &overview["blocked"]), (&json!(0), &json!(0)));
    let stats = site.get("/v1/stats").await.is(200);
    assert_eq!(
        (&stats["total"], &stats["completed"], &stats["executions"]),
        (&json!(4), &json!(2), &json!(4)),
        "{stats}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintenance_runs_the_passes_that_are_requested() {
    let site = Site::start().await;
    let all = site.post("/v1/maintenance", json!({})).await.is(200);
    assert_eq!(all["passes"].as_object().map(serde_json::Map::len), Some(6), "{all}");
    let some = site
        .post("/v1/maintenance", json!({"passes": ["outbox", "report"]}))
        .await
        .is(200);
    assert_eq!(
        (&some["store"]["deadLetters"], &some["leftOver"]),
        (&json!(0), &json!(false)),
        "{some}"
    );
    for wrong in [
        json!({"passes": ["tidy"]}),
        json!({"passes": []}),
        json!({"pageSize": 0}),
        json!({"passes": ["retention"]}),
        json!({"deadLetters": {"list": {}}}),
    ] {
        site.post("/v1/maintenance", wrong)
            .await
            .is_problem(ProblemType::InvalidRequest);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_and_the_document_are_for_everybody() {
    let site = Site::with(Options {
        auth: iam(),
        ..Options::default()
    })
    .await;
    assert_eq!(site.get("/v1/health").await.is(200)["status"], "ok");
    let document = site.get("/v1/openapi.json").await;
    assert_eq!(document.is(200)["openapi"], "3.1.0");
    let again = with(
        request("GET", "/v1/openapi.json", None),
        "if-none-match",
        document.header("etag"),
    );
    site.send(again).await.is(304);
    assert_eq!(site.listener.counts().requests, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_of_the_table_exists_and_no_other() {
    let site = Site::start().await;
    for route in ROUTES {
        let path = site.path_of(route).await;
        let body = (route.method == Method::POST).then(|| match route.path {
            "/v1/batches" => json!({"filter": {"all": true}, "action": "resume", "dryRun": true}),
            _ => json!({}),
        });
        let reply = site.send(request(route.method.as_str(), &path, body)).await;
        assert!(
            reply.status.is_success() || reply.text().contains(":problem:not-found"),
            "{route:?}: {}",
            reply.text()
        );
    }
    for path in [
        "/index.html",
        "/dashboard",
        "/v1",
        "/v1/instances/",
        "/v2/instances",
        "/v1/instances/a/b",
        "//v1/health",
    ] {
        site.get(path).await.is_problem(ProblemType::NoSuchRoute);
    }
    for (method, path) in [
        ("PUT", "/v1/instances/a"),
        ("GET", "/v1/maintenance"),
        ("PATCH", "/v1/instances"),
    ] {
        let reply = site.send(request(method, path, None)).await;
        reply.is_problem(ProblemType::MethodNotAllowed);
        assert!(!reply.header("allow").is_empty(), "{method} {path}");
    }
}
