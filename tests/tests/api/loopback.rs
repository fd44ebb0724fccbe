//! Without authentication: programs on this machine, and no web page of another site.

use duroxide_lambda_api::types::ProblemType;
use serde_json::json;
use tests::api::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_sites_and_rebound_names_are_refused() {
    let site = Site::start().await;
    let start = || request("POST", "/v1/orchestrations/Echo/instances", Some(json!({"input": 1})));
    for (name, value) in [
        ("host", "evil.example"),
        ("host", "localhost.evil.example:9401"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        site.send(with(start(), name, value))
            .await
            .is_problem(ProblemType::Forbidden);
    }
    let mut nameless = start();
    nameless.headers_mut().remove("host");
    site.send(nameless).await.is_problem(ProblemType::Forbidden);
    assert_eq!(site.listener.counts().requests, 0);
    for (name, value) in [
        ("host", "localhost:9401"),
        ("host", "[::1]:9401"),
        ("origin", "http://127.0.0.1:9401"),
    ] {
        site.send(with(start(), name, value)).await.is(202);
    }
}
