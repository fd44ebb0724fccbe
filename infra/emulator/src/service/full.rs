//! Whether a write makes a document, and with it its logical partition, larger: a full partition refuses those.
//!
//! A create always does. An upsert or a replace does when its document is larger than the stored one, without what the service adds.
//! Each operation of a batch counts for itself, whatever the others delete: nobody has recorded whether the service adds them up.

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderMap;
use serde_json::Value;

use super::{Service, escaped};
use crate::emulator::Region;
use crate::http::{Call, PARTITION_KEY};
use crate::kind::RequestKind;

impl Service {
    /// Whether the request would make a document larger.
    pub(crate) async fn grows(&self, call: &Call) -> bool {
        let body = || serde_json::from_slice::<Value>(&call.body).unwrap_or_default();
        match call.kind {
            RequestKind::Create | RequestKind::Patch => true,
            RequestKind::Replace | RequestKind::Upsert => self.is_larger(call, &body()).await,
            RequestKind::Batch => {
                for operation in body().as_array().map(Vec::as_slice).unwrap_or_default() {
                    let larger = match operation["operationType"].as_str() {
                        Some("Read" | "Delete") => false,
                        Some("Upsert" | "Replace") => self.is_larger(call, &operation["resourceBody"]).await,
                        _ => true,
                    };
                    if larger {
                        return true;
                    }
                }
                false
            }
            _ => false,
        }
    }

    async fn is_larger(&self, call: &Call, next: &Value) -> bool {
        let id = next["id"].as_str().unwrap_or_default();
        let documents = match call.document() {
            Some(_) => call.path.rsplit_once('/').map_or("", |(documents, _)| documents),
            None => &call.path,
        };
        let mut headers = HeaderMap::new();
        if let Some(key) = call.headers.get(PARTITION_KEY) {
            headers.insert(PARTITION_KEY, key.clone());
        }
        let read = Call::new(
            Method::GET,
            &format!("{documents}/{}", escaped(id)),
            headers,
            Bytes::new(),
        );
        let reply = self.emulator.execute(Region::Write, &read).await;
        let stored: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        !reply.is_success() || size(next) > size(&stored)
    }
}

/// The size of a document without what the service adds.
fn size(document: &Value) -> usize {
    let own = document.as_object().into_iter().flatten();
    own.filter(|(name, _)| !name.starts_with('_'))
        .map(|(name, value)| name.len() + value.to_string().len())
        .sum()
}
