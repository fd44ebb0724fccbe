//! Dead letters: id `dead:{u|n|t|a}:{unique}`, what was given up, in the partition of the instance that it is about.
//!
//! The batch that gives up writes the dead letter: it also removes the intent, or fails the turn or the activity. The id
//! derives from what was given up, so that neither a crash nor a concurrent writer writes it twice. The document is in
//! the `dead` queue, which no sweep reads, and expires by its TTL. Deleting the instance deletes it; retention keeps the
//! instance while it exists.
//!
//! `sortKey` orders the list: the time, then a digest of the address. It is unique, so the newest-first list can continue
//! after any dead letter, whatever was added or discarded meanwhile; and it is indexed already.

use super::{AttemptEnd, Kind, MessageDoc, Queue, Schema, digest};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadLetterKind {
    /// A message to another instance, which could not be delivered.
    Undeliverable,
    /// A message to an instance that did not exist, and was not started within the grace period.
    NoInstance,
    /// A turn that was fetched too often without being committed: the instance failed.
    PoisonTurn,
    /// An activity that was fetched too often without being completed: it failed.
    PoisonActivity,
    /// Of a newer version of this crate.
    #[serde(other)]
    Unknown,
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetterDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    queue: Queue,
    /// When it was given up. Not `dueAt`: nothing waits for it, and no sweep must examine it.
    #[serde(rename = "givenUpAt")]
    pub at: u64,
    pub sort_key: String,
    ttl: u32,
    pub given_up: GivenUp,
    #[serde(flatten)]
    schema: Schema,
}

/// What was given up, and why.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GivenUp {
    pub cause: DeadLetterKind,
    pub reason: String,
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The name of the orchestration or activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The instance that the message was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The message that could not be delivered, or was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageDoc>,
    /// The work items that were given up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Box<RawValue>>,
    /// How many items were too large to keep.
    #[serde(default)]
    pub omitted: u32,
}

/// Why a claimed activity is given up.
#[derive(Clone, Debug)]
pub struct GivenUpWork {
    /// The activity's name.
    pub name: String,
    /// The reason that the dead letter shows.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// How the attempt of this claim ended; `None` if it was not begun.
    pub end: Option<AttemptEnd>,
}

impl DeadLetterDoc {
    /// `name` must be unique among the dead letters of this kind in the partition.
    pub(crate) fn new(pk: &str, name: &str, at_ms: u64, ttl: u32, given_up: GivenUp) -> Self {
        let id = match given_up.cause {
            DeadLetterKind::Undeliverable => format!("dead:u:{name}"),
            DeadLetterKind::NoInstance => format!("dead:n:{name}"),
            DeadLetterKind::PoisonTurn => format!("dead:t:{name}"),
            DeadLetterKind::PoisonActivity => format!("dead:a:{name}"),
            DeadLetterKind::Unknown => format!("dead:x:{name}"),
        };
        DeadLetterDoc {
            sort_key: format!("4:{at_ms:015}:{}", &Self::digest(pk, &id)[..16]),
            id,
            pk: pk.to_owned(),
            kind: Kind::DeadLetter,
            queue: Queue::Dead,
            at: at_ms,
            ttl,
            given_up,
            schema: Schema::default(),
        }
    }

    /// The part of the id after the prefix.
    pub(crate) fn name(&self) -> &str {
        self.id.splitn(3, ':').last().unwrap_or(&self.id)
    }

    /// Whether this is the id of a dead letter.
    pub(crate) fn is_id(id: &str) -> bool {
        id.starts_with("dead:")
    }

    /// Whether this is the sort key of a dead letter.
    pub(crate) fn is_sort_key(text: &str) -> bool {
        let parts: Vec<&str> = text.split(':').collect();
        let [prefix, at_ms, digest] = parts[..] else {
            return false;
        };
        let is_number = at_ms.len() == 15 && at_ms.bytes().all(|byte| byte.is_ascii_digit());
        let is_digest = digest.len() == 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        prefix == "4" && is_number && is_digest
    }

    /// A stable digest of the dead letter's address.
    pub(crate) fn digest(pk: &str, id: &str) -> String {
        digest(&format!("{id}\n{pk}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead_letter(pk: &str, at_ms: u64) -> DeadLetterDoc {
        let given_up = GivenUp {
            cause: DeadLetterKind::PoisonTurn,
            reason: "r".to_owned(),
            attempts: 1,
            execution: Some(1),
            name: None,
            target: None,
            message: None,
            items: Vec::new(),
            omitted: 0,
        };
        DeadLetterDoc::new(pk, "c", at_ms, 60, given_up)
    }

    #[test]
    fn dead_letters_are_ordered_by_time_and_unique_within_a_millisecond() {
        let (old, new, other) = (dead_letter("a", 9), dead_letter("a", 10), dead_letter("b", 10));
        assert!(old.sort_key < new.sort_key);
        assert_ne!(new.sort_key, other.sort_key);
        assert_eq!(new.sort_key, dead_letter("a", 10).sort_key);
        assert!(DeadLetterDoc::is_sort_key(&new.sort_key));
        for other in [
            "",
            "9",
            "4:",
            "4:10:00",
            "3:000000000000010:0123456789abcdef",
            "yesterday",
        ] {
            assert!(!DeadLetterDoc::is_sort_key(other), "{other}");
        }
    }

    #[test]
    fn a_dead_letter_of_a_newer_version_can_be_read() {
        let text = serde_json::to_string(&dead_letter("a", 1)).unwrap();
        let text = text.replace("poison-turn", "something-new");
        let back: DeadLetterDoc = serde_json::from_str(&text).unwrap();
        assert_eq!(back.given_up.cause, DeadLetterKind::Unknown);
    }
}
