//! PATCH: read, apply, and replace in the version that was read. The emulator's own PATCH ignores conditions, and none of its
//! batches has one.
//!
//! The replace has `If-Match`, so that nothing is lost that another client wrote in between; then the patch begins again with
//! the newer version. A batch is rewritten in the same way: each of its patches becomes a replace. What makes a patch fail for
//! good (no such document, `If-Match`, an unmet condition) is written into the replace, so that it fails in its place in the batch.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Service, escaped};
use crate::emulator::Region;
use crate::http::{Call, IS_QUERY, PARTITION_KEY, Refusal, Reply};
use crate::strict::{self, Patch};

/// How often another writer may come first.
const ATTEMPTS: u32 = 100;
/// No document has this version.
const IMPOSSIBLE: &str = "\"no such version\"";

/// What a patch found.
enum Found {
    /// The document, whose condition is met.
    Document(Value),
    Missing,
    Unmet,
}

/// A batch without patches.
struct Rewritten {
    call: Call,
    /// Operations that fail with 412 if another client has written in between.
    guarded: Vec<usize>,
}

impl Service {
    /// Patches one document.
    pub(super) async fn patch(self: &Arc<Self>, call: &Call, patch: &Patch) -> Reply {
        for _ in 0..ATTEMPTS {
            let document = match self.find(call, &call.path, patch).await {
                Ok(Found::Document(document)) => document,
                Ok(Found::Missing) => {
                    return self
                        .emulator
                        .execute(Region::Write, &with_method(call, Method::GET))
                        .await;
                }
                Ok(Found::Unmet) => return self.unmet(call).await,
                Err(refusal) => return refusal.into_reply(),
            };
            let etag = document["_etag"].as_str().unwrap_or_default();
            if call
                .header("if-match")
                .is_some_and(|wanted| wanted != "*" && wanted != etag)
            {
                return self.unmet(call).await;
            }
            let replace = match patch.apply(&document) {
                Ok(next) => replacing(call, &next, etag),
                Err(refusal) => return refusal.into_reply(),
            };
            // The result must pass as well: its size, and its time to live.
            let checked = match strict::check(&self.known(), &replace).await {
                Ok(checked) => checked,
                Err(refusal) => return refusal.into_reply(),
            };
            let reply = self.change(&replace, &checked).await;
            if reply.status != StatusCode::PRECONDITION_FAILED && reply.status != StatusCode::NOT_FOUND {
                return reply;
            }
            tokio::task::yield_now().await;
        }
        retry_with()
    }

    /// The 412 of a document in another version, with all headers (the consistency token among them): what the deletion of an
    /// impossible version gets.
    async fn unmet(&self, call: &Call) -> Reply {
        let mut impossible = with_method(call, Method::DELETE);
        impossible
            .headers
            .insert("if-match", HeaderValue::from_static(IMPOSSIBLE));
        self.emulator.execute(Region::Write, &impossible).await
    }

    /// Carries out a batch that has patches.
    pub(super) async fn patch_batch(self: &Arc<Self>, call: &Call) -> Reply {
        for _ in 0..ATTEMPTS {
            let rewritten = match self.without_patches(call).await {
                Ok(rewritten) => rewritten,
                Err(refusal) => return refusal.into_reply(),
            };
            let checked = match strict::check(&self.known(), &rewritten.call).await {
                Ok(checked) => checked,
                Err(refusal) => return refusal.into_reply(),
            };
            let reply = self.change(&rewritten.call, &checked).await;
            let results: Vec<Value> = serde_json::from_slice(&reply.body).unwrap_or_default();
            let raced = |&at: &usize| results.get(at).is_some_and(|result| result["statusCode"] == 412);
            if !rewritten.guarded.iter().any(raced) {
                return reply;
            }
            tokio::task::yield_now().await;
        }
        retry_with()
    }

