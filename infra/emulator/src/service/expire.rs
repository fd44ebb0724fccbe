//! Expiry: records when documents expire, and deletes the expired ones.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::restore::key_header;
use super::{Service, escaped};
use crate::emulator::Region;
use crate::expiry::{self, Deadline};
use crate::http::{CONTINUATION, Call, PARTITION_KEY, Reply};
use crate::strict::{self, Checked};

impl Service {
    /// Deletes the documents that have expired at `now`, in milliseconds since 1970. These deletions are stored like any others.
    pub(crate) async fn expire(self: &Arc<Self>, now: u64) {
        let _sweep = self.expiry.lock().await;
        while let Some(deadline) = self.expiry.due(now) {
            if let Some(call) = deletion(&deadline) {
                let reply = self.change(&call, &Checked::default()).await;
                // The document was deleted or written again: the deadline is obsolete.
                let done = reply.is_success()
                    || matches!(reply.status, StatusCode::NOT_FOUND | StatusCode::PRECONDITION_FAILED);
                if !done {
                    tracing::warn!(id = deadline.id, status = %reply.status, "an expired document could not be deleted");
                    return;
                }
            }
            self.expiry.done(&deadline);
        }
    }

    /// Records when the documents of a request expire.
    pub(super) fn note_expiring(&self, call: &Call, checked: &Checked, reply: &Reply) {
        let (Some((db, container)), Some(key)) = (call.container(), call.header(PARTITION_KEY)) else {
            return;
        };
        let results: Vec<Value> = match &checked.batch {
            Some(_) => serde_json::from_slice(&reply.body).unwrap_or_default(),
            None => Vec::new(),
        };
        let now = expiry::now();
        for document in &checked.expiring {
            let etag = match results.get(document.operation) {
                Some(result) => result["eTag"].as_str(),
                None => reply.header("etag"),
            };
            self.expiry.add(Deadline {
                at: now.saturating_add(document.lifetime * 1_000),
                db: db.to_owned(),
                container: container.to_owned(),
                key: key.to_owned(),
                id: document.id.clone(),
                etag: etag.unwrap_or_default().to_owned(),
            });
        }
    }

    /// Records when all documents of a container expire, after its definition has changed.
    ///
    /// For documents from before a restart the time counts from the restart, because `_ts` does.
    pub(super) async fn note_all_expiring(&self, db: &str, name: &str) {
        let path = format!("/dbs/{}/colls/{}/docs", escaped(db), escaped(name));
        let mut call = Call::new(Method::GET, &path, HeaderMap::new(), Bytes::new());
        let container = self.catalog.container(&self.emulator, &call).await;
        let Some(container) = container.filter(|container| container.default_ttl.is_some()) else {
            return;
        };
        loop {
            let reply = self.emulator.execute(Region::Write, &call).await;
            let page: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
            for document in page["Documents"].as_array().into_iter().flatten() {
                let Ok(Some(lifetime)) = strict::lifetime(&container, document) else {
                    continue;
                };
                let written = document["_ts"].as_u64().unwrap_or_default();
                let text = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
                self.expiry.add(Deadline {
                    at: written.saturating_add(lifetime) * 1_000,
                    db: db.to_owned(),
                    container: name.to_owned(),
                    key: key_header(&container.keys_of(document)),
                    id: text("id"),
                    etag: text("_etag"),
                });
            }
            match reply.headers.get(CONTINUATION) {
                Some(next) => call.set_header(CONTINUATION, next.clone()),
                None => return,
            }
        }
    }
}

/// The deletion of one version of a document.
fn deletion(deadline: &Deadline) -> Option<Call> {
    let path = format!(
        "/dbs/{}/colls/{}/docs/{}",
        escaped(&deadline.db),
        escaped(&deadline.container),
        escaped(&deadline.id)
    );
    let mut headers = HeaderMap::new();
    headers.insert(
        HeaderName::from_static(PARTITION_KEY),
        HeaderValue::from_str(&deadline.key).ok()?,
    );
    headers.insert("if-match", HeaderValue::from_str(&deadline.etag).ok()?);
    Some(Call::new(Method::DELETE, &path, headers, Bytes::new()))
}
