//! Intents: id `o:{unique}`, one message that must be written into another partition.
//!
//! The batch that decides it creates the intent; it is delivered after that batch, and deleted after its delivery. A
//! crash in between leaves it due in the `repair` queue. A process that finds it there and fails to deliver it counts the
//! attempt and moves `dueAt`; an intent that can never be delivered becomes a dead letter (see `dead`). The first
//! delivery, by its maker, does not count.

use super::{Kind, Lane, MessageDoc, Queue, Schema};
use serde::{Deserialize, Serialize};

/// See the module. `message.pk` is the target.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IntentDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    queue: Queue,
    #[serde(default)]
    lane: Lane,
    pub due_at: u64,
    /// Since when it waits: since its message was queued, or since it was redriven. `due_at` moves with each attempt.
    pub queued_at: u64,
    /// Orders intents by `queued_at`, and is indexed.
    sort_key: String,
    /// How often a delivery from the `repair` queue has failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    pub message: MessageDoc,
    /// Filled by the service on reads.
    #[serde(rename = "_etag", default, skip_serializing)]
    pub etag: String,
    #[serde(flatten)]
    schema: Schema,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn sort_key(queued_at: u64, name: &str) -> String {
    format!("{queued_at:015}:{name}")
}

impl IntentDoc {
    /// `name` must be unique for ever; the message's id should derive from it.
    pub(crate) fn new(pk: &str, name: &str, due_at: u64, message: MessageDoc) -> Self {
        IntentDoc {
            id: format!("o:{name}"),
            pk: pk.to_owned(),
            kind: Kind::Intent,
            queue: Queue::Repair,
            lane: Lane::Turn,
            due_at,
            queued_at: message.queued_at,
            sort_key: sort_key(message.queued_at, name),
            attempts: 0,
            last_error: None,
            message,
            etag: String::new(),
            schema: Schema::default(),
        }
    }

    /// The intent as one that waits only since then, whenever its message was queued: it was given up in between.
    pub(crate) fn queued_since(self, queued_at: u64) -> Self {
        IntentDoc {
            queued_at,
            sort_key: sort_key(queued_at, self.name()),
            ..self
        }
    }

    /// The part of the id after the prefix.
    pub(crate) fn name(&self) -> &str {
        self.id.strip_prefix("o:").unwrap_or(&self.id)
    }

    /// The intent after one more failed delivery, due again at `due_at`.
    pub(crate) fn deferred(&self, due_at: u64, error: String) -> Self {
        IntentDoc {
            due_at,
            attempts: self.attempts.saturating_add(1),
            last_error: Some(error),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_without_attempts_is_written_without_them_and_a_failure_adds_them() {
        let new = r#"{"id":"o:c-1","pk":"a","type":"intent","queue":"repair","dueAt":5,"queuedAt":1,"sortKey":"1:c-1",
            "message":{"id":"m:c-1","pk":"b","type":"message","queue":"turn","dueAt":1,"queuedAt":1,"sortKey":"3:1:x",
            "receipt":"long","item":{"some":"item"}}}"#;
        let intent: IntentDoc = serde_json::from_str(new).unwrap();
        assert_eq!(
            (intent.attempts, intent.last_error.as_deref(), intent.name()),
            (0, None, "c-1")
        );
        let written = serde_json::to_string(&intent).unwrap();
        assert!(
            !written.contains("attempts") && !written.contains("lastError"),
            "{written}"
        );
        let later = intent.deferred(9, "no".to_owned());
        let back: IntentDoc = serde_json::from_str(&serde_json::to_string(&later).unwrap()).unwrap();
        assert_eq!(
            (back.attempts, back.due_at, back.last_error.as_deref()),
            (1, 9, Some("no"))
        );
    }
}
