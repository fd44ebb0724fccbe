//! Messages: id `m:{unique}`, one work item for the instance's next turn; and receipts, which replace consumed messages
//! from other partitions.
//!
//! The id of a message that an intent delivers derives from the intent, so that delivering twice conflicts. When such a
//! message is consumed, its document becomes a *receipt* under the same id (with a TTL), so that a redelivery still
//! conflicts: this makes delivery across partitions exactly once.
//!
//! A message has three times:
//!
//! | field | meaning | moves |
//! |---|---|---|
//! | `queuedAt` | when it was queued: for ages and reports | never |
//! | `sortKey` | its place in a turn: original due time, then arrival | never |
//! | `dueAt` | from when on a turn takes it | with a back-off, and with a late delivery |
//!
//! So an event that was accepted before a timer was due comes before that timer, even if one turn takes both; of two that
//! are due at the same moment, the first to arrive is first. Starts (and continue-as-new, which is one) come before all
//! other messages: a turn takes one page, and without its start an instance could not begin.

use super::{Kind, Queue};
use duroxide::providers::WorkItem;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// How long a receipt is kept: maintenance retries intents within minutes, and a week covers a long outage.
const RECEIPT_TTL_SECONDS: u32 = 7 * 24 * 3600;

/// The prefixes of the sort keys: after the lock and the instance, starts first.
const RANK_OF_STARTS: &str = "3:0:";
const RANK: &str = "3:1:";
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
    pub queued_at: u64,
    pub sort_key: String,
    /// Whether a receipt replaces this message when it is consumed.
    #[serde(default)]
    pub receipt: bool,
    pub item: Box<RawValue>,
    /// Filled by the service on reads.
    #[serde(rename = "_etag", default, skip_serializing)]
    pub etag: String,
}

/// The parts of a message that are not in its work item.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub id: String,
    pub queued_at: u64,
    /// A key of `clock::Sequence`: decides between messages that are due at the same time.
    pub arrival: String,
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
            queued_at: envelope.queued_at,
            sort_key: order_key(item, envelope.due_at, &envelope.arrival),
            receipt: envelope.receipt,
            item: serde_json::value::to_raw_value(item)?,
            etag: String::new(),
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
}

impl<'a> ReceiptDoc<'a> {
    pub(crate) fn new(pk: &'a str, id: &'a str) -> Self {
        ReceiptDoc {
            id,
            pk,
            kind: Kind::Receipt,
            ttl: RECEIPT_TTL_SECONDS,
        }
    }
}

/// The place of a message among those of its instance: see the module.
fn order_key(item: &WorkItem, due_at: u64, arrival: &str) -> String {
    let rank = if is_start(item) { RANK_OF_STARTS } else { RANK };
    format!("{rank}{due_at:015}:{arrival}")
}

/// Whether the item begins an execution.
pub(crate) fn is_start(item: &WorkItem) -> bool {
    matches!(
        item,
        WorkItem::StartOrchestration { .. } | WorkItem::ContinueAsNew { .. }
    )
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

    fn message(item: &WorkItem, due_at: u64, arrival: String) -> MessageDoc {
        let envelope = Envelope {
            id: "n".to_owned(),
            queued_at: 4_000,
            arrival,
            due_at,
            receipt: true,
        };
        MessageDoc::new("b", envelope, item).unwrap()
    }

    fn cancel() -> WorkItem {
        WorkItem::CancelInstance {
            instance: "b".to_owned(),
            reason: String::new(),
        }
    }

    #[test]
    fn a_message_that_is_delivered_late_is_due_from_then_on_and_keeps_its_place() {
        let message = message(&cancel(), 5_000, "a".to_owned());
        for (now_ms, due_at) in [(4_000, 5_000), (5_999, 5_000), (6_000, 6_000), (90_000, 90_000)] {
            let delivered = message.delivered_at(now_ms);
            assert_eq!(
                (delivered.due_at, delivered.queued_at, &delivered.sort_key),
                (due_at, 4_000, &message.sort_key)
            );
        }
    }

    #[test]
    fn messages_are_ordered_by_due_time_then_by_arrival_and_starts_come_first() {
        let (sequence, now) = (Sequence::default(), 1_700_000_000_000);
        let again = WorkItem::ContinueAsNew {
            instance: "b".to_owned(),
            orchestration: "O".to_owned(),
            input: String::new(),
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: Vec::new(),
            initial_custom_status: None,
        };
        let timer = message(&cancel(), now + 20_000, sequence.next(now));
        let event = message(&cancel(), now + 2_000, sequence.next(now + 2_000));
        let same_time = message(&cancel(), now + 20_000, sequence.next(now + 20_000));
        let start = message(&again, now + 30_000, sequence.next(now + 30_000));
        let keys = [&start, &event, &timer, &same_time].map(|message| message.sort_key.as_str());
        assert!(keys.is_sorted() && "2" < keys[0], "{keys:?}");
    }
}
