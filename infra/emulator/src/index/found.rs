//! What the index has found for a query: its candidates, from which pages are made.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::documents::{Document, Place};
use super::query::{Query, Select};
use super::{eval, hash};
use crate::http::{CONTINUATION, ITEM_COUNT, Reply, ascii};

/// How the emulator continues a query without an order.
const CURSOR: &str = "document_feed_cursor_v1";

#[derive(Deserialize, Serialize)]
struct Cursor {
    kind: String,
    epk: String,
    id: String,
}

/// Where a query continues; `None` if this is not such a token.
pub(super) fn place_of(token: &str) -> Option<Place> {
    let cursor: Cursor = serde_json::from_str(token).ok()?;
    (cursor.kind == CURSOR).then_some((hash::from_hex(&cursor.epk)?, cursor.id))
}

/// The documents that a query may find, in the order of its results, as they were when it was sent.
pub(crate) struct Found {
    query: Query,
    candidates: Vec<Arc<Document>>,
    /// The emulator's reply, without documents.
    reply: Reply,
    rid: String,
}

/// Some results, and the candidate with which the next ones begin.
pub(crate) struct Results {
    pub(crate) documents: Vec<Box<RawValue>>,
    pub(crate) next: Option<usize>,
}

impl Found {
    pub(super) fn new(query: Query, candidates: Vec<Arc<Document>>, reply: Reply) -> Option<Self> {
        let feed: Value = serde_json::from_slice(&reply.body).ok()?;
        let rid = feed["_rid"].as_str()?.to_owned();
        Some(Self {
            query,
            candidates,
            reply,
            rid,
        })
    }

    pub(crate) fn is_ordered(&self) -> bool {
        !self.query.order.is_empty()
    }

    /// The headers of each page.
    pub(crate) fn reply(&self) -> &Reply {
        &self.reply
    }

    pub(crate) fn rid(&self) -> &str {
        &self.rid
    }

    /// Roughly the memory that it keeps from being freed.
    pub(crate) fn bytes(&self) -> usize {
        64 * self.candidates.len()
    }

    /// Up to `count` results of at most `bytes`, but at least one, from a candidate on.
    pub(crate) fn results(&self, from: usize, count: usize, bytes: usize) -> Results {
        let mut documents = Vec::new();
        let mut left = bytes;
        for at in self.matches(from) {
            let document = eval::projected(&self.query, &self.candidates[at].body);
            let document = to_raw_value(&document).expect("JSON that was read can be written");
            let size = document.get().len() + 1;
            if documents.len() == count || size > left && !documents.is_empty() {
                return Results {
                    documents,
                    next: Some(at),
                };
            }
            left = left.saturating_sub(size);
            documents.push(document);
        }
        Results { documents, next: None }
    }

    /// The reply as the emulator would give it: up to `count` results, or all.
    pub(crate) fn into_reply(self, count: Option<usize>) -> Reply {
        if let Select::Count(name) = &self.query.select {
            let count = self.matches(0).count();
            let count = match name {
                Some(name) => json!({ name.as_str(): count }),
                None => json!(count),
            };
            return self.with(vec![count], None);
        }
        let mut documents = Vec::new();
        let mut last = 0;
        for at in self.matches(0) {
            if count.is_some_and(|count| documents.len() == count) {
                let next = match self.is_ordered() {
                    true => documents.len().to_string(),
                    false => cursor(&self.candidates[last]),
                };
                return self.with(documents, Some(next));
            }
            documents.push(eval::projected(&self.query, &self.candidates[at].body));
            last = at;
        }
        self.with(documents, None)
    }

    fn matches(&self, from: usize) -> impl Iterator<Item = usize> {
        let matches = |at: &usize| eval::matches(&self.query, &self.candidates[*at].body);
        (from..self.candidates.len()).filter(matches)
    }

    fn with(&self, documents: Vec<Value>, next: Option<String>) -> Reply {
        let mut reply = self.reply.clone();
        let count = documents.len();
        reply.headers.insert(ITEM_COUNT, HeaderValue::from(count));
        if let Some(next) = next {
            let next = HeaderValue::from_str(&ascii(&next)).expect("ASCII JSON makes a header value");
            reply.headers.insert(CONTINUATION, next);
        }
        let feed = json!({ "Documents": documents, "_rid": self.rid, "_count": count });
        reply.body = Bytes::from(feed.to_string());
        reply
    }
}

/// The token that continues after a document.
fn cursor(document: &Document) -> String {
    let cursor = Cursor {
        kind: CURSOR.to_owned(),
        epk: hash::to_hex(&document.key),
        id: document.id.clone(),
    };
    serde_json::to_string(&cursor).expect("texts can be written as JSON")
}
