//! What is refused before anything is done, and the headers of every answer.

use duroxide_lambda_api::types::ProblemType;
use duroxide_lambda_api::{MAX_BODY, MAX_TEXT};
use serde_json::json;
use tests::api::*;

const START: &str = "/v1/orchestrations/Echo/instances";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_three_megabytes_is_refused_before_it_is_parsed() {
    let site = Site::start().await;
    for text in [
        "x".repeat(3_000_000),
        json!({"inputText": "x".repeat(3_000_000)}).to_string(),
    ] {
        let mut large = request("POST", START, Some(json!({})));
        *large.body_mut() = text.into();
        site.send(large).await.is_problem(ProblemType::TooLarge);
    }
    let mut announced = with(request("POST", START, Some(json!({}))), "content-length", "3000000");
    *announced.body_mut() = "{}".into();
    site.send(announced).await.is_problem(ProblemType::TooLarge);
    assert_eq!(site.listener.counts().requests, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_input_is_stored_and_a_larger_one_is_refused() {
    let site = Site::start().await;
    let fits = "x".repeat(MAX_TEXT - 2);
    site.post(START, json!({"id": "large", "inputText": fits}))
        .await
        .is(202);
    assert_eq!(
        site.get("/v1/instances/large?includeInput=true").await.is(200)["input"],
        fits
    );
    site.post(START, json!({"inputText": "x".repeat(MAX_TEXT)}))
        .await
        .is_problem(ProblemType::TooLarge);
    // A byte in the body, two in the document.
    let value = format!("{{\"input\":[{}]}}", vec!["\"\""; MAX_BODY / 4].join(","));
    let mut quotes = request("POST", START, Some(json!({})));
    *quotes.body_mut() = value.into();
    site.send(quotes).await.is_problem(ProblemType::TooLarge);
    site.ran("Inbox", "q", json!(1)).await;
    let path = "/v1/instances/q/queues/inbox";
    site.post(path, json!({"dataText": "x".repeat(MAX_TEXT)}))
        .await
        .is_problem(ProblemType::TooLarge);
    site.post(path, json!({"dataText": "x".repeat(MAX_TEXT - 2)}))
        .await
        .is(202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_in_bodies_and_parameters_are_refused() {
    let site = Site::start().await;
    let many: serde_json::Map<_, _> = (0..17).map(|n| (n.to_string(), json!("x"))).collect();
    for body in [
        json!({"inputs": 1}),
        json!({"input": 1, "inputText": "1"}),
        json!({"id": 7}),
        json!({"version": ""}),
        json!({"tags": {"a": 1}}),
        json!({"tags": {"": "x"}}),
        json!({"tags": {"a": ""}}),
        json!({"tags": {"a": "x".repeat(129)}}),
        json!({"tags": many}),
        json!([1]),
    ] {
        site.post(START, body.clone())
            .await
            .is_problem(ProblemType::InvalidRequest);
    }
    for path in [
        "/v1/instances?statuss=Failed",
        "/v1/instances?status=Dreaming",
        "/v1/instances?limit=0",
        "/v1/instances?limit=201",
        "/v1/instances?tag=x",
        "/v1/instances?createdFrom=yesterday",
        "/v1/instances?cursor=nonsense",
        "/v1/instances/a?wait=26",
        "/v1/instances/a?wait=-1",
        "/v1/instances/a?raw=1",
        "/v1/instances/a/history?after=x",
        "/v1/instances/a/kv?prefix=x",
        "/v1/counts?name=x",
        "/v1/dead-letters?cursor=x",
        "/v1/dead-letters?kind=x",
    ] {
        site.get(path).await.is_problem(ProblemType::InvalidRequest);
    }
    let mut form = request("POST", START, None);
    *form.body_mut() = "{}".into();
    site.send(with(form, "content-type", "application/x-www-form-urlencoded"))
        .await
        .is_problem(ProblemType::UnsupportedMediaType);
    assert_eq!(site.listener.counts().requests, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_has_the_security_headers() {
    let site = Site::with(Options {
        auth: iam(),
        ..Options::default()
    })
    .await;
    let reader = |path: &str| signed_by(request("GET", path, None), "arn:test:reader");
    for sent in [
        request("GET", "/v1/health", None),
        request("GET", "/v1/counts", None),
        reader("/v1/counts"),
        reader("/v1/nothing"),
        reader("/v1/maintenance"),
        reader("/v1/instances/x"),
    ] {
        let reply = site.send(sent).await;
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("strict-transport-security", "max-age=63072000"),
        ] {
            assert_eq!(reply.header(name), value, "{}", reply.text());
        }
        assert_eq!(reply.headers.get("access-control-allow-origin"), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cors_is_for_the_configured_origin_alone() {
    let preflight = |origin: &str| {
        let preflight = with(request("OPTIONS", "/v1/counts", None), "origin", origin);
        with(preflight, "access-control-request-method", "GET")
    };
    let configured = Site::with(Options {
        auth: iam(),
        cors_origin: Some("https://app.example".to_owned()),
        ..Options::default()
    })
    .await;
    let allowed = configured.send(preflight("https://app.example")).await;
    assert_eq!(
        (allowed.status.as_u16(), allowed.header("access-control-allow-origin")),
        (204, "https://app.example")
    );
    assert!(
        allowed
            .header("access-control-allow-headers")
            .contains("idempotency-key")
    );
    let call = with(request("GET", "/v1/counts", None), "origin", "https://app.example");
    let reply = configured.send(signed_by(call, "arn:test:reader")).await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("access-control-allow-origin")),
        (200, "https://app.example")
    );
    assert_eq!(reply.header("vary"), "origin");
    let off = Site::with(Options {
        auth: iam(),
        ..Options::default()
    })
    .await;
    for (site, origin) in [
        (&configured, "https://evil.example"),
        (&configured, "null"),
        (&off, "https://app.example"),
    ] {
        let refused = site.send(preflight(origin)).await;
        assert_eq!(refused.headers.get("access-control-allow-origin"), None, "{origin}");
        refused.is_problem(ProblemType::Unauthenticated);
    }
}
