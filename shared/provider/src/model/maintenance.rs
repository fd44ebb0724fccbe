//! The state between runs of maintenance: id `maintenance`, in the partition `maintenance`.
//!
//! An instance or an affinity session may have the same name: they share a logical partition and nothing else, because
//! the ids differ, no query of an instance names this type, and deleting the instance keeps it. It is in no queue, and
//! written only in the version that was read, so that of two runs at once one notices the other.

use super::{Kind, Schema};
use serde::{Deserialize, Serialize};

/// A sweep that its run did not finish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedSweep {
    /// The time of the run that began it (Unix ms).
    pub now_ms: u64,
    /// The run before that one (Unix ms).
    pub last_run_ms: u64,
    /// What is due up to then was examined (Unix ms).
    pub after_ms: u64,
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MaintenanceDoc {
    id: String,
    pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default)]
    pub last_run_ms: u64,
    #[serde(default)]
    pub notified_until_ms: u64,
    #[serde(default)]
    pub retained_ms: u64,
    #[serde(default)]
    pub sessions_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<UnfinishedSweep>,
    /// Unique to one write, so that a writer whose response was lost can recognise its own document.
    #[serde(default)]
    pub nonce: String,
    #[serde(flatten)]
    pub schema: Schema,
}

impl MaintenanceDoc {
    pub(crate) const ID: &str = "maintenance";
    pub(crate) const PK: &str = "maintenance";

    pub(crate) fn new(nonce: String) -> Self {
        MaintenanceDoc {
            id: Self::ID.to_owned(),
            pk: Self::PK.to_owned(),
            kind: Kind::Maintenance,
            last_run_ms: 0,
            notified_until_ms: 0,
            retained_ms: 0,
            sessions_ms: 0,
            sweep: None,
            nonce,
            schema: Schema::default(),
        }
    }
}

/// How far retention came: id `retention`, in the same partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetentionDoc {
    id: String,
    pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    /// Children that ended before then were examined (Unix ms).
    #[serde(default)]
    pub examined_until: u64,
    #[serde(flatten)]
    schema: Schema,
}

impl RetentionDoc {
    pub(crate) const ID: &str = "retention";
    pub(crate) const PK: &str = MaintenanceDoc::PK;

    pub(crate) fn new() -> Self {
        RetentionDoc {
            id: Self::ID.to_owned(),
            pk: Self::PK.to_owned(),
            kind: Kind::Maintenance,
            examined_until: 0,
            schema: Schema::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_and_newer_documents_can_be_read() {
        let old = r#"{"id":"maintenance","pk":"maintenance","type":"maintenance","lastRunMs":5,"new":{"field":1}}"#;
        let doc: MaintenanceDoc = serde_json::from_str(old).unwrap();
        assert_eq!((doc.last_run_ms, doc.notified_until_ms, doc.sweep), (5, 0, None));
    }
}
