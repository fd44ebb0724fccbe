//! Documents whose time is over.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::restore::key_header;
use super::{Service, escaped};
use crate::emulator::Region;
use crate::expiry::{self, Hint};
use crate::http::{CONTINUATION, Call, PARTITION_KEY, Reply};
use crate::strict::{self, Checked};

impl Service {
    /// Deletes what has expired at a time, in milliseconds since 1970. The deletions are kept like any others.
    pub(crate) async fn expire(self: &Arc<Self>, now: u64) {
        let _alone = self.expiry.alone().await;
        while let Some(hint) = self.expiry.due(now) {
            if let Some(call) = deletion(&hint) {
                let reply = self.change(&call, &Checked::default()).await;
                // Not there, or there anew: then the hint was void.
                let followed = reply.is_success()
                    || matches!(reply.status, StatusCode::NOT_FOUND | StatusCode::PRECONDITION_FAILED);
                if !followed {
                    tracing::warn!(id = hint.id, status = %reply.status, "an expired document is still there");
                    return;
                }
            }
            self.expiry.done(&hint);
        }
    }

    /// Remembers when the documents expire that a request has written.
    pub(super) fn note_mortals(&self, call: &Call, checked: &Checked, reply: &Reply) {
        let (Some((db, container)), Some(key)) = (call.container(), call.header(PARTITION_KEY)) else {
            return;
        };
        let results: Vec<Value> = match &checked.batch {
            Some(_) => serde_json::from_slice(&reply.body).unwrap_or_default(),
            None => Vec::new(),
        };
        let now = expiry::now();
        for mortal in &checked.mortals {
            let etag = match results.get(mortal.operation) {
                Some(result) => result["eTag"].as_str(),
                None => reply.header("etag"),
            };
            self.expiry.add(Hint {
                at: now.saturating_add(mortal.lifetime * 1_000),
                db: db.to_owned(),
                container: container.to_owned(),
                key: key.to_owned(),
                id: mortal.id.clone(),
                etag: etag.unwrap_or_default().to_owned(),
            });
        }
    }

    /// Looks through a container whose definition has changed: what lived may be mortal now, and for another time.
    ///
    /// What was written before a restart counts from the restart here, because `_ts` does.
    pub(super) async fn note_all_mortals(&self, db: &str, name: &str) {
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
                self.expiry.add(Hint {
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
fn deletion(hint: &Hint) -> Option<Call> {
    let path = format!(
        "/dbs/{}/colls/{}/docs/{}",
        escaped(&hint.db),
        escaped(&hint.container),
        escaped(&hint.id)
    );
    let mut headers = HeaderMap::new();
    headers.insert(
        HeaderName::from_static(PARTITION_KEY),
        HeaderValue::from_str(&hint.key).ok()?,
    );
    headers.insert("if-match", HeaderValue::from_str(&hint.etag).ok()?);
    Some(Call::new(Method::DELETE, &path, headers, Bytes::new()))
}
