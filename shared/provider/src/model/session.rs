//! Affinity sessions: id `session`, in the partition named by the session id.
//!
//! An instance may have the same name as a session: they then share a logical partition and nothing else. The document
//! says which owner the activities of the session go to, and until when. It is in no queue, but it has `dueAt`, so that
//! maintenance sees expired sessions together with everything else that waits (`maintain::look`).

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
    /// The same time: from then on maintenance may remove the session. Documents of older releases have none.
    #[serde(default)]
    due_at: u64,
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
            due_at: until,
            active_at: now_ms,
            etag: String::new(),
            schema: Schema::default(),
        }
    }

    /// The session after its claim by that owner.
    pub(crate) fn claimed(&self, owner: &str, until: u64, now_ms: u64) -> Self {
        SessionDoc {
            owner: owner.to_owned(),
            active_at: now_ms,
            ..self.clone().extended(until)
        }
    }

    /// The session with a later end.
    pub(crate) fn extended(self, until: u64) -> Self {
        SessionDoc {
            until,
            due_at: until,
            ..self
        }
    }

    /// The session after its use. It also gets a due time, if an older release wrote it.
    pub(crate) fn touched(self, now_ms: u64) -> Self {
        let until = self.until;
        SessionDoc {
            active_at: now_ms,
            ..self.extended(until)
        }
    }

    /// Whether another owner has it now.
    pub(crate) fn is_owned_by_other(&self, owner: &str, now_ms: u64) -> bool {
        self.until > now_ms && self.owner != owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_due_when_it_ends_however_it_was_written() {
        let new = SessionDoc::new("s", "one", 10, 1);
        let old = r#"{"id":"session","pk":"s","type":"session","owner":"one","until":10,"activeAt":1}"#;
        let old: SessionDoc = serde_json::from_str(old).unwrap();
        for doc in [
            new.clone(),
            new.claimed("two", 20, 5),
            new.clone().extended(30),
            new.touched(5),
            old.clone().touched(5),
            old.claimed("two", 20, 5),
            old.extended(30),
        ] {
            assert_eq!(doc.due_at, doc.until, "{doc:?}");
        }
    }
}
