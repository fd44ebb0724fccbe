//! The function URL of the local cloud: HTTP requests become invocations, and their answers responses.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use local_cloud::{Cloud, CloudOptions, FunctionCounts};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use std::time::Duration;

/// A megabyte.
const MB: usize = 1024 * 1024;

struct Stage {
    cloud: Cloud,
    http: reqwest::Client,
}

impl Stage {
    async fn set(change: impl FnOnce(&mut CloudOptions)) -> Result<Stage> {
        let mut options = CloudOptions::of(fake_functions());
        change(&mut options);
        let http = reqwest::Client::builder().no_proxy().build()?;
        let cloud = Cloud::start(options).await?;
        Ok(Stage { cloud, http })
    }

    fn request(&self, method: Method, target: &str) -> Result<RequestBuilder> {
        let address = self.cloud.api().context("a function URL")?;
        Ok(self.http.request(method, format!("{address}{target}")))
    }

    /// The event that the function was given.
    async fn event(&self, request: RequestBuilder) -> Result<Value> {
        let answer = request.send().await?;
        ensure!(answer.status() == 200, "{answer:?}");
        Ok(json_of(answer).await?["event"].clone())
    }

    /// The response to an answer of the function.
    async fn reply(&self, answer: &str) -> Result<Response> {
        let request = self.request(Method::POST, "/?do=reply")?;
        Ok(request
            .header("content-type", "text/plain")
            .body(answer.to_owned())
            .send()
            .await?)
    }

    fn counts(&self) -> FunctionCounts {
        self.cloud.status().functions["api"].counts
    }

    fn is_busy(&self) -> bool {
        let status = self.cloud.status();
        status.functions["api"].environments.iter().any(|one| one.busy)
    }
}

