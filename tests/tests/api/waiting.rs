//! Long polls.

use async_trait::async_trait;
use axum::Router;
use duroxide_lambda_api::types::ProblemType;
use duroxide_lambda_api::{Invocation, Timer};
use serde_json::json;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tests::api::*;
use tower::ServiceExt as _;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_when_the_instance_does() {
    let site = Site::start().await;
    let start = request(
        "POST",
        "/v1/orchestrations/Keys/instances",
        Some(json!({"id": "a", "input": "x"})),
    );
    let send = site.send(with(start, "prefer", "wait=25"));
    let drain = async {
        tests::until("the start is there", async || site.cloud.queue.count() > 0).await;
        site.cloud.drain().await;
    };
    let (reply, ()) = tokio::join!(send, drain);
    let started = reply.is(200);
    assert_eq!(
        (&started["ended"]["status"], &started["repeated"]),
        (&json!("Completed"), &json!(false))
    );
    assert_eq!(started["ended"]["output"], "Hello, \"x\"!");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_with_an_etag_ends_when_the_instance_changes() {
    let site = Site::start().await;
    site.ran("Inbox", "a", json!(2)).await;
    let before = site.get("/v1/instances/a").await;
    let wait = with(
        request("GET", "/v1/instances/a?wait=25", None),
        "if-none-match",
        before.header("etag"),
    );
    let change = async {
        site.post("/v1/instances/a/queues/inbox", json!({"data": 1}))
            .await
            .is(202);
        site.cloud.drain().await;
    };
    let (reply, ()) = tokio::join!(site.send(wait), change);
    assert_eq!(reply.is(200)["status"], "Running");
    assert_ne!(reply.header("etag"), before.header("etag"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etag_belongs_to_one_representation() {
    let site = Site::start().await;
    site.ran("Echo", "a", json!(1)).await;
    let plain = site.get("/v1/instances/a").await;
    let raw = site.get("/v1/instances/a?raw=true").await;
    assert_ne!(plain.header("etag"), raw.header("etag"));
    for (path, etag, status) in [
        ("/v1/instances/a", plain.header("etag"), 304),
        ("/v1/instances/a?raw=true", raw.header("etag"), 304),
        ("/v1/instances/a?raw=true", plain.header("etag"), 200),
        ("/v1/instances/a", raw.header("etag"), 200),
        ("/v1/instances/a", "\"other\"", 200),
        ("/v1/instances/a", "*", 200),
    ] {
        let reply = site.send(with(request("GET", path, None), "if-none-match", etag)).await;
        assert_eq!(reply.status, status, "{path} {etag}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_with_an_old_etag_ends_at_once() {
    let timer = Arc::new(Paused::default());
    let site = Site::with(Options {
        timer: Arc::clone(&timer) as Arc<_>,
        ..Options::default()
    })
    .await;
    site.ran("Event", "a", json!(null)).await;
    let wait = with(
        request("GET", "/v1/instances/a?wait=25", None),
        "if-none-match",
        "\"old\"",
    );
    assert_eq!(site.send(wait).await.is(200)["status"], "Running");
    assert!(timer.0.lock().expect("no panic").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_nothing_is_404_at_once() {
    let timer = Arc::new(Paused::default());
    let site = Site::with(Options {
        timer: Arc::clone(&timer) as Arc<_>,
        ..Options::default()
    })
    .await;
    site.get("/v1/instances/x?wait=25")
        .await
        .is_problem(ProblemType::NotFound);
    assert!(timer.0.lock().expect("no panic").is_empty());
}

/// A timer during whose pauses an operator deletes the instance.
#[derive(Debug, Default)]
struct Deletes(OnceLock<Router>);

#[async_trait]
impl Timer for Deletes {
    async fn pause(&self, _: Duration) {
        let router = self.0.get().expect("the site is there").clone();
        let delete = request("DELETE", "/v1/instances/a?force=true", None);
        assert_eq!(router.oneshot(delete).await.expect("an answer").status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_when_the_instance_is_deleted() {
    let timer = Arc::new(Deletes::default());
    let site = Site::with(Options {
        timer: Arc::clone(&timer) as Arc<_>,
        ..Options::default()
    })
    .await;
    timer.0.set(site.router.clone()).expect("it is set once");
    site.ran("Event", "a", json!(null)).await;
    let etag = site.get("/v1/instances/a").await.header("etag").to_owned();
    site.get("/v1/instances/a?wait=25")
        .await
        .is_problem(ProblemType::NotFound);
    site.ran("Event", "a", json!(null)).await;
    let known = site.get("/v1/instances/a").await;
    assert_ne!(known.header("etag"), etag);
    let wait = with(
        request("GET", "/v1/instances/a?wait=25", None),
        "if-none-match",
        known.header("etag"),
    );
    site.send(wait).await.is_problem(ProblemType::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_before_its_invocation() {
    let timer = Arc::new(Paused::default());
    let site = Site::with(Options {
        timer: Arc::clone(&timer) as Arc<_>,
        ..Options::default()
    })
    .await;
    site.ran("Event", "a", json!(null)).await;
    let mut wait = request("GET", "/v1/instances/a?wait=25", None);
    wait.extensions_mut().insert(Invocation {
        caller: None,
        deadline: Some(tokio::time::Instant::now() + Duration::from_secs(10)),
    });
    site.send(wait).await.is(200);
    let waited: Duration = timer.0.lock().expect("no panic").iter().sum();
    assert!(
        waited <= Duration::from_secs(8) && waited > Duration::from_secs(1),
        "{waited:?}"
    );
}
