//! Requests and replies inside this crate, with the whole body in memory.
//!
//! A [`Call`] is parsed once, at the listener. Its path keeps the escapes, because the emulator routes by it; its segments are
//! decoded, because ids and signatures are made of them.

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::kind::{self, RequestKind};

pub(crate) const PARTITION_KEY: &str = "x-ms-documentdb-partitionkey";
pub(crate) const RANGE_ID: &str = "x-ms-documentdb-partitionkeyrangeid";
pub(crate) const CROSS_PARTITION: &str = "x-ms-documentdb-query-enablecrosspartition";
pub(crate) const IS_QUERY: &str = "x-ms-documentdb-isquery";
pub(crate) const IS_QUERY_PLAN: &str = "x-ms-cosmos-is-query-plan-request";
pub(crate) const IS_UPSERT: &str = "x-ms-documentdb-is-upsert";
pub(crate) const IS_BATCH: &str = "x-ms-cosmos-is-batch-request";
pub(crate) const MAX_ITEM_COUNT: &str = "x-ms-max-item-count";
pub(crate) const CONTINUATION: &str = "x-ms-continuation";
pub(crate) const ITEM_COUNT: &str = "x-ms-item-count";
pub(crate) const SUBSTATUS: &str = "x-ms-substatus";
pub(crate) const ACTIVITY_ID: &str = "x-ms-activity-id";
pub(crate) const REQUEST_CHARGE: &str = "x-ms-request-charge";

/// One request with its whole body.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// As sent, without a trailing slash; the account itself is `/`.
    pub(crate) path: String,
    pub(crate) segments: Vec<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) kind: RequestKind,
}

impl Call {
    pub(crate) fn new(method: Method, raw_path: &str, headers: HeaderMap, body: Bytes) -> Self {
        let trimmed = raw_path.trim_end_matches('/');
        let path = if trimmed.is_empty() { "/" } else { trimmed }.to_owned();
        let segments: Vec<String> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
            .collect();
        let kind = kind::classify(&method, &segments, &headers);
        Self {
            method,
            path,
            segments,
            headers,
            body,
            kind,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether a header is `true`, in any case.
    pub(crate) fn flag(&self, name: &str) -> bool {
        is_true(&self.headers, name)
    }

    pub(crate) fn set_header(&mut self, name: &'static str, value: HeaderValue) {
        self.headers.insert(HeaderName::from_static(name), value);
    }

    /// The database and the container of a path to a container or into one.
    pub(crate) fn container(&self) -> Option<(&str, &str)> {
        match self.segments.as_slice() {
            [dbs, db, colls, container, ..] if dbs == "dbs" && colls == "colls" => Some((db, container)),
            _ => None,
        }
    }

    /// The id in the path of a point read, replace or delete.
    pub(crate) fn document(&self) -> Option<&str> {
        match self.segments.as_slice() {
            [_, _, _, _, docs, id] if docs == "docs" => Some(id),
            _ => None,
        }
    }

    /// Whether this is a query; a plain listing of documents is not.
    pub(crate) fn is_query(&self) -> bool {
        self.method == Method::POST && self.flag(IS_QUERY)
    }
}

pub(crate) fn is_true(headers: &HeaderMap, name: &str) -> bool {
    headers
        .get(name)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

/// JSON with all characters beyond ASCII escaped.
pub(crate) fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        // DEL is ASCII, but not allowed in a header.
        if c.is_ascii() && c != '\u{7f}' {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}

/// One reply.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    /// An error in the format of the service.
    pub(crate) fn error(status: StatusCode, substatus: Option<u32>, message: &str) -> Self {
        let code = status.canonical_reason().unwrap_or("Error").replace(' ', "");
        let body = json!({ "code": code, "message": message }).to_string();
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert(REQUEST_CHARGE, HeaderValue::from_static("0.00"));
        if let Some(substatus) = substatus {
            headers.insert(SUBSTATUS, HeaderValue::from(substatus));
        }
        Self {
            status,
            headers,
            body: Bytes::from(body),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn is_success(&self) -> bool {
        self.status.is_success() && self.status != StatusCode::MULTI_STATUS
    }
}

/// A refusal of the strict checks, in the service's words.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) substatus: Option<u32>,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            substatus: None,
            message: message.into(),
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    pub(crate) fn with_substatus(mut self, substatus: u32) -> Self {
        self.substatus = Some(substatus);
        self
    }

    pub(crate) fn into_reply(self) -> Reply {
        Reply::error(self.status, self.substatus, &self.message)
    }
}
