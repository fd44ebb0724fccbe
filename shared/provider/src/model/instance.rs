//! The instance document (id `instance`) and the documents of earlier executions (id `x:{execution}`).
//!
//! The instance document carries the state of the current execution; when a newer execution begins, that state is
//! copied into an execution document, so that an ordinary turn writes neither more nor larger documents, and
//! earlier executions keep their own times, outputs and counts.

use super::Kind;
use serde::{Deserialize, Serialize};

pub(crate) const RUNNING: &str = "Running";

/// duroxide's terminal statuses.
pub(crate) fn is_terminal(status: &str) -> bool {
    matches!(status, "Completed" | "Failed" | "ContinuedAsNew")
}

/// What is known of one execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionState {
    pub execution: u64,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    pub started_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<u64>,
    /// How many events the execution has: a history that is shorter was read from a stale replica.
    pub events: u64,
    pub event_bytes: u64,
    pub last_event_id: u64,
    /// The commit that wrote the newest history documents: the end of their chain.
    #[serde(default)]
    pub head: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<semver::Version>,
    /// Events that the execution inherited and has not seen yet when it began.
    #[serde(default)]
    pub carried: u64,
}

impl ExecutionState {
    /// A running execution without events.
    pub(crate) fn new(execution: u64, now_ms: u64) -> Self {
        ExecutionState {
            execution,
            status: RUNNING.to_owned(),
            output: None,
            started_at: now_ms,
            completed_at: None,
            events: 0,
            event_bytes: 0,
            last_event_id: 0,
            head: String::new(),
            pinned: None,
            carried: 0,
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceDoc {
    id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    sort_key: String,
    /// `None` until a turn has told the name: duroxide calls an instance created only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    pub created_at: u64,
    pub updated_at: u64,
    #[serde(flatten)]
    pub current: ExecutionState,
    /// The commit that wrote this document: it must be the lock's last one, else the read was stale.
    #[serde(default)]
    pub commit: String,
    /// Executions that are kept, the current one included, and the events of the earlier ones.
    pub executions: u64,
    #[serde(default)]
    pub earlier_events: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_status: Option<String>,
    #[serde(default)]
    pub custom_status_version: u64,
    /// Counts the commits that changed a key; the newest key document carries it.
    #[serde(default)]
    pub kv_rev: u64,
}

impl InstanceDoc {
    pub(crate) const ID: &str = "instance";

    /// An instance that nothing is known of yet.
    pub(crate) fn new(pk: &str, execution: u64, now_ms: u64) -> Self {
        InstanceDoc {
            id: Self::ID.to_owned(),
            pk: pk.to_owned(),
            kind: Kind::Instance,
            sort_key: "2".to_owned(),
            name: None,
            version: None,
            parent: None,
            created_at: now_ms,
            updated_at: now_ms,
            current: ExecutionState::new(execution, now_ms),
            commit: String::new(),
            executions: 1,
            earlier_events: 0,
            custom_status: None,
            custom_status_version: 0,
            kv_rev: 0,
        }
    }
}

/// An execution that a newer one has followed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionDoc {
    id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(flatten)]
    pub state: ExecutionState,
}

impl ExecutionDoc {
    pub(crate) fn new(pk: &str, state: ExecutionState) -> Self {
        ExecutionDoc {
            id: Self::id(state.execution),
            pk: pk.to_owned(),
            kind: Kind::Execution,
            state,
        }
    }

    pub(crate) fn id(execution: u64) -> String {
        format!("x:{execution}")
    }
}
