//! Intents: id `o:{unique}`, one owed write of a message into another partition.
//!
//! An intent is created by the batch that decides it, delivered after that batch, and deleted after its delivery. A
//! crash anywhere in between leaves it due in the `repair` queue.

use super::{Kind, MessageDoc, Queue, slot};
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
    pub due_at: u64,
    slot: u8,
    pub message: MessageDoc,
}

impl IntentDoc {
    /// `name` must be unique for ever; the message's id should be derived from it.
    pub(crate) fn new(pk: &str, name: &str, due_at: u64, message: MessageDoc) -> Self {
        IntentDoc {
            id: format!("o:{name}"),
            pk: pk.to_owned(),
            kind: Kind::Intent,
            queue: Queue::Repair,
            due_at,
            slot: slot(pk),
            message,
        }
    }
}
