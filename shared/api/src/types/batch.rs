//! Batches: one action on many instances; and restarts of one.

use super::payload::present;
use super::{Payload, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How an instance is restarted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestartRequest {
    /// As the next execution of the same instance, which must have ended; otherwise as a new instance.
    #[serde(default)]
    pub in_place: bool,
    /// The id of the new instance; without one it derives from the idempotency key, or is generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub new_id: Option<String>,
    /// The version; without one, the newest that is registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub version: Option<String>,
    /// In place: also a child, whose parent has gone on and does not hear of it any more.
    #[serde(default)]
    pub alone: bool,
}

/// What was restarted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Restarted {
    /// The instance that runs: the new one, or the same.
    pub instance: String,
    /// The instance whose input it has.
    pub restarted_from: String,
    /// The execution that begins, if this request has begun it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// Whether an earlier request with the same key had restarted it.
    pub repeated: bool,
}

/// What a batch does with each instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "each is the verb of that name")]
pub enum BatchVerb {
    Cancel,
    Pause,
    Resume,
    Raise,
    Delete,
    Rewind,
    Restart,
}

/// Which instances: all conditions hold. The same as those of the list of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BatchFilter {
    /// Only with this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Only of this orchestration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only of this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Only with ids that begin so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Only with these tags.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Only accepted at this time or later, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_from: Option<String>,
    /// Only accepted at this time or before, RFC 3339. What is accepted after the batch is never a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_to: Option<String>,
    /// Only ended at this time or later, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_from: Option<String>,
    /// Only ended at this time or before, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_to: Option<String>,
    /// Only started by this instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// All instances: needed if there is no other condition, and only then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// One action on many instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BatchRequest {
    /// Which instances.
    pub filter: BatchFilter,
    /// What to do.
    pub action: BatchVerb,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// How many instances to handle in a second, at most; 20 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 500)]
    pub rate: Option<u32>,
    /// Of `cancel`, `pause` and `rewind`: the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub reason: Option<String>,
    /// Of `pause` and `resume`: also all descendants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<bool>,
    /// Of `raise`: the name of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 512)]
    pub event: Option<String>,
    /// Of `raise`: the data of the event, any JSON value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub data: Option<Payload>,
    /// Of `raise`: the data as the very text that the workflow gets. Instead of `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_text: Option<String>,
    /// Of `delete`: also instances that have not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Of `restart`: as the next execution of the same instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<bool>,
    /// Of `rewind`, and of `restart` in place: also children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<bool>,
    /// Of `rewind`: run activities again whose results were obtained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard_results: Option<bool>,
    /// Of `restart`: the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub version: Option<String>,
}

/// What a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum BatchState {
    /// It goes on.
    Running,
    /// It was cancelled, and ends with its next step.
    Cancelling,
    /// Every instance was handled.
    Completed,
    /// It was cancelled; what it had done stays done.
    Cancelled,
    /// It cannot go on: `error` says why.
    Failed,
}

impl BatchState {
    /// Whether nothing more happens.
    pub fn has_ended(self) -> bool {
        !matches!(self, BatchState::Running | BatchState::Cancelling)
    }
}

/// How many instances were handled; of a dry run, what would become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchCounts {
    /// All of the others together.
    pub examined: u64,
    /// The action was applied.
    pub changed: u64,
    /// There was nothing to do.
    pub unchanged: u64,
    /// They were deleted meanwhile.
    pub gone: u64,
    /// They refused, or could not be reached.
    pub failed: u64,
}

/// One of the first instances of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchSample {
    /// The instance.
    pub instance: String,
    /// Its status when it was found.
    pub status: String,
}

/// A batch and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Its id.
    pub batch: String,
    /// What it is.
    pub state: BatchState,
    /// What it does with each instance.
    pub action: BatchVerb,
    /// Which instances.
    pub filter: BatchFilter,
    /// Whether it only says what it would do.
    pub dry_run: bool,
    /// How many instances it handles in a second, at most.
    pub rate: u32,
    /// Whether it goes slower, because the store throttles or turns are late.
    pub slowed: bool,
    /// Who has begun it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was begun.
    pub created_at: String,
    /// When it last made progress.
    pub updated_at: String,
    /// When it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// What became of the instances.
    pub counts: BatchCounts,
    /// How many of those that were found had which status.
    pub by_status: BTreeMap<String, u64>,
    /// The first instances that were found.
    pub sample: Vec<BatchSample>,
    /// Why it cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Of the answer to its request: whether an earlier one with the same key had begun it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// A page of batches, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchList {
    /// The batches.
    pub batches: Vec<Batch>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An instance that failed in a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchFailure {
    /// The instance.
    pub instance: String,
    /// Why.
    pub reason: String,
}

/// A page of the instances that failed, in the order in which they were handled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchFailureList {
    /// The instances.
    pub failures: Vec<BatchFailure>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
