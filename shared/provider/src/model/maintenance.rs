//! The state between runs of maintenance: id `maintenance`, in the partition `maintenance`.
//!
//! An instance or an affinity session may have the same name: they share a logical partition and nothing else, because
//! the ids differ, no query of an instance names this type, and deleting the instance keeps it. It is in no queue, and
//! written only in the version that was read, so that of two runs at once one notices the other.

use super::{Kind, Schema, digest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// What maintenance remembers of one queue of wakeups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueState {
    /// When the newest probe was sent that came through the queue (Unix ms): nothing that was sent before it is in the queue.
    pub passed_ms: u64,
    /// The first probe since then that did not come through yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaited: Option<AwaitedProbe>,
    /// What was woken again since, by which run, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reminded: Vec<RemindedSpan>,
}

/// Items that one run woke again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RemindedSpan {
    /// The due time of the oldest of them (Unix ms).
    pub from_ms: u64,
    /// The due time of the newest of them (Unix ms).
    pub until_ms: u64,
    /// The time of the run (Unix ms).
    pub at_ms: u64,
}

/// A probe in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AwaitedProbe {
    /// When it was sent (Unix ms).
    pub sent_ms: u64,
    /// How many wakeups were in the queue before it.
    pub ahead: u64,
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
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queues: BTreeMap<String, QueueState>,
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
            queues: BTreeMap::new(),
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

/// A probe that came through its queue: id `probe:{hash of the queue's name}:{time}`, in the same partition.
///
/// Each is written once and never again, so that noting it twice has no effect and a late note hides no newer one.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProbeDoc<'a> {
    id: String,
    pk: &'static str,
    #[serde(rename = "type")]
    kind: Kind,
    /// The name of the queue. The field `queue` has another meaning.
    probe_of: &'a str,
    sent_ms: u64,
    passed_ms: u64,
    ttl: u32,
    #[serde(flatten)]
    schema: Schema,
}

impl<'a> ProbeDoc<'a> {
    pub(crate) const PK: &'static str = MaintenanceDoc::PK;
    /// In seconds. Runs that are farther apart send a new probe.
    const TTL: u32 = 3_600;

    pub(crate) fn new(queue: &'a str, sent_ms: u64, passed_ms: u64) -> Self {
        ProbeDoc {
            // A queue has the name of a tag, which may have characters that an id may not have.
            id: format!("probe:{}:{sent_ms}", &digest(queue)[..16]),
            pk: Self::PK,
            kind: Kind::Maintenance,
            probe_of: queue,
            sent_ms,
            passed_ms,
            ttl: Self::TTL,
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
