//! `dashboard`: a browser of this machine uses an API that wants signed requests.

use crate::fixture::{Fixture, dead_address};
use crate::server::FakeApi;
use crate::signed::{SECRET, authorization, signature};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// The running command.
struct Proxy {
    child: Child,
    said: Value,
    url: String,
    http: Client,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        // It is gone already, or was killed.
        drop(self.child.wait());
    }
}

impl Proxy {
    async fn start(variables: &BTreeMap<String, String>, arguments: &[&str]) -> Proxy {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duroxide-lambda"));
        command
            .env_clear()
            .envs(variables)
            .arg("dashboard")
            .args(arguments)
            .arg("--json");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let read = move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).unwrap();
            line
        };
        let line = tokio::task::spawn_blocking(read).await.unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        Proxy {
            child,
            url: said["url"].as_str().unwrap().to_owned(),
            said,
            http: Client::builder().no_proxy().build().unwrap(),
        }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let request = self.http.get(format!("{}{path}", self.url));
        let request = headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.unwrap()
    }

    async fn json(&self, path: &str) -> Value {
        json_of(self.get(path, &[]).await).await
    }

    /// The address without the secret.
    fn origin(&self) -> String {
        let end = self.url["http://".len()..].find('/').unwrap() + "http://".len();
        self.url[..end].to_owned()
    }
}

async fn json_of(response: Response) -> Value {
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_gets_the_page_its_files_and_data() {
    let fixture = Fixture::running().await;
    let proxy = Proxy::start(&fixture.variables, &[]).await;
    assert_eq!(
        (&proxy.said["who"], &proxy.said["role"]),
        (&json!("loopback"), &json!("operator"))
    );
    let page = proxy.get("", &[]).await;
    assert_eq!(page.status(), 200);
    assert!(page.headers().contains_key("content-security-policy"));
    assert!(!page.headers().contains_key("strict-transport-security"));
    let page = page.text().await.unwrap();
    let script = page.split('"').find(|part| part.ends_with("/main.js")).unwrap();
    let zipped = proxy.get(script, &[("accept-encoding", "gzip")]).await;
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    let etag = zipped.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(&zipped.bytes().await.unwrap()[..2], [0x1f, 0x8b]);
    assert_eq!(proxy.get(script, &[("if-none-match", &etag)]).await.status(), 304);

    let config = proxy.json("v1/dashboard-config").await;
    assert_eq!((&config["auth"], config["version"].is_string()), (&json!("none"), true));
    let start = proxy
        .http
        .post(format!("{}v1/orchestrations/Echo/instances", proxy.url));
    let start = start.header("content-type", "application/json");
    let start = start
        .header("origin", proxy.origin())
        .header("sec-fetch-site", "same-origin");
    let started = start.body(r#"{"id": "a/b c", "input": 7}"#).send().await.unwrap();
    assert_eq!(started.status(), 202);
    let ended = proxy.json("v1/instances/a%2Fb%20c?wait=20").await;
    assert_eq!(ended["output"], 7, "{ended}");
    let found = proxy.json("v1/instances?prefix=a/b+c").await;
    assert_eq!(found["instances"][0]["instance"], "a/b c", "{found}");
    assert_eq!(proxy.get("v1/instances/none", &[]).await.status(), 404);
    drop(proxy);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_pages_and_whoever_does_not_have_the_address_are_refused() {
    let fixture = Fixture::idle().await;
    let proxy = Proxy::start(&fixture.variables, &[]).await;
    for (name, value) in [
        ("host", "evil.example"),
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let refused = proxy.get("v1/instances", &[(name, value)]).await;
        assert_eq!(refused.status(), 403, "{name} {value}");
    }
    for path in ["/", "/v1/instances", "/v1/me", "/00000000000000000000000000000000/"] {
        let request = proxy.http.get(format!("{}{path}", proxy.origin()));
        assert_eq!(request.send().await.unwrap().status(), 404, "{path}");
    }
    assert_eq!(proxy.get("v1/me", &[]).await.status(), 200);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_signed_and_what_a_browser_says_of_itself_stays_here() {
    let fake = FakeApi::start().await;
    let path = std::env::temp_dir().join(format!("dashboard-profiles-{}.toml", std::process::id()));
    let profile = format!(
        "[there]\nurl = \"{}\"\nauth = \"iam\"\nregion = \"eu-central-1\"\n",
        fake.url
    );
    std::fs::write(&path, profile).unwrap();
    let variables: BTreeMap<String, String> = [
        ("DUROXIDE_LAMBDA_CONFIG", path.to_str().unwrap()),
        ("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    fake.answer(&[
        (200, r#"{"who": "arn:aws:iam::1:user/ada", "role": "reader"}"#),
        (200, r#"{"auth": "iam", "version": "v"}"#),
        (200, r#"{"instances": []}"#),
    ]);
    let proxy = Proxy::start(&variables, &["--profile", "there"]).await;
    std::fs::remove_file(&path).unwrap();
    assert_eq!(proxy.said["role"], "reader");
    assert_eq!(proxy.json("v1/dashboard-config").await["auth"], "none");
    let own = [
        ("cookie", "a=1"),
        ("authorization", "Bearer x"),
        ("referer", "http://127.0.0.1/"),
        ("prefer", "wait=1"),
    ];
    proxy.get("v1/instances?prefix=a+b&tag=k:v", &own).await;
    let requests = fake.take();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        let (credential, signed, is) = authorization(request);
        assert!(credential.contains("AKIAEXAMPLE"), "{credential}");
        assert_eq!(is, signature(request, "eu-central-1", signed));
    }
    let list = &requests[2];
    assert_eq!(list.uri().path(), "/v1/instances");
    assert_eq!(list.headers()["prefer"], "wait=1");
    for name in ["cookie", "referer", "origin"] {
        assert!(!list.headers().contains_key(name), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_api_it_says_so_and_ends() {
    let variables = BTreeMap::from([("DUROXIDE_LAMBDA_URL".to_owned(), dead_address())]);
    let ended = crate::fixture::binary(&variables, &["dashboard"], "").await;
    ended.exits(1).warns("does not answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_it() {
    let fixture = Fixture::idle().await;
    let mut proxy = Proxy::start(&fixture.variables, &[]).await;
    let mut kill = Command::new("kill");
    assert!(
        kill.args(["-TERM", &proxy.child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let status = proxy.child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    fixture.stop().await;
}
