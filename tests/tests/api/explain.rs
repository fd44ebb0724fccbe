//! `explain` over HTTP: the fields, times and commands of an answer.

use duroxide_lambda_api::types::time::parse_rfc3339;
use duroxide_lambda_api::types::{Explanation, ProblemType};
use serde_json::json;
use tests::api::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_explanation_has_a_sentence_a_cause_and_what_to_do() {
    let site = Site::start().await;
    site.ran("Event", "it's a/b", json!(null)).await;
    site.listener.reset();
    let reply = site.get("/v1/instances/it%27s%20a%2Fb/explain").await;
    let json = reply.is(200);
    assert_eq!(site.listener.counts().requests, 2);
    let explained: Explanation = serde_json::from_value(json.clone()).expect("its own type");
    assert!(explained.sentence.starts_with("Waits for event `Go` for "), "{json}");
    assert_eq!(
        (
            explained.cause.as_str(),
            explained.needs_attention,
            explained.status.name()
        ),
        ("event", false, "Running")
    );
    assert!(
        explained.since.as_deref().and_then(parse_rfc3339) <= parse_rfc3339(&explained.at),
        "{json}"
    );
    assert_eq!(
        (json["waits"][0]["kind"].as_str(), json["waits"][0]["name"].as_str()),
        (Some("event"), Some("Go"))
    );
    assert_eq!(json["chain"][0]["instance"], "it's a/b");
    assert_eq!(
        json["next"][0]["command"], "duroxide-lambda raise 'it'\\''s a/b' Go DATA",
        "quoted for a shell"
    );
    assert!(
        json["evidence"].as_array().is_some_and(|facts| !facts.is_empty()),
        "{json}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_instance_and_an_unknown_parameter_are_refused() {
    let site = Site::start().await;
    site.get("/v1/instances/nobody/explain")
        .await
        .is_problem(ProblemType::NotFound);
    site.ran("Echo", "a", json!(1)).await;
    site.get("/v1/instances/a/explain?full=true")
        .await
        .is_problem(ProblemType::InvalidRequest);
    let json = site.get("/v1/instances/a/explain").await.is(200);
    assert_eq!(
        (json["cause"].as_str(), json["status"].as_str()),
        (Some("completed"), Some("Completed"))
    );
}
