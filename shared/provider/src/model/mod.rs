//! The documents, one file per type. Each file owns the ids and the serde of its type; no other module builds them.
//!
//! Ids never contain the instance id, which may hold characters that a document id may not: it is the partition key
//! instead. Documents that must be found without knowing their partition share these fields:
//!
//! Each has its type and a schema version, `v` (`version`).
//!
//! | field | meaning |
//! |---|---|
//! | `queue` | `turn`: a message; `work`: an activity; `repair`: an intent, an unfinished commit, a deletion, a batch, or a message of an instance that does not exist; `dead`: a dead letter |
//! | `dueAt` | due from then on (Unix ms); a claimed work item is due again when its claim expires; only what waits has it |
//! | `queuedAt` | when it was queued (Unix ms); it never moves |
//! | `lane` | `turn`: a sweep for turns finds it: a message, or something in the queue `repair` |

mod attempts;
mod batch_job;
mod blocked;
mod dead;
mod deletion;
mod history;
mod instance;
mod intent;
mod kept;
mod key_receipt;
mod kv;
mod lock;
mod maintenance;
mod message;
mod paused;
mod rewind;
mod scratch;
mod session;
pub(crate) mod sql;
mod staged;
mod tags;
mod text;
mod usage;
mod version;
mod work;

pub use attempts::{Attempt, AttemptEnd};
pub(crate) use attempts::{AttemptLog, CompletedAttempts};
pub(crate) use batch_job::{BATCHES, BatchFailuresDoc, BatchJobDoc, Planned};
pub use batch_job::{BatchCounts, BatchFailure, BatchSample, BatchState};
pub(crate) use blocked::noted;
pub use blocked::{Block, BlockCause, Blocked};
pub(crate) use dead::{DeadLetterDoc, GivenUp};
pub use dead::{DeadLetterKind, GivenUpWork};
pub(crate) use deletion::DeletionDoc;
pub(crate) use history::{
    HistoryDoc, HistoryEnd, HistoryError, HistoryLink, HistoryPart, assemble, assemble_after, assemble_end, chain_of,
    chain_start, first_document,
};
pub(crate) use instance::{ExecutionDoc, ExecutionState, InstanceDoc, ParentCall, Status};
pub(crate) use intent::IntentDoc;
pub(crate) use kept::{Kept, KeptCall, KeptResultDoc};
pub(crate) use key_receipt::{KeyReceiptDoc, KeyedRequest};
pub(crate) use kv::{KvDoc, Scope};
pub(crate) use lock::{Deleting, Lock, Unfinished};
pub use maintenance::{AwaitedProbe, QueueState, RemindedSpan, UnfinishedSweep};
pub(crate) use maintenance::{MaintenanceDoc, ProbeDoc, RetentionDoc};

pub(crate) use message::{Envelope, MessageDoc, Receipt, ReceiptDoc, is_start, target_of};
pub use paused::Paused;
pub(crate) use paused::{PARKED_MS, PausePhase};
pub(crate) use rewind::Rewinds;
pub use rewind::{ForkedFrom, Rewind};
pub(crate) use scratch::ScratchDoc;
pub(crate) use session::SessionDoc;
pub(crate) use staged::{StagedDoc, StagedHead, StagedOp, StagedOpKind};
pub use tags::{TagError, Tags};
pub(crate) use text::TextDoc;
pub(crate) use usage::InstanceUsage;
pub use usage::{LateUsage, Usage};
#[cfg(feature = "testing")]
pub use version::testing;
pub(crate) use version::{Foreign, Listed, Schema, check_version, newest_version, schema_version};
pub use work::Orchestration;
pub(crate) use work::WorkDoc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// The kind of a document, stored as `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Instance,
    Execution,
    History,
    Message,
    Receipt,
    Work,
    Intent,
    Kv,
    Session,
    Staged,
    StagedHead,
    Deletion,
    DeadLetter,
    Maintenance,
    Text,
    BatchJob,
    BatchFailures,
    KeptResult,
    Scratch,
    /// Of a newer version of this crate: left alone.
    #[serde(other)]
    Unknown,
}

impl Kind {
    /// The kind of a document that cannot be decoded as a whole.
    pub(crate) fn of(raw: &RawValue) -> Kind {
        serde_json::from_str::<Header>(raw.get()).map_or(Kind::Unknown, |header| header.kind)
    }
}

/// Which queue a document is in, stored as `queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Queue {
    Turn,
    Work,
    /// For recovery.
    Repair,
    Dead,
}

/// Who sweeps a document, stored as `lane`. Two queues share a lane, because one query cannot read two queues in the order of
/// `dueAt` from a composite index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Lane {
    #[default]
    Turn,
}

/// What every document has: its type and schema version, known before the rest is decoded.
#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(default)]
    pub v: Option<serde_json::Value>,
}

/// Hex of a SHA-256, for ids made of text that an id may not hold.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_fits_a_document_id() {
        assert!(digest("a/b?#\\").chars().all(|c| c.is_ascii_hexdigit()));
    }
}
