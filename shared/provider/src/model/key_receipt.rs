//! Receipts of idempotency keys: id `key:{start,event}:{hash of the key}`, in the partition of the instance that the request names.
//!
//! A request with a key creates the receipt in the same batch as its message, so exactly one of all requests with that key is
//! accepted, however many race, and whatever becomes of the message and of the instance: the receipt is written once, lives by its
//! own TTL, and a deletion leaves it. It has a digest of the request, not the request: enough to tell a repetition from another
//! request under the same key.

use super::{Kind, Schema, digest};
use serde::{Deserialize, Serialize};

/// How long a key is remembered, in seconds: a day, and an hour for the retries of the last request.
const REMEMBERED_SECONDS: u32 = 25 * 3_600;

/// What a key was sent with. Each kind has its own keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyedRequest {
    Start,
    Event,
    /// A restart in place.
    Restart,
    /// What a batch sends to one of its instances.
    Batch,
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyReceiptDoc {
    pub id: String,
    pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    ttl: u32,
    /// The digest of the request.
    pub request: String,
    /// The message that the request made: tells a client's own earlier attempt from that of another.
    pub message: String,
    #[serde(flatten)]
    schema: Schema,
}

impl KeyReceiptDoc {
    pub(crate) fn new(pk: &str, of: KeyedRequest, key: &str, request: &str, message: &str) -> Self {
        KeyReceiptDoc {
            id: Self::id(of, key),
            pk: pk.to_owned(),
            kind: Kind::Receipt,
            ttl: REMEMBERED_SECONDS,
            request: digest(request),
            message: message.to_owned(),
            schema: Schema::default(),
        }
    }

    pub(crate) fn id(of: KeyedRequest, key: &str) -> String {
        let of = match of {
            KeyedRequest::Start => "start",
            KeyedRequest::Event => "event",
            KeyedRequest::Restart => "restart",
            KeyedRequest::Batch => "batch",
        };
        format!("key:{of}:{}", digest(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_has_neither_key_nor_request_and_lives_for_over_a_day() {
        let receipt = KeyReceiptDoc::new("i", KeyedRequest::Start, "my/key", "the request", "m:1");
        let stored = serde_json::to_value(&receipt).unwrap();
        assert!(!stored.to_string().contains("my/key") && !stored.to_string().contains("the request"));
        assert_eq!(stored["type"], "receipt");
        assert!(stored["ttl"].as_u64().unwrap() > 86_400);
        assert_ne!(
            KeyReceiptDoc::id(KeyedRequest::Start, "k"),
            KeyReceiptDoc::id(KeyedRequest::Event, "k")
        );
    }
}
