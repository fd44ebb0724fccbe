//! A client for the tests of this crate: it signs and sends requests, and returns the responses. It never retries.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is a failure")]

mod data;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cosmos_emulator::{CosmosServer, Listener, ServerOptions};
use hmac::{Hmac, Mac};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;

#[allow(unused_imports, reason = "each test file uses its own part of this")]
pub use data::{Scratch, all_documents, make, process, start};

pub const DOCS: &str = "/dbs/db/colls/items/docs";
pub const CONTAINER: &str = "/dbs/db/colls/items";

/// A server with the database `db` and the container `items`, partitioned by `/pk`.
pub async fn server() -> (CosmosServer, Client) {
    server_with(ServerOptions::default(), json!({})).await
}

/// The same, with options and further properties of the container.
pub async fn server_with(options: ServerOptions, properties: Value) -> (CosmosServer, Client) {
    let server = CosmosServer::start(options).await.unwrap();
    let client = Client::new(server.listener());
    make(&client, properties).await;
    server.listener().reset();
    (server, client)
}

#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    endpoint: String,
    key: String,
}

impl Client {
    pub fn new(listener: &Listener) -> Self {
        Self::to(&listener.endpoint(), &listener.key())
    }

    /// A client of a server in another process.
    pub fn to(endpoint: &str, key: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self {
            http,
            endpoint: endpoint.to_owned(),
            key: key.to_owned(),
        }
    }

    pub fn with_key(&self, key: &str) -> Self {
        Self {
            key: key.to_owned(),
            ..self.clone()
        }
    }

    pub fn request(&self, method: Method, path: &str) -> Request<'_> {
        let date = httpdate::fmt_http_date(now());
        Request {
            client: self,
            method,
            path: path.to_owned(),
            headers: vec![("x-ms-version".into(), "2020-07-15".into()), ("x-ms-date".into(), date)],
            body: Vec::new(),
        }
    }

    pub fn get(&self, path: &str) -> Request<'_> {
        self.request(Method::GET, path)
    }

    pub fn post(&self, path: &str) -> Request<'_> {
        self.request(Method::POST, path)
    }

    pub fn read(&self, pk: &str, id: &str) -> Request<'_> {
        self.get(&format!("{DOCS}/{}", escaped(id))).key(pk)
    }

    pub fn create(&self, pk: &str, id: &str) -> Request<'_> {
        self.post(DOCS).key(pk).json(json!({ "id": id, "pk": pk }))
    }

    pub fn upsert(&self, pk: &str, document: Value) -> Request<'_> {
        self.post(DOCS)
            .key(pk)
            .header("x-ms-documentdb-is-upsert", "True")
            .json(document)
    }

    pub fn replace(&self, pk: &str, document: Value) -> Request<'_> {
        let id = escaped(document["id"].as_str().unwrap());
        self.request(Method::PUT, &format!("{DOCS}/{id}"))
            .key(pk)
            .json(document)
    }

    pub fn delete(&self, pk: &str, id: &str) -> Request<'_> {
        self.request(Method::DELETE, &format!("{DOCS}/{}", escaped(id))).key(pk)
    }

    pub fn batch(&self, pk: &str, operations: Value) -> Request<'_> {
        self.post(DOCS)
            .key(pk)
            .header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "True")
            .header("x-ms-cosmos-batch-continue-on-error", "False")
            .json(operations)
    }

    /// A query; the caller adds the partition key, the range or `across`.
    pub fn query(&self, sql: &str) -> Request<'_> {
        self.post(DOCS)
            .header("x-ms-documentdb-isquery", "True")
            .header("content-type", "application/query+json")
            .json(json!({ "query": sql, "parameters": [] }))
    }
}

#[derive(Clone)]
pub struct Request<'a> {
    client: &'a Client,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request<'_> {
    /// Sets a header, replacing an earlier value.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self
    }

    pub fn key(self, pk: &str) -> Self {
        self.header("x-ms-documentdb-partitionkey", json!([pk]).to_string())
    }

    pub fn range(self, id: impl ToString) -> Self {
        self.header("x-ms-documentdb-partitionkeyrangeid", id.to_string())
    }

    pub fn across(self) -> Self {
        self.header("x-ms-documentdb-query-enablecrosspartition", "True")
    }

    pub fn json(self, body: Value) -> Self {
        self.text(body.to_string())
    }

    pub fn text(mut self, body: String) -> Self {
        self.body = body.into_bytes();
        self
    }

    pub async fn send(self) -> Result<Response, reqwest::Error> {
        let Request {
            client,
            method,
            path,
            headers,
            body,
        } = self;
        let date = headers
            .iter()
            .find(|(name, _)| name == "x-ms-date")
            .map(|(_, date)| date.as_str());
        let signature = sign(&client.key, method.as_str(), &path, date.unwrap_or_default());
        let mut request = client
            .http
            .request(method, format!("{}{path}", client.endpoint))
            .body(body);
        if !headers.iter().any(|(name, _)| name == "authorization") {
            request = request.header("authorization", signature);
        }
        for (name, value) in headers.iter().filter(|(_, value)| value != NONE) {
            request = request.header(name, value.as_bytes());
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let bytes = response.bytes().await?;
        Ok(Response {
            status,
            headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            size: bytes.len(),
        })
    }

    /// Sends the request and expects a response of any status.
    pub async fn ok(self) -> Response {
        self.send().await.expect("a response")
    }
}

/// A header value that means: leave the header out.
pub const NONE: &str = "<none>";

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
    pub size: usize,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn substatus(&self) -> Option<&str> {
        self.header("x-ms-substatus")
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    pub fn documents(&self) -> &[Value] {
        self.body["Documents"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:?}", self.body);
        self
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the server compares the date with the real time"
)]
pub fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

pub fn escaped(id: &str) -> String {
    utf8_percent_encode(id, NON_ALPHANUMERIC).to_string()
}

fn sign(key: &str, method: &str, path: &str, date: &str) -> String {
    let segments: Vec<_> = path
        .split('/')
        .filter(|s| !s.is_empty())
        .map(|s| percent_decode_str(s).decode_utf8().unwrap())
        .collect();
    let (kind, link) = match segments.len() {
        0 => (String::new(), String::new()),
        n if n % 2 == 1 => (segments[n - 1].to_string(), segments[..n - 1].join("/")),
        n => (segments[n - 2].to_string(), segments.join("/")),
    };
    let payload = format!("{}\n{kind}\n{link}\n{}\n\n", method.to_lowercase(), date.to_lowercase());
    let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(key).unwrap()).unwrap();
    mac.update(payload.as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    utf8_percent_encode(&format!("type=master&ver=1.0&sig={signature}"), NON_ALPHANUMERIC).to_string()
}
