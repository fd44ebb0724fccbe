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

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeletionDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    queue: Queue,
    due_at: u64,
    slot: u8,
    pub group: String,
    pub instances: Vec<String>,
    #[serde(default)]
    pub given_up: bool,
}

impl DeletionDoc {
    pub(crate) fn new(pk: &str, group: &str, due_at: u64, instances: &[String]) -> Self {
        DeletionDoc {
            id: Self::id(group),
            pk: pk.to_owned(),
            kind: Kind::Deletion,
            queue: Queue::Repair,
            due_at,
            slot: slot(pk),
            group: group.to_owned(),
            instances: instances.to_vec(),
            given_up: false,
        }
    }

    /// The same deletion, decided against.
    pub(crate) fn given_up(&self) -> Self {
        DeletionDoc { given_up: true, ..self.clone() }
    }

    pub(crate) fn id(group: &str) -> String {
        format!("d:{group}")
    }
}
