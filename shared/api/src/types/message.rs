//! What a running instance is sent: events, queue messages, a cancellation; what pauses it; and what removes it.

use super::Payload;
use super::payload::present;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The data of an event or a queue message; none is the empty text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventRequest {
    /// The data, any JSON value: the workflow gets its JSON text.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub data: Option<Payload>,
    /// The data as the very text that the workflow gets. Instead of `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_text: Option<String>,
}

/// A message that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// The instance.
    pub instance: String,
    /// Whether an earlier request with the same key had sent it.
    pub repeated: bool,
}

/// Why an instance is cancelled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelRequest {
    /// The reason, which becomes a part of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub reason: Option<String>,
}

/// Why an instance is paused, and what with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseRequest {
    /// Also all its descendants.
    #[serde(default)]
    pub children: bool,
    /// The reason, which its status shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub reason: Option<String>,
}

/// What is resumed with an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRequest {
    /// Also all its descendants, whoever has paused them.
    #[serde(default)]
    pub children: bool,
}

/// What was paused or resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseChanged {
    /// The instance.
    pub instance: String,
    /// How many instances were changed, it and its descendants; 0 if it was so before.
    pub changed: u64,
}

/// Which executions are deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PruneRequest {
    /// How many executions to keep, the current one included; at least 1, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub keep: Option<u32>,
}

/// What was deleted with an instance and its children.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "each counts what its name says")]
pub struct Deleted {
    pub instances: u64,
    pub executions: u64,
    pub events: u64,
    /// Messages that were queued.
    pub queued: u64,
}

/// What was deleted of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "each counts what its name says")]
pub struct Pruned {
    pub executions: u64,
    pub events: u64,
}
