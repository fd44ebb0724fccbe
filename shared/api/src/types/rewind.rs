//! Rewinding an instance: the request, and what it does.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How an instance is rewound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RewindRequest {
    /// Rewind to before this event, instead of to before the failure. Its whole turn is undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub before: Option<u64>,
    /// Run activities again whose results were obtained after that event, instead of using these results when the code schedules
    /// the same activities again.
    #[serde(default)]
    pub discard_results: bool,
    /// Rewind a child without its parent, which is not told of its end.
    #[serde(default)]
    pub alone: bool,
    /// The reason, which is kept with what was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub reason: Option<String>,
    /// Only say what would happen.
    #[serde(default)]
    pub dry_run: bool,
}

/// What a rewind does, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rewound {
    /// The instance.
    pub instance: String,
    /// Whether it was a dry run.
    pub dry_run: bool,
    /// The execution that goes on.
    pub execution: u64,
    /// The first event that is undone.
    pub before: u64,
    /// How many events are kept.
    pub kept: u64,
    /// How many events are undone.
    pub undone: u64,
    /// Results, events and timers after that event that are kept: they are delivered again.
    pub delivered: Vec<Step>,
    /// Activities that run again.
    pub activities: Vec<Step>,
    /// Timers that are waited for again.
    pub timers: Vec<Step>,
    /// Children that it waits for again: the failed ones are rewound.
    pub children: Vec<Step>,
    /// Results of activities that the code schedules again: an activity with the same name and input gets them, and does not run.
    /// With `discardResults` they run.
    pub reused: Vec<Step>,
    /// Failures that are kept: the code has handled them, or fails by them again.
    pub kept_failures: Vec<Step>,
}

/// Something that a rewind or a fork keeps, does again or loses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// `activity`, `timer`, `child`, `event` or `queue`.
    pub kind: String,
    /// The event of the history: the one that scheduled it, or that delivered it.
    pub event: u64,
    /// The name of the activity, event or queue; the id of the child; empty for a timer.
    pub name: String,
    /// How often the same activity has failed in this execution.
    pub failures: u64,
}

/// One rewind of an instance. `GET .../history?undone={number}` has what it undid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rewind {
    /// Its number, from 1.
    pub number: u64,
    /// When.
    pub at: String,
    /// Why, if the operator said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The execution.
    pub execution: u64,
    /// The first event that was undone.
    pub before: u64,
    /// How many events were undone.
    pub undone: u64,
    /// What the instance had failed with, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether it had been cancelled.
    #[serde(default)]
    pub cancelled: bool,
}

/// Where an instance was forked from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkedFrom {
    /// The instance.
    pub instance: String,
    /// Its execution.
    pub execution: u64,
    /// The last event that was taken over.
    pub event: u64,
    /// When.
    pub at: String,
}
