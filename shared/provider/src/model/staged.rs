//! What does not fit into one batch: staged operations (id `s:{commit}:{n}`) and their head (id `s:{commit}`).
//!
//! A staged document has the operations of one later batch. It has no effect until the commit's decisive batch names the
//! commit in the lock. It is then published by the first process that comes, in order; each batch advances the lock's
//! counter with `If-Match`, so that no operation is published twice. The head is written first; it lists the history
//! documents that were staged under their final ids, so that recovery can remove what an undecided commit has staged. A
//! staged document is also due by itself: its maker may have been so slow that the head was removed before it wrote.

use super::{Kind, Lane, Queue, Schema};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One operation of a batch, as it is stored and sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum StagedOpKind {
    Create,
    Upsert,
    /// Must exist in exactly this version.
    Replace {
        etag: String,
    },
    /// Must exist in exactly this version.
    Delete {
        etag: String,
    },
    /// May be gone already, like an activity that completed before it was cancelled.
    Discard,
}

/// See [`StagedOpKind`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StagedOp {
    pub id: String,
    pub op: StagedOpKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
}

impl StagedOp {
    pub(crate) fn create(id: &str, doc: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::with_body(id, StagedOpKind::Create, doc)
    }

    pub(crate) fn upsert(id: &str, doc: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::with_body(id, StagedOpKind::Upsert, doc)
    }

    pub(crate) fn replace(id: &str, etag: &str, doc: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::with_body(id, StagedOpKind::Replace { etag: etag.to_owned() }, doc)
    }

    pub(crate) fn delete(id: &str, etag: &str) -> Self {
        StagedOp {
            id: id.to_owned(),
            op: StagedOpKind::Delete { etag: etag.to_owned() },
            body: None,
        }
    }

    pub(crate) fn discard(id: &str) -> Self {
        StagedOp {
            id: id.to_owned(),
            op: StagedOpKind::Discard,
            body: None,
        }
    }

    fn with_body(id: &str, op: StagedOpKind, doc: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(StagedOp {
            id: id.to_owned(),
            op,
            body: Some(serde_json::value::to_raw_value(doc)?),
        })
    }

    /// The size of the operation in a request: its body, its id, its ETag and the syntax around them.
    pub(crate) fn bytes(&self) -> usize {
        const SYNTAX: usize = 160;
        SYNTAX + self.id.len() + self.body.as_ref().map_or(0, |body| body.get().len())
    }
}

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StagedDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    queue: Queue,
    #[serde(default)]
    lane: Lane,
    due_at: u64,
    pub commit: String,
    pub ops: Vec<StagedOp>,
    #[serde(flatten)]
    schema: Schema,
}

impl StagedDoc {
    pub(crate) fn new(pk: &str, commit: &str, n: u32, due_at: u64, ops: Vec<StagedOp>) -> Self {
        StagedDoc {
            id: Self::id(commit, n),
            pk: pk.to_owned(),
            kind: Kind::Staged,
            queue: Queue::Repair,
            lane: Lane::Turn,
            due_at,
            commit: commit.to_owned(),
            ops,
            schema: Schema::default(),
        }
    }

    pub(crate) fn id(commit: &str, n: u32) -> String {
        format!("s:{commit}:{n}")
    }
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StagedHead {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    queue: Queue,
    #[serde(default)]
    lane: Lane,
    pub due_at: u64,
    pub commit: String,
    pub staged: u32,
    pub history: Vec<String>,
    #[serde(flatten)]
    schema: Schema,
}

impl StagedHead {
    pub(crate) fn new(pk: &str, commit: &str, due_at: u64, staged: u32, history: Vec<String>) -> Self {
        StagedHead {
            id: Self::id(commit),
            pk: pk.to_owned(),
            kind: Kind::StagedHead,
            queue: Queue::Repair,
            lane: Lane::Turn,
            due_at,
            commit: commit.to_owned(),
            staged,
            history,
            schema: Schema::default(),
        }
    }

    pub(crate) fn id(commit: &str) -> String {
        format!("s:{commit}")
    }

    /// The ids of all documents that the commit may have staged, the head last.
    pub(crate) fn everything(&self) -> Vec<String> {
        let mut ids = self.history.clone();
        ids.extend((0..self.staged).map(|n| StagedDoc::id(&self.commit, n)));
        ids.push(self.id.clone());
        ids
    }
}
