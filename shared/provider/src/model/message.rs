//! Messages: id `m:{unique}`, one work item for the instance's next turn; and receipts, which replace consumed messages.
//! The id of a timer that a turn creates is `m:t:{execution}:{timer}`, so that the last turn of the execution can delete it
//! without reading it.
//!
//! A message from outside its partition may be written twice: an intent is delivered again, or a client's create is
//! retried because its response was lost. Both use the same id, so the second write conflicts. When such a message is
//! consumed, its document becomes a *receipt* under that id (with a TTL), so that a late second write still conflicts: the
//! message has its effect once.
//!
//! A message has three times:
//!
//! | field | meaning | moves |
//! |---|---|---|
//! | `queuedAt` | when it was queued: for ages and reports | never |
//! | `sortKey` | its place in a turn: original due time, then arrival | never |
//! | `dueAt` | from when on a turn takes it | with a back-off, with a late delivery, and while the instance is paused (*parked*) |
//!
//! So an event that was accepted before a timer was due comes before that timer, even if one turn takes both; of two that
//! are due at the same moment, the first to arrive is first. Starts (and continue-as-new, which is one) come before all
//! other messages: a turn takes one page, and without its start an instance could not begin.

use super::{CompletedAttempts, Kind, Lane, LateUsage, PARKED_MS, Queue, Schema, Usage};
use duroxide::providers::WorkItem;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// How long the receipt of a client's message is kept, in seconds. One enqueue retries for half a minute by default.
const BRIEF_SECONDS: u32 = 3_600;

/// The prefixes of the sort keys: after the lock and the instance, starts first.
const RANK_OF_STARTS: &str = "3:0:";
const RANK: &str = "3:1:";
/// The digits of the due time that follows.
const DUE_DIGITS: usize = 15;
/// A message that is delivered this long after it was due is late. What its maker delivers is not late.
const LATE_MS: u64 = 1_000;

/// How long before it was resumed a message of a resumed instance counts as due, at most: longer than clocks differ, so that no turn
/// leaves it out and takes what came after it; not so long that it counts as overdue.
const RESUMED_MS: u64 = 60_000;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    queue: Queue,
    #[serde(default)]
    lane: Lane,
    /// Whether this is a timer, so that the service can count timers without reading the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timer: Option<bool>,
    pub due_at: u64,
    pub queued_at: u64,
    pub sort_key: String,
    #[serde(default)]
    pub receipt: Receipt,
    pub item: Box<RawValue>,
    /// The attempts of the activity whose completion this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<CompletedAttempts>,
    /// What it took to bring it here: the turn that consumes it counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// Late usage that came with the wakeup of the activity whose completion this is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<LateUsage>,
    /// Filled by the service on reads.
    #[serde(rename = "_etag", default, skip_serializing)]
    pub etag: String,
    #[serde(flatten)]
    schema: Schema,
}

/// What a message leaves when it is consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Receipt {
    /// Nothing: the batch that decided it created it in its own partition, which cannot happen twice.
    #[default]
    None,
    /// A receipt that outlasts the retries of one enqueue.
    Brief,
    /// A receipt that outlasts the intent and its dead letter.
    Long,
}

impl Receipt {
    /// Of a message that an instance sends to itself, or to another.
    pub(crate) fn between(from: &str, to: &str) -> Receipt {
        if from == to { Receipt::None } else { Receipt::Long }
    }

    /// How long it is kept, in seconds, when a long one is kept for `long`.
    pub(crate) fn ttl(self, long: u32) -> Option<u32> {
        match self {
            Receipt::None => None,
            Receipt::Brief => Some(BRIEF_SECONDS),
            Receipt::Long => Some(long),
        }
    }
}

/// The parts of a message that are not in its work item.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub id: String,
    pub queued_at: u64,
    /// A key of `clock::Sequence`: decides between messages that are due at the same time.
    pub arrival: String,
    pub due_at: u64,
    pub receipt: Receipt,
}

impl MessageDoc {
    /// The sort keys of starts are below this, those of other messages are not.
    pub(crate) const AFTER_STARTS: &str = RANK;

    pub(crate) fn new(pk: &str, envelope: Envelope, item: &WorkItem) -> Result<Self, serde_json::Error> {
        Ok(MessageDoc {
            id: Self::id_of(&envelope.id),
            pk: pk.to_owned(),
            kind: Kind::Message,
            queue: Queue::Turn,
            lane: Lane::Turn,
            timer: matches!(item, WorkItem::TimerFired { .. }).then_some(true),
            due_at: envelope.due_at,
            queued_at: envelope.queued_at,
            sort_key: order_key(item, &envelope),
            receipt: envelope.receipt,
            item: serde_json::value::to_raw_value(item)?,
            attempts: None,
            usage: None,
            late: Vec::new(),
            etag: String::new(),
            schema: Schema::default(),
        })
    }

