//! The instance document (id `instance`) and the documents of earlier executions (id `x:{execution}`).
//!
//! The instance document has the state of the current execution. When a newer execution begins, that state is copied
//! into an execution document, so that earlier executions keep their times, outputs and counts, and an ordinary turn
//! writes only the instance document.

use super::{Kind, Schema};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The status of an execution, in duroxide's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(crate) enum Status {
    Running,
    Completed,
    Failed,
    ContinuedAsNew,
    /// Of a newer duroxide.
    Other(String),
}

impl Status {
    /// Whether the execution has ended.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_over() || *self == Status::ContinuedAsNew
    }

    /// Whether the instance has ended. One that continued as new has not: its next execution is about to begin.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Status::Completed | Status::Failed)
    }
}

impl From<String> for Status {
    fn from(text: String) -> Self {
        match text.as_str() {
            "Running" => Status::Running,
            "Completed" => Status::Completed,
            "Failed" => Status::Failed,
            "ContinuedAsNew" => Status::ContinuedAsNew,
            _ => Status::Other(text),
        }
    }
}

impl From<Status> for String {
    fn from(status: Status) -> String {
        match status {
            Status::Other(text) => text,
            known => format!("{known:?}"),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(self.clone()))
    }
}

/// What is known of one execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionState {
    pub execution: u64,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    pub started_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<u64>,
    /// How many events the execution has: a shorter history was read from a stale replica.
    pub events: u64,
    pub event_bytes: u64,
    pub last_event_id: u64,
    /// The commit that wrote the newest history documents: the end of their chain.
    #[serde(default)]
    pub head: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<semver::Version>,
    /// Unconsumed events that the execution inherited from the one before.
    #[serde(default)]
    pub carried: u64,
}

impl ExecutionState {
    /// A running execution without events.
    pub(crate) fn new(execution: u64, now_ms: u64) -> Self {
        ExecutionState {
            execution,
            status: Status::Running,
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

/// The call in a parent that a child answers when it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ParentCall {
    /// The execution of the parent; `None` when the start did not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The id of the event that scheduled the child.
    pub id: u64,
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
    /// `None` until a turn has set it: for duroxide an instance exists from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<ParentCall>,
    pub created_at: u64,
    pub updated_at: u64,
    #[serde(flatten)]
    pub current: ExecutionState,
    /// The commit that wrote this document. If it is not the lock's newest, the read was stale.
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
    /// Counts the commits that changed a key; the newest key document has the same number.
    #[serde(default)]
    pub kv_rev: u64,
    #[serde(flatten)]
    schema: Schema,
}

impl InstanceDoc {
    pub(crate) const ID: &str = "instance";

    /// An instance before its first turn.
    pub(crate) fn new(pk: &str, execution: u64, now_ms: u64) -> Self {
        InstanceDoc {
            id: Self::ID.to_owned(),
            pk: pk.to_owned(),
            kind: Kind::Instance,
            sort_key: "2".to_owned(),
            name: None,
            version: None,
            parent: None,
            parent_call: None,
            created_at: now_ms,
            updated_at: now_ms,
            current: ExecutionState::new(execution, now_ms),
            commit: String::new(),
            executions: 1,
            earlier_events: 0,
            custom_status: None,
            custom_status_version: 0,
            kv_rev: 0,
            schema: Schema::default(),
        }
    }
}

/// An earlier execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionDoc {
    id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(flatten)]
    pub state: ExecutionState,
    #[serde(flatten)]
    schema: Schema,
}

impl ExecutionDoc {
    pub(crate) fn new(pk: &str, state: ExecutionState) -> Self {
        ExecutionDoc {
            id: Self::id(state.execution),
            pk: pk.to_owned(),
            kind: Kind::Execution,
            state,
            schema: Schema::default(),
        }
    }

    /// The same without events: its history is about to be deleted.
    pub(crate) fn emptied(&self) -> Self {
        let mut empty = self.clone();
        empty.state.events = 0;
        empty.state.event_bytes = 0;
        empty.state.head = String::new();
        empty
    }

    pub(crate) fn id(execution: u64) -> String {
        format!("x:{execution}")
    }
}