async fn json_of(response: Response) -> Result<Value> {
    Ok(serde_json::from_slice(&response.bytes().await?)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_becomes_an_event_in_payload_format_2() -> Result<()> {
    let stage = Stage::set(|_| {}).await?;
    let request = stage
        .request(
            Method::PUT,
            "/v1/instances/a%2Fb%20%22%F0%9F%8E%81?tag=k%3Av&tag=x&empty=",
        )?
        .header("X-Many", "one")
        .header("X-Many", "two")
        .header("cookie", "a=1; b=2")
        .header("content-type", "application/json")
        .body("{\"city\": \"Tromsø\"}");
    let event = stage.event(request).await?;
    ensure!(event["version"] == "2.0", "{event}");
    ensure!(
        event["rawPath"] == "/v1/instances/a%2Fb%20%22%F0%9F%8E%81",
        "the encoding is kept: {event}"
    );
    ensure!(event["rawQueryString"] == "tag=k%3Av&tag=x&empty=", "{event}");
    ensure!(event["queryStringParameters"]["tag"] == "k:v,x", "{event}");
    ensure!(event["headers"]["x-many"] == "one,two", "{event}");
    ensure!(
        event["cookies"] == json!(["a=1", "b=2"]) && event["headers"].get("cookie").is_none(),
        "{event}"
    );
    ensure!(event["requestContext"]["http"]["method"] == "PUT", "{event}");
    ensure!(
        event["isBase64Encoded"] == false && event["body"] == "{\"city\": \"Tromsø\"}",
        "{event}"
    );
    let binary: Vec<u8> = (0..=255).collect();
    let request = stage.request(Method::POST, "/upload")?.body(binary.clone());
    let event = stage.event(request).await?;
    ensure!(event["isBase64Encoded"] == true, "{event}");
    ensure!(
        STANDARD.decode(event["body"].as_str().context("a body")?)? == binary,
        "{event}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_becomes_a_response() -> Result<()> {
    let stage = Stage::set(|_| {}).await?;
    let answer = json!({
        "statusCode": 418,
        "headers": { "content-type": "application/octet-stream", "x-tea": "green" },
        "cookies": ["a=1; HttpOnly", "b=2"],
        "body": STANDARD.encode([0_u8, 255, 10]),
        "isBase64Encoded": true,
    });
    let response = stage.reply(&answer.to_string()).await?;
    ensure!(
        response.status() == 418 && response.headers()["x-tea"] == "green",
        "{response:?}"
    );
    let cookies: Vec<_> = response.headers().get_all("set-cookie").iter().collect();
    ensure!(cookies == ["a=1; HttpOnly", "b=2"], "{cookies:?}");
    ensure!(response.bytes().await?.as_ref() == [0, 255, 10]);
    // The short form: any JSON without a status.
    let response = stage.reply(r#"{"message": "hello"}"#).await?;
    ensure!(
        response.status() == 200 && response.headers()["content-type"] == "application/json",
        "{response:?}"
    );
    ensure!(json_of(response).await? == json!({ "message": "hello" }));
    for invalid in [
        "no JSON",
        r#"{"statusCode": "many"}"#,
        r#"{"statusCode": 200, "body": 7}"#,
    ] {
        let response = stage.reply(invalid).await?;
        ensure!(response.status() == 502, "{invalid}: {response:?}");
        ensure!(response.bytes().await? == "Internal Server Error");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_the_function_are_502_without_a_reason() -> Result<()> {
    let stage = Stage::set(|_| {}).await?;
    for order in ["fail", "crash", "large"] {
        let response = stage.request(Method::GET, &format!("/?do={order}"))?.send().await?;
        ensure!(response.status() == 502, "{order}: {response:?}");
        ensure!(response.bytes().await? == "Internal Server Error", "{order}");
    }
    let response = stage.request(Method::GET, "/")?.send().await?;
    ensure!(response.status() == 200, "another environment serves: {response:?}");
    ensure!(stage.counts().errors == 3, "{:?}", stage.counts());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_the_limit_of_environments_are_429() -> Result<()> {
    let stage = Stage::set(|options| options.api_concurrency = 1).await?;
    let long = stage.request(Method::GET, "/?do=sleep&seconds=600")?;
    let waiting = tokio::spawn(long.send());
    until("it is busy", || stage.is_busy()).await?;
    let response = stage.request(Method::GET, "/")?.send().await?;
    ensure!(response.status() == 429, "{response:?}");
    ensure!(
        response.headers()["x-amzn-errortype"] == "TooManyRequestsException",
        "{response:?}"
    );
    let counts = stage.counts();
    ensure!(
        (counts.invocations, counts.throttles, counts.errors) == (1, 1, 0),
        "a refused request is no invocation: {counts:?}"
    );
    waiting.abort();
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_takes_too_long_is_504() -> Result<()> {
    let stage = Stage::set(|options| options.timeout = Duration::from_secs(2)).await?;
    let response = stage.request(Method::GET, "/?do=sleep&seconds=600")?.send().await?;
    ensure!(response.status() == 504, "{response:?}");
    ensure!(stage.counts().timeouts == 1, "{:?}", stage.counts());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_does_not_fit_an_event_is_413_and_no_invocation() -> Result<()> {
    let stage = Stage::set(|_| {}).await?;
    let post = |bytes: usize, kind: &'static str| -> Result<RequestBuilder> {
        let request = stage.request(Method::POST, "/")?;
        Ok(request.header("content-type", kind).body(vec![b'x'; bytes]))
    };
    // In base64 it would be larger than the limit; as text it is not.
    for (bytes, kind, status) in [(5 * MB, "application/octet-stream", 413), (7 * MB, "text/plain", 413)] {
        let response = post(bytes, kind)?.send().await?;
        ensure!(response.status() == status, "{bytes} {kind}: {response:?}");
        ensure!(
            response.headers()["x-amzn-errortype"] == "RequestTooLargeException",
            "{response:?}"
        );
    }
    ensure!(stage.counts().invocations == 0, "{:?}", stage.counts());
    // The echo is larger than the event and just fits an answer.
    let response = post(5 * MB, "text/plain")?.send().await?;
    ensure!(response.status() == 200, "{response:?}");
    let echoed = json_of(response).await?["event"]["body"].as_str().map(str::len);
    ensure!(echoed == Some(5 * MB), "{echoed:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_without_the_api_has_no_function_url() -> Result<()> {
    let stage = Stage::set(|options| options.functions.api = None).await?;
    ensure!(stage.cloud.api().is_none());
    ensure!(!stage.cloud.status().functions.contains_key("api"));
    Ok(())
}