    /// The same with what it takes to bring it.
    pub(crate) fn using(self, usage: Usage) -> Self {
        MessageDoc {
            usage: Some(Box::new(usage)).filter(|usage| !usage.is_nothing()),
            ..self
        }
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

    /// The message due from another time on, in its old place.
    pub(crate) fn due_from(&self, due_at: u64) -> MessageDoc {
        MessageDoc { due_at, ..self.clone() }
    }

    /// The message of an instance that is paused, in its old place.
    pub(crate) fn parked(&self) -> MessageDoc {
        self.due_from(PARKED_MS)
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.due_at >= PARKED_MS
    }

    /// The parked message of an instance that is resumed: due as it was at first, or since a moment ago.
    pub(crate) fn resumed_at(&self, now_ms: u64) -> MessageDoc {
        self.due_from(self.first_due_ms().max(now_ms.saturating_sub(RESUMED_MS)))
    }

    /// The message out of the way of turns, because its instance does not exist, until that time.
    pub(crate) fn aside(&self, until_ms: u64) -> MessageDoc {
        MessageDoc {
            queue: Queue::Repair,
            due_at: until_ms,
            ..self.clone()
        }
    }

    pub(crate) fn is_aside(&self) -> bool {
        self.queue == Queue::Repair
    }

    /// The message due again, in its old place. It is due as it was at first: were it due from now on, a turn that has read
    /// its clock before this write would leave it out, and take what came after it.
    pub(crate) fn put_back(&self) -> MessageDoc {
        MessageDoc {
            queue: Queue::Turn,
            due_at: self.first_due_ms(),
            ..self.clone()
        }
    }

    /// When it was due at first: its place says so.
    pub(crate) fn first_due_ms(&self) -> u64 {
        let place = self.sort_key.get(RANK.len()..RANK.len() + DUE_DIGITS);
        place.and_then(|due| due.parse().ok()).unwrap_or(self.queued_at)
    }

    /// The message as one that is queued again, after it was given up.
    pub(crate) fn queued_again(&self, now_ms: u64) -> MessageDoc {
        MessageDoc {
            queue: Queue::Turn,
            queued_at: now_ms,
            due_at: now_ms,
            ..self.clone()
        }
    }

    /// The message due now, in its old place: it is queued again.
    pub(crate) fn renewed_at(self, now_ms: u64) -> MessageDoc {
        MessageDoc {
            queued_at: now_ms,
            due_at: now_ms,
            ..self
        }
    }

    /// Whether the message cancels its instance.
    pub(crate) fn cancels(&self) -> bool {
        matches!(
            serde_json::from_str(self.item.get()),
            Ok(WorkItem::CancelInstance { .. })
        )
    }

    /// What the message starts, if it starts an instance.
    pub(crate) fn starts(&self) -> Option<Start> {
        match serde_json::from_str(self.item.get()) {
            Ok(WorkItem::StartOrchestration {
                orchestration,
                parent_instance,
                ..
            }) => Some(Start {
                orchestration,
                parent: parent_instance,
            }),
            _ => None,
        }
    }

    /// The id of the message with that name.
    pub(crate) fn id_of(name: &str) -> String {
        format!("m:{name}")
    }

    /// The id of the message of a timer.
    pub(crate) fn timer_id(execution: u64, timer: u64) -> String {
        Self::id_of(&Self::timer_name(execution, timer))
    }

    /// The same without the prefix.
    pub(crate) fn timer_name(execution: u64, timer: u64) -> String {
        format!("t:{execution}:{timer}")
    }

    /// The part of the id after the prefix.
    pub(crate) fn name(&self) -> &str {
        self.id.strip_prefix("m:").unwrap_or(&self.id)
    }
}

/// What a message starts.
#[derive(Debug)]
pub(crate) struct Start {
    pub orchestration: String,
    /// The instance that starts it, if one does.
    pub parent: Option<String>,
}

/// What replaces a consumed message that came from outside its partition.
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
    pub(crate) fn new(pk: &'a str, id: &'a str, ttl: u32) -> Self {
        ReceiptDoc {
            id,
            pk,
            kind: Kind::Receipt,
            ttl,
            schema: Schema::default(),
        }
    }
}

/// The place of a message among those of its instance: see the module. A timer that has fired before its turn is committed
/// is due when it is queued: what one turn emits at once stays in its order.
fn order_key(item: &WorkItem, envelope: &Envelope) -> String {
    let rank = if is_start(item) { RANK_OF_STARTS } else { RANK };
    let due_at = envelope.due_at.max(envelope.queued_at);
    format!("{rank}{due_at:0DUE_DIGITS$}:{}", envelope.arrival)
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
            receipt: Receipt::Long,
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
    fn a_parked_message_is_due_again_when_its_instance_is_resumed_or_at_its_own_time() {
        let now = 5_000_000;
        for (first_due, due_at) in [
            (1_000, now - RESUMED_MS),
            (now - 5, now - 5),
            (now + 9_000, now + 9_000),
        ] {
            let queued = message(&cancel(), first_due, "a".to_owned());
            let parked = queued.due_from(first_due + 7).parked();
            assert!(parked.is_parked() && !queued.is_parked());
            let resumed = parked.resumed_at(now);
            assert_eq!(
                (resumed.due_at, &resumed.sort_key),
                (due_at, &queued.sort_key),
                "{first_due}"
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
