//! Affinity sessions: id `session`, in the partition named by the session id.
//!
//! An instance may have the same name as a session: they then share a logical partition and nothing else. The document
//! says which owner the activities of the session go to, and until when.

use super::{Kind, Schema};
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionDoc {
    id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    pub owner: String,
    pub until: u64,
    pub active_at: u64,
    /// Filled by the service on reads.
    #[serde(rename = "_etag", default, skip_serializing)]
    pub etag: String,
    #[serde(flatten)]
    schema: Schema,
}

impl SessionDoc {
    pub(crate) const ID: &str = "session";

    pub(crate) fn new(session: &str, owner: &str, until: u64, now_ms: u64) -> Self {
        SessionDoc {
            id: Self::ID.to_owned(),
            pk: session.to_owned(),
            kind: Kind::Session,
            owner: owner.to_owned(),
            until,
            active_at: now_ms,
            etag: String::new(),
            schema: Schema::default(),
        }
    }

    /// The session after its claim by that owner.
    pub(crate) fn claimed(&self, owner: &str, until: u64, now_ms: u64) -> Self {
        SessionDoc {
            owner: owner.to_owned(),
            until,
            active_at: now_ms,
            ..self.clone()
        }
    }

    /// Whether another owner has it now.
    pub(crate) fn is_owned_by_other(&self, owner: &str, now_ms: u64) -> bool {
        self.until > now_ms && self.owner != owner
    }
}