    async fn without_patches(&self, call: &Call) -> Result<Rewritten, Refusal> {
        let container = self.catalog.container(&self.emulator, call).await;
        let container =
            container.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "The container does not exist."))?;
        let mut operations: Vec<Value> = serde_json::from_slice(&call.body)
            .map_err(|error| Refusal::bad_request(format!("The batch is not a JSON array: {error}")))?;
        let mut guarded = Vec::new();
        // What the batch itself has written so far.
        let mut written: HashMap<String, Value> = HashMap::new();
        for (at, operation) in operations.iter_mut().enumerate() {
            let body = operation["resourceBody"].clone();
            let id = operation["id"]
                .as_str()
                .or(body["id"].as_str())
                .unwrap_or_default()
                .to_owned();
            if operation["operationType"] != "Patch" {
                if operation["operationType"] != "Read" {
                    written.insert(id, body);
                }
                continue;
            }
            let patch = Patch::parse(&body, &container)?;
            let earlier = written.get(&id).cloned();
            let found = match earlier {
                Some(_) if patch.condition.is_some() => {
                    return Err(Refusal::bad_request(
                        "A condition on a document that the same batch writes is not supported by this test server.",
                    ));
                }
                Some(Value::Null) => Found::Missing,
                Some(document) => Found::Document(document),
                None => {
                    self.find(call, &format!("{}/{}", call.path, escaped(&id)), &patch)
                        .await?
                }
            };
            let next = match found {
                Found::Document(document) => {
                    let is_open = operation["ifMatch"].as_str().is_none_or(|etag| etag == "*");
                    if is_open && document["_etag"].is_string() {
                        operation["ifMatch"] = document["_etag"].clone();
                        guarded.push(at);
                    }
                    patch.apply(&document)?
                }
                Found::Missing | Found::Unmet => {
                    operation["ifMatch"] = json!(IMPOSSIBLE);
                    placeholder(call, &container, &id)
                }
            };
            written.insert(id, next.clone());
            operation["operationType"] = json!("Replace");
            operation["resourceBody"] = next;
        }
        let body = Bytes::from(Value::Array(operations).to_string());
        let call = Call { body, ..call.clone() };
        Ok(Rewritten { call, guarded })
    }

    /// The document at a path, if it meets the patch's condition.
    async fn find(&self, call: &Call, path: &str, patch: &Patch) -> Result<Found, Refusal> {
        let mut headers = HeaderMap::new();
        if let Some(key) = call.headers.get(PARTITION_KEY) {
            headers.insert(HeaderName::from_static(PARTITION_KEY), key.clone());
        }
        let read = Call::new(Method::GET, path, headers.clone(), Bytes::new());
        let reply = self.emulator.execute(Region::Write, &read).await;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(Found::Missing);
        }
        let Some(condition) = &patch.condition else {
            let document = serde_json::from_slice(&reply.body);
            return document
                .map(Found::Document)
                .map_err(|error| Refusal::bad_request(format!("The document cannot be read: {error}")));
        };
        let query = strict::conditional_query(condition)?;
        let parameters = json!([{ "name": "@documentId", "value": read.document() }]);
        headers.insert(HeaderName::from_static(IS_QUERY), HeaderValue::from_static("True"));
        headers.insert("content-type", HeaderValue::from_static("application/query+json"));
        let documents = path.rsplit_once('/').map_or(path, |(documents, _)| documents);
        let body = Bytes::from(json!({ "query": query, "parameters": parameters }).to_string());
        let reply = self
            .emulator
            .execute(Region::Write, &Call::new(Method::POST, documents, headers, body))
            .await;
        let mut found: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if !reply.is_success() {
            let why = found["message"].as_str().unwrap_or_default();
            return Err(Refusal::bad_request(format!(
                "The condition '{condition}' is invalid: {why}"
            )));
        }
        match found.pointer_mut("/Documents/0") {
            None => Ok(Found::Unmet),
            Some(document) => Ok(Found::Document(document.take())),
        }
    }
}

/// A document of the right partition for an operation that cannot succeed.
fn placeholder(call: &Call, container: &crate::catalog::Container, id: &str) -> Value {
    let keys: Vec<Value> = call
        .header(PARTITION_KEY)
        .and_then(|header| serde_json::from_str(header).ok())
        .unwrap_or_default();
    let mut document = json!({ "id": id });
    for (path, key) in container.key_paths.iter().zip(keys) {
        if key.is_object() {
            continue;
        }
        let mut at = &mut document;
        for name in path {
            at = &mut at[name.as_str()];
        }
        *at = key;
    }
    document
}

fn with_method(call: &Call, method: Method) -> Call {
    Call::new(method, &call.path, call.headers.clone(), Bytes::new())
}

/// The replace that a patch becomes.
fn replacing(call: &Call, document: &Value, etag: &str) -> Call {
    let mut headers = call.headers.clone();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.remove("if-match");
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert("if-match", etag);
    }
    Call::new(Method::PUT, &call.path, headers, Bytes::from(document.to_string()))
}

fn retry_with() -> Reply {
    let status = StatusCode::from_u16(449).unwrap_or(StatusCode::CONFLICT);
    Reply::error(
        status,
        None,
        "Conflicting request to resource has been attempted. Retry to avoid conflicts.",
    )
}
