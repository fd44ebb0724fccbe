//! Deletions: id `d:{group}`, in the partition of the first instance of the group.
//!
//! Instances of one tree live in different partitions, so no batch can delete them together. The decision is one
//! document: before it exists the group can still be given up, once it exists the group is deleted, by whoever
//! deletes on. Each partition's lock names the group from before the decision until the lock itself is deleted.
//!
//! Giving up is a decision too, under the same id: whoever meets the mark of a deletion that was never decided
//! creates the document as *given up* first, so that a slow decider conflicts instead of deleting half a tree.

use super::{Kind, Queue, slot};
use serde::{Deserialize, Serialize};

/// How late a decider can possibly be.
const GIVEN_UP_TTL_SECONDS: u32 = 24 * 3600;

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
    due_at: u64,
    slot: u8,
    pub group: String,
    pub instances: Vec<String>,
    #[serde(default)]
    pub given_up: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
}

impl DeletionDoc {
    pub(crate) fn new(pk: &str, group: &str, due_at: u64, instances: &[String]) -> Self {
        DeletionDoc {
            id: Self::id(group),
            pk: pk.to_owned(),
            kind: Kind::Deletion,
            queue: Some(Queue::Repair),
            due_at,
            slot: slot(pk),
            group: group.to_owned(),
            instances: instances.to_vec(),
            given_up: false,
            ttl: None,
        }
    }

    /// The same deletion, decided against. Nobody has to act on it, so it is in no queue; it stays, until its TTL,
    /// for a decider that comes late.
    pub(crate) fn given_up(&self) -> Self {
        DeletionDoc {
            given_up: true,
            queue: None,
            ttl: Some(GIVEN_UP_TTL_SECONDS),
            ..self.clone()
        }
    }

    pub(crate) fn id(group: &str) -> String {
        format!("d:{group}")
    }
}
