//! What is known of one instance besides its state: events, executions, keys, its tree, sizes.

use super::{Blocked, Instance, Payload, Rewind, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of the events of one execution, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The instance.
    pub instance: String,
    /// The execution.
    pub execution: u64,
    /// The events, as duroxide records them. Inputs and results are texts there.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<Payload>,
    /// The attempts of the activities that this page's events have scheduled or completed, and, on the last page, of all that are
    /// open: of two pages, the later one is right.
    pub attempts: Vec<ActivityAttempts>,
    /// The `after` of the next page; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<u64>,
    /// How often the instance was rewound. If it is more than it was, events that a reader has may be undone: read all of them again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rewinds: u64,
    /// The rewind that has undone these events, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<Rewind>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The attempts of an activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityAttempts {
    /// The id of the event that scheduled it.
    pub activity: u64,
    /// Whether it has not completed.
    pub open: bool,
    /// The name of an activity that has not completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How often it was begun.
    pub attempts: u32,
    /// When the attempt began that runs now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_since: Option<String>,
    /// The newest attempts that have ended, the oldest first.
    pub ended: Vec<EndedAttempt>,
    /// Why no worker runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
}

/// One attempt that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedAttempt {
    /// Which one, from 1.
    pub number: u32,
    /// When it began.
    pub began_at: String,
    /// When it ended.
    pub ended_at: String,
    /// `completed`, `failed`, `timed-out`, `released`, `lost` or `unknown`.
    pub end: String,
}

/// A page of the executions of an instance, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionList {
    /// The executions that are kept.
    pub executions: Vec<Execution>,
    /// The `after` of the next page; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<u64>,
}

/// One execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// Its number, from 1.
    pub execution: u64,
    /// What it is.
    pub status: Status,
    /// How many events it has.
    pub events: u64,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
}

/// An instance and those that it has started, directly or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tree {
    /// The instance that was asked for.
    pub root: String,
    /// A page of them: the root first, then by id. `parent` says where each belongs.
    pub instances: Vec<Instance>,
    /// The `after` of the next page; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// A page of the keys that an instance has set, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyValueList {
    /// The keys with their values.
    pub values: Vec<KeyValue>,
    /// With `atStart`, the execution that found the keys so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The `after` of the next page; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// One key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct KeyValue {
    pub key: String,
    pub value: String,
    /// With `atStart`, when it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_at: Option<String>,
}

/// The sizes of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Events of the current execution.
    pub events: u64,
    /// Their bytes.
    pub history_bytes: u64,
    /// Queued messages that the execution before has left to this one.
    pub carried_messages: u64,
    /// Keys.
    pub keys: u64,
    /// The bytes of their values.
    pub key_bytes: u64,
}
