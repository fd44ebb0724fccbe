//! Forking an instance: the request, and what the fork does.

use super::payload::present;
use super::{Payload, Step};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a fork is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkRequest {
    /// The id of the new instance.
    #[schema(min_length = 1)]
    pub new_id: String,
    /// The execution of the source; the current one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub execution: Option<u64>,
    /// The last event that is taken over; all of them by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub at: Option<u64>,
    /// Other results of activities and children, or other data of events. A failure becomes a result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<EditedResult>,
    /// Another input, any JSON value: the workflow gets its JSON text.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// Another input as the very text that the workflow gets. Instead of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_text: Option<String>,
    /// Another version of the orchestration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Only say what would run.
    #[serde(default)]
    pub dry_run: bool,
}

/// A result that the fork has in place of the recorded one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EditedResult {
    /// The event of the history.
    pub event: u64,
    /// The result, any JSON value: the workflow gets its JSON text.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// The result as the very text that the workflow gets. Instead of `result`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_text: Option<String>,
}

/// What a fork does, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Forked {
    /// The new instance.
    pub instance: String,
    /// The source.
    pub source: String,
    /// Whether it was a dry run.
    pub dry_run: bool,
    /// The execution of the source.
    pub execution: u64,
    /// The last event that is taken over.
    pub at: u64,
    /// Results, events and timers at the end that the fork takes in its first turn.
    pub delivered: Vec<Step>,
    /// Activities that run again.
    pub activities: Vec<Step>,
    /// Timers that it waits for.
    pub timers: Vec<Step>,
    /// Children that are started again, under ids of the fork.
    pub children: Vec<Step>,
    /// Results that are used when the code schedules the same activities again.
    pub reused: Vec<Step>,
}
