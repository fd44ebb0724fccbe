//! Deletions: id `d:{group}`, in a partition of its own: `pk` is the group. An instance is often deleted because its
//! partition is full, and then nothing can be created there.
//!
//! The instances of a tree live in different partitions, so no batch can delete them together. One document is the
//! decision: before it exists the deletion can be aborted; once it exists the group is deleted, by any process that
//! continues it. The lock of each partition names the group from before the decision until the lock itself is deleted.
//!
//! To abort is a decision too, under the same id: a process that meets the mark of an undecided deletion first creates
//! the document as *aborted*, so that a slow decider conflicts instead of deleting half a tree.

use super::{Kind, Lane, Queue, Schema};
use serde::{Deserialize, Serialize};

/// No decider can be slower than this.
const ABORTED_TTL_SECONDS: u32 = 24 * 3600;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeletionDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<Queue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lane: Option<Lane>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_at: Option<u64>,
    pub group: String,
    pub instances: Vec<String>,
    #[serde(rename = "givenUp", default)]
    pub aborted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
    #[serde(flatten)]
    schema: Schema,
}

impl DeletionDoc {
    pub(crate) fn new(group: &str, due_at: u64, instances: &[String]) -> Self {
        DeletionDoc {
            id: Self::id(group),
            pk: group.to_owned(),
            kind: Kind::Deletion,
            queue: Some(Queue::Repair),
            lane: Some(Lane::Turn),
            due_at: Some(due_at),
            group: group.to_owned(),
            instances: instances.to_vec(),
            aborted: false,
            ttl: None,
            schema: Schema::default(),
        }
    }

    /// The same deletion, aborted. It is in no queue, because nothing is left to do; it stays until its TTL, so that a
    /// slow decider conflicts.
    pub(crate) fn abort(&self) -> Self {
        DeletionDoc {
            aborted: true,
            queue: None,
            lane: None,
            due_at: None,
            ttl: Some(ABORTED_TTL_SECONDS),
            ..self.clone()
        }
    }

    pub(crate) fn id(group: &str) -> String {
        format!("d:{group}")
    }
}
