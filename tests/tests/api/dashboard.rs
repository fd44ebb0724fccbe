//! The dashboard: its page and files, what it reads before anybody signs in, and who the caller is.

use crate::issuer::Issuer;
use axum::body::Body;
use duroxide_lambda_api::types::ProblemType;
use flate2::read::GzDecoder;
use http::Request;
use serde_json::json;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;
use tests::ManualClock;
use tests::api::*;

fn compressed(path: &str) -> Request<Body> {
    with(request("GET", path, None), "accept-encoding", "gzip, deflate, br")
}

fn unzipped(reply: &Reply) -> String {
    let mut text = String::new();
    GzDecoder::new(reply.body.as_slice())
        .read_to_string(&mut text)
        .expect("gzip");
    text
}

/// The addresses of files that the page names.
fn files_of(page: &str) -> Vec<String> {
    let named = page.split(['"', '\'']).filter(|part| part.starts_with("dashboard/"));
    named.map(|path| format!("/{path}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_and_every_file_that_it_names_are_served() {
    let site = Site::start().await;
    let page = site.get("/?status=Failed").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(
        (page.header("cache-control"), page.header("content-encoding")),
        ("no-cache", "")
    );
    let files = files_of(&page.text());
    assert!(files.len() > 2, "{files:?}");
    for path in &files {
        let plain = site.get(path).await;
        let zipped = site.send(compressed(path)).await;
        assert_eq!((plain.status.as_u16(), zipped.status.as_u16()), (200, 200), "{path}");
        assert_eq!(zipped.header("content-encoding"), "gzip", "{path}");
        assert_eq!(unzipped(&zipped), plain.text(), "{path}");
        assert!(zipped.body.len() < plain.body.len(), "{path}");
        assert_eq!(zipped.header("vary"), "accept-encoding");
        assert_eq!(zipped.header("cache-control"), "public, max-age=31536000, immutable");
        let kind = match path.rsplit_once('.') {
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            _ => "image/svg+xml",
        };
        assert_eq!(plain.header("content-type"), kind, "{path}");
    }
    assert_eq!(site.listener.counts().requests, 0, "the store is not asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_a_browser_has_is_not_sent_again() {
    let site = Site::start().await;
    let page = site.get("/").await;
    let file = files_of(&page.text()).remove(0);
    for path in ["/", file.as_str()] {
        let first = site.send(compressed(path)).await;
        let again = with(compressed(path), "if-none-match", first.header("etag"));
        let again = site.send(again).await;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0), "{path}");
        assert_eq!(again.header("etag"), first.header("etag"));
        assert_eq!(again.header("cache-control"), first.header("cache-control"));
        let other = with(compressed(path), "if-none-match", "\"other\"");
        assert_eq!(site.send(other).await.status, 200, "{path}");
        let head = site.send(request("HEAD", path, None)).await;
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("etag"), first.header("etag"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_another_version_and_other_files_are_not_found() {
    let site = Site::start().await;
    let version = site.get("/v1/dashboard-config").await.is(200)["version"].clone();
    let version = version.as_str().expect("a version");
    assert_eq!(site.get(&format!("/dashboard/{version}/main.js")).await.status, 200);
    for path in [
        "/dashboard/0123456789ab/main.js".to_owned(),
        format!("/dashboard/{version}/nothing.js"),
        format!("/dashboard/{version}/index.html"),
        format!("/dashboard/{version}/../Cargo.toml"),
        format!("/dashboard/{version}/%2e%2e/Cargo.toml"),
        format!("/dashboard/{version}/core/api.test.js"),
        format!("/dashboard/{version}//main.js"),
        format!("/dashboard/{version}/"),
    ] {
        let reply = site.get(&path).await;
        reply.is_problem(ProblemType::NoSuchRoute);
        assert_eq!(reply.header("cache-control"), "no-store", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_has_a_strict_policy_and_answers_with_data_a_stricter_one() {
    let site = Site::with(Options {
        auth: iam(),
        ..Options::default()
    })
    .await;
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                  form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
    let page = site.get("/").await;
    let file = files_of(&page.text()).remove(0);
    for reply in [&page, &site.get(&file).await] {
        for (name, value) in [
            ("content-security-policy", policy),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("strict-transport-security", "max-age=63072000"),
        ] {
            assert_eq!(reply.header(name), value, "{name}");
        }
    }
    let text = page.text();
    for inline in ["<style", "<script>", " style=", " onclick=", "javascript:"] {
        assert!(!text.contains(inline), "{inline}: {text}");
    }
    let config = site.get("/v1/dashboard-config").await;
    assert_eq!(
        config.header("content-security-policy"),
        "default-src 'none'; frame-ancestors 'none'"
    );
}

/// A name that points to this machine (DNS rebinding) gets the files, which hold no data, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_rebound_name_reads_no_data() {
    let site = Site::start().await;
    let foreign = |path: &str| with(request("GET", path, None), "host", "evil.example");
    assert_eq!(site.send(foreign("/")).await.status, 200);
    assert_eq!(site.send(foreign("/v1/dashboard-config")).await.status, 200);
    for path in ["/v1/me", "/v1/instances", "/v1/overview"] {
        site.send(foreign(path)).await.is_problem(ProblemType::Forbidden);
    }
    assert_eq!(site.listener.counts().requests, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_caller_and_its_role_are_shown() {
    let local = Site::start().await;
    let me = local.get("/v1/me").await.is(200);
    assert_eq!(me, json!({"who": "loopback", "role": "operator"}));
    assert_eq!(local.get("/v1/dashboard-config").await.is(200)["auth"], "none");
    let site = Site::with(Options {
        auth: iam(),
        ..Options::default()
    })
    .await;
    for role in ["reader", "client", "operator"] {
        let who = format!("arn:test:{role}");
        let me = site.send(signed_by(request("GET", "/v1/me", None), &who)).await.is(200);
        assert_eq!(me, json!({"who": who, "role": role}));
    }
    site.get("/v1/me").await.is_problem(ProblemType::Unauthenticated);
    let config = site.get("/v1/dashboard-config").await.is(200);
    assert_eq!((&config["auth"], config.get("signIn")), (&json!("iam"), None));
    site.get("/v1/dashboard-config?x=1")
        .await
        .is_problem(ProblemType::InvalidRequest);
    assert_eq!(site.listener.counts().requests, 0, "the store is not asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_learns_how_to_sign_in_from_the_issuer() {
    let issuer = Issuer::start();
    let clock = Arc::new(ManualClock::default());
    let site = Site::with(Options {
        auth: issuer.auth_with_client(),
        clock: Arc::clone(&clock) as Arc<_>,
        ..Options::default()
    })
    .await;
    let config = site.get("/v1/dashboard-config").await.is(200);
    assert_eq!(config["auth"], "jwt");
    let expected = json!({
        "issuer": issuer.url, "clientId": "dashboard", "scope": "openid shop",
        "authorizationEndpoint": format!("{}/authorize", issuer.url), "tokenEndpoint": "https://tokens.example/token",
    });
    assert_eq!(config["signIn"], expected);
    let connect = format!("connect-src 'self' {} https://tokens.example;", issuer.url);
    let page = site.get("/").await;
    let policy = page.header("content-security-policy");
    assert!(policy.contains(&connect), "{policy}");
    assert_eq!(issuer.discoveries(), 1, "it is kept");
    clock.advance(Duration::from_secs(3_600));
    issuer.more.lock().expect("no panic")["end_session_endpoint"] = json!("https://tokens.example/bye");
    let config = site.get("/v1/dashboard-config").await.is(200);
    assert_eq!(config["signIn"]["endSessionEndpoint"], "https://tokens.example/bye");
    assert_eq!(issuer.discoveries(), 2, "for an hour");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_that_does_not_say_how_to_sign_in_is_asked_again_after_half_a_minute() {
    let issuer = Issuer::start();
    let endpoints = issuer.more.lock().expect("no panic").clone();
    issuer.more.lock().expect("no panic")["token_endpoint"] = json!("http://tokens.example/token");
    let clock = Arc::new(ManualClock::default());
    let site = Site::with(Options {
        auth: issuer.auth_with_client(),
        clock: Arc::clone(&clock) as Arc<_>,
        ..Options::default()
    })
    .await;
    for _ in 0..3 {
        site.get("/v1/dashboard-config")
            .await
            .is_problem(ProblemType::IssuerUnavailable);
        let page = site.get("/").await;
        assert_eq!(page.status, 200, "the page says it");
        assert!(
            page.header("content-security-policy")
                .contains(&format!("'self' {};", issuer.url))
        );
    }
    assert_eq!(issuer.discoveries(), 1);
    *issuer.more.lock().expect("no panic") = endpoints;
    clock.advance(Duration::from_secs(30));
    site.get("/v1/dashboard-config").await.is(200);
    assert_eq!(issuer.discoveries(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_client_the_issuer_is_not_asked() {
    let issuer = Issuer::start();
    let site = Site::with(Options {
        auth: issuer.auth(),
        ..Options::default()
    })
    .await;
    let config = site.get("/v1/dashboard-config").await.is(200);
    assert_eq!((&config["auth"], config.get("signIn")), (&json!("jwt"), None));
    let page = site.get("/").await;
    assert!(page.header("content-security-policy").contains("connect-src 'self';"));
    assert_eq!(issuer.discoveries(), 0);
}
