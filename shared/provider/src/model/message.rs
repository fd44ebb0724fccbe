//! Messages: id `m:{unique}`, one work item for the instance's next turn; and receipts, which replace consumed messages
//! from other partitions.
//!
//! The id of a message that an intent delivers derives from the intent, so that delivering twice conflicts. When such a
//! message is consumed, its document becomes a *receipt* under the same id (with a TTL), so that a redelivery still
//! conflicts: this makes delivery across partitions exactly once.

use super::{Kind, Queue, Schema};
use duroxide::providers::WorkItem;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// How long a receipt is kept: maintenance retries intents within minutes, and a week covers a long outage.
const RECEIPT_TTL_SECONDS: u32 = 7 * 24 * 3600;

/// The prefix of the sort keys of messages and intents.
const RANK: &str = "3:";
/// A message that is delivered this long after it was due is late. What its maker delivers is not late.
const LATE_MS: u64 = 1_000;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    queue: Queue,
    pub due_at: u64,
    pub sort_key: String,
    /// Whether a receipt replaces this message when it is consumed.
    #[serde(default)]
    pub receipt: bool,
    pub item: Box<RawValue>,
    /// Filled by the service on reads.
    #[serde(rename = "_etag", default, skip_serializing)]
    pub etag: String,
    #[serde(flatten)]
    schema: Schema,
}

/// The parts of a message that are not in its work item.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub id: String,
    pub sort_key: String,
    pub due_at: u64,
    pub receipt: bool,
}

impl MessageDoc {
    pub(crate) fn new(pk: &str, envelope: Envelope, item: &WorkItem) -> Result<Self, serde_json::Error> {
        Ok(MessageDoc {
            id: format!("m:{}", envelope.id),
            pk: pk.to_owned(),
            kind: Kind::Message,
            queue: Queue::Turn,
            due_at: envelope.due_at,
            sort_key: ranked(&envelope.sort_key),
            receipt: envelope.receipt,
            item: serde_json::value::to_raw_value(item)?,
            etag: String::new(),
            schema: Schema::default(),
        })
    }

    /// The message as it is delivered at that time. A late one is due from then on, like a timer: otherwise its age, and
    /// the reminders for it, would include the time before it was delivered. Its place among the messages of the instance
    /// stays.
    pub(crate) fn delivered_at(&self, now_ms: u64) -> Cow<'_, MessageDoc> {
        if now_ms < self.due_at.saturating_add(LATE_MS) {
            return Cow::Borrowed(self);
        }
        Cow::Owned(MessageDoc {
            due_at: now_ms,
            ..self.clone()
        })
    }
}

/// What replaces a consumed message that came through an intent.
#[derive(Debug, Serialize)]
pub(crate) struct ReceiptDoc<'a> {
    id: &'a str,
    pk: &'a str,
    #[serde(rename = "type")]
    kind: Kind,
    ttl: u32,
    #[serde(flatten)]
    schema: Schema,
}

impl<'a> ReceiptDoc<'a> {
    pub(crate) fn new(pk: &'a str, id: &'a str) -> Self {
        ReceiptDoc {
            id,
            pk,
            kind: Kind::Receipt,
            ttl: RECEIPT_TTL_SECONDS,
            schema: Schema::default(),
        }
    }
}

/// The sort key of a message, from one of `clock::Sequence`.
pub(super) fn ranked(sort_key: &str) -> String {
    format!("{RANK}{sort_key}")
}

/// When a message or work item with this sort key was queued (Unix ms): see `clock::Sequence`.
pub(crate) fn queued_at(sort_key: &str) -> Option<u64> {
    let own = sort_key.strip_prefix(RANK).unwrap_or(sort_key);
    own.split_once('-')?.0.parse().ok()
}

/// The instance whose turn consumes this item; `None` for an activity, which no turn consumes.
pub(crate) fn target_of(item: &WorkItem) -> Option<&str> {
    match item {
        WorkItem::StartOrchestration { instance, .. }
        | WorkItem::ActivityCompleted { instance, .. }
        | WorkItem::ActivityFailed { instance, .. }
        | WorkItem::TimerFired { instance, .. }
        | WorkItem::ExternalRaised { instance, .. }
        | WorkItem::QueueMessage { instance, .. }
        | WorkItem::CancelInstance { instance, .. }
        | WorkItem::ContinueAsNew { instance, .. } => Some(instance),
        WorkItem::SubOrchCompleted { parent_instance, .. } | WorkItem::SubOrchFailed { parent_instance, .. } => {
            Some(parent_instance)
        }
        WorkItem::ActivityExecute { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Sequence;

    #[test]
    fn a_message_that_is_delivered_late_is_due_from_then_on_and_keeps_its_place() {
        let envelope = Envelope {
            id: "n".to_owned(),
            sort_key: "s".to_owned(),
            due_at: 5_000,
            receipt: true,
        };
        let item = WorkItem::CancelInstance {
            instance: "b".to_owned(),
            reason: String::new(),
        };
        let message = MessageDoc::new("b", envelope, &item).unwrap();
        for (now_ms, due_at) in [(4_000, 5_000), (5_999, 5_000), (6_000, 6_000), (90_000, 90_000)] {
            let delivered = message.delivered_at(now_ms);
            assert_eq!((delivered.due_at, delivered.sort_key.as_str()), (due_at, "3:s"));
        }
    }

    #[test]
    fn a_sort_key_contains_its_time() {
        let key = Sequence::default().next(1_700_000_000_123);
        assert_eq!(queued_at(&key), Some(1_700_000_000_123));
        assert_eq!(queued_at(&format!("3:{key}")), queued_at(&key));
        for other in ["", "3:", "4:000000000000005:abc", "x-1"] {
            assert_eq!(queued_at(other), None, "{other}");
        }
    }
}
