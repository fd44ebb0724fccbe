//! Batches: id `b:{batch}`, and the instances that failed: id `bf:{batch}:{n}`. All of them are in one partition, so that one query lists
//! them and one write notes progress together with its failures.
//!
//! An instance may have the name of the partition: they share a logical partition and nothing else, because the ids differ, no query of
//! an instance names these types, and deleting the instance keeps them.
//!
//! A batch that has not ended is in the queue `repair`, due some time after its next step should have run: maintenance finds it there
//! if the wakeup of that step was lost, or its function has died. It has no `lane`: who polls for turns leaves it alone. A release that
//! does not know the type leaves it alone as well.

use super::{Kind, Queue, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The partition of all batches.
pub(crate) const BATCHES: &str = "duroxide:batches";

/// How long a batch is kept after its end, in seconds: 30 days.
const KEPT_SECONDS: u32 = 30 * 24 * 3_600;
/// How long failures are kept, in seconds: longer than their batch, which may take days.
const FAILURES_SECONDS: u32 = 2 * KEPT_SECONDS;
/// How long after its next step should have run maintenance wakes a batch, in ms: a step takes less.
const GRACE_MS: u64 = 45_000;

/// What a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchState {
    /// Its next step is due.
    Running,
    /// It was cancelled, and its next step ends it.
    Cancelling,
    /// Every instance was handled.
    Completed,
    /// It was cancelled: what it had done by then stays done.
    Cancelled,
    /// It cannot go on: its error says why.
    Failed,
}

impl BatchState {
    /// Whether no step follows.
    pub fn has_ended(self) -> bool {
        !matches!(self, BatchState::Running | BatchState::Cancelling)
    }

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            BatchState::Running => "Running",
            BatchState::Cancelling => "Cancelling",
            BatchState::Completed => "Completed",
            BatchState::Cancelled => "Cancelled",
            BatchState::Failed => "Failed",
        }
    }
}

/// How many instances a batch has handled. In a dry run: what would become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchCounts {
    /// All of the others together.
    pub examined: u64,
    /// The action was applied.
    pub changed: u64,
    /// There was nothing to do: it was so before, or the instance has ended.
    pub unchanged: u64,
    /// The instance was deleted meanwhile.
    pub gone: u64,
    /// It was refused, or failed too often.
    pub failed: u64,
}

/// One instance that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchFailure {
    /// The instance.
    pub instance: String,
    /// Why.
    pub reason: String,
}

/// One of the first instances of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchSample {
    /// The instance.
    pub instance: String,
    /// Its status when it was found.
    pub status: String,
}

/// An instance of the page that the next step handles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Planned {
    pub instance: String,
    /// When it was found: a repeated step knows by it what the first has changed.
    pub status: String,
    /// How often it could not be handled because the store did not answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
}

fn is_zero(tries: &u32) -> bool {
    *tries == 0
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BatchJobDoc {
    pub id: String,
    pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<Queue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_at: Option<u64>,
    pub created_at: u64,
    pub updated_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// What to do, as `bulk::action` reads it.
    pub request: Value,
    /// Who has begun it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub state: BatchState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How often progress was written: tells steps apart that work on the same page.
    #[serde(default)]
    pub step: u64,
    /// Unique to one write, so that a writer whose answer was lost can recognise its own.
    #[serde(default)]
    pub nonce: String,
    /// What the next step handles.
    #[serde(default)]
    pub page: Vec<Planned>,
    /// Where the search goes on after the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The search has reached its end.
    #[serde(default)]
    pub is_searched: bool,
    /// When the next step runs, at the earliest.
    #[serde(default)]
    pub next_at: u64,
    /// How much slower than asked for it is at the moment (`bulk::pace`).
    #[serde(default)]
    pub slowed: u32,
    #[serde(default)]
    pub counts: BatchCounts,
    #[serde(default)]
    pub by_status: BTreeMap<String, u64>,
    #[serde(default)]
    pub sample: Vec<BatchSample>,
    /// How many documents have failures.
    #[serde(default)]
    pub failure_pages: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
    #[serde(flatten)]
    schema: Schema,
}

impl BatchJobDoc {
    pub(crate) fn new(batch: &str, request: Value, by: Option<String>, now_ms: u64) -> Self {
        BatchJobDoc {
            id: Self::id(batch),
            pk: BATCHES.to_owned(),
            kind: Kind::BatchJob,
            queue: Some(Queue::Repair),
            due_at: Some(now_ms.saturating_add(GRACE_MS)),
            created_at: now_ms,
            updated_at: now_ms,
            ended_at: None,
            request,
            by,
            state: BatchState::Running,
            error: None,
            step: 0,
            nonce: String::new(),
            page: Vec::new(),
            cursor: None,
            is_searched: false,
            next_at: now_ms,
            slowed: 0,
            counts: BatchCounts::default(),
            by_status: BTreeMap::new(),
            sample: Vec::new(),
            failure_pages: 0,
            ttl: None,
            schema: Schema::default(),
        }
    }

    pub(crate) fn id(batch: &str) -> String {
        format!("b:{batch}")
    }

    /// The batch of a document's id.
    pub(crate) fn name_of(id: &str) -> &str {
        id.strip_prefix("b:").unwrap_or(id)
    }

    /// When maintenance wakes it.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due_at
    }

    /// Its next step runs then.
    pub(crate) fn go_on_at(&mut self, next_at: u64) {
        self.next_at = next_at;
        self.due_at = Some(next_at.saturating_add(GRACE_MS));
    }

    /// It ends like this: nothing is due any more, and its TTL begins.
    pub(crate) fn end(&mut self, state: BatchState, now_ms: u64) {
        self.state = state;
        self.ended_at = Some(now_ms);
        self.page.clear();
        (self.queue, self.due_at, self.ttl) = (None, None, Some(KEPT_SECONDS));
    }
}

/// Instances that failed in one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BatchFailuresDoc {
    pub id: String,
    pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    pub failures: Vec<BatchFailure>,
    ttl: u32,
    #[serde(flatten)]
    schema: Schema,
}

impl BatchFailuresDoc {
    pub(crate) fn new(batch: &str, number: u64, failures: Vec<BatchFailure>) -> Self {
        BatchFailuresDoc {
            id: Self::id(batch, number),
            pk: BATCHES.to_owned(),
            kind: Kind::BatchFailures,
            failures,
            ttl: FAILURES_SECONDS,
            schema: Schema::default(),
        }
    }

    pub(crate) fn id(batch: &str, number: u64) -> String {
        format!("bf:{batch}:{number}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_due_for_recovery_until_it_has_ended_and_then_it_expires() {
        let mut job = BatchJobDoc::new("7", Value::Null, None, 1_000);
        let stored = serde_json::to_value(&job).unwrap();
        assert_eq!((&stored["queue"], &stored["dueAt"]), (&"repair".into(), &46_000.into()));
        assert!(stored["lane"].is_null() && stored["ttl"].is_null());
        job.go_on_at(5_000);
        assert_eq!(job.due(), Some(5_000 + GRACE_MS));
        job.end(BatchState::Completed, 9_000);
        let stored = serde_json::to_value(&job).unwrap();
        assert!(stored["queue"].is_null() && stored["dueAt"].is_null() && stored["ttl"].is_u64());
        assert_eq!(BatchJobDoc::name_of(&job.id), "7");
    }
}
