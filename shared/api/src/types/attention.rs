//! Numbers over all instances, and what needs attention.

use super::Status;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How many instances there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// All instances.
    pub total: u64,
    /// By orchestration and status, those that exist.
    pub counts: Vec<Count>,
}

/// How many instances of an orchestration have a status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// The orchestration.
    pub name: String,
    /// The status.
    pub status: Status,
    /// How many.
    pub count: u64,
}

/// How many instances have a status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusCount {
    /// The status.
    pub status: Status,
    /// How many.
    pub count: u64,
}

/// What needs attention.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// When it was made.
    pub at: String,
    /// Instances by status, those that exist.
    pub counts: Vec<StatusCount>,
    /// Since when something is recent: 24 hours.
    pub recent_since: String,
    /// Instances whose start was accepted recently.
    pub started_recently: u64,
    /// Instances that have ended recently.
    pub ended_recently: u64,
    /// Those of them that have failed, without those that were cancelled.
    pub failed_recently: u64,
    /// Instances that no deployed build can go on with.
    pub blocked: u64,
    /// Instances that operators have paused.
    #[serde(default)]
    pub paused: u64,
    /// Instances with something that has been due for ten minutes, no turn in progress, and not paused.
    pub stuck: u64,
    /// Timers that should have fired two minutes ago.
    pub overdue_timers: u64,
    /// Messages that are due.
    pub messages_due: u64,
    /// Activities that are due.
    pub activities_due: u64,
    /// Timers that are not due yet.
    pub timers_pending: u64,
    /// Since when the oldest message or activity is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_due_at: Option<String>,
    /// Messages to other instances that were not delivered.
    pub outbox: u64,
    /// Dead letters.
    pub dead_letters: u64,
}

/// How many instances were started and have ended, hour by hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Throughput {
    /// When it was made.
    pub at: String,
    /// Whole hours in UTC, the oldest first. The last one is not over.
    pub hours: Vec<ThroughputHour>,
}

/// One hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThroughputHour {
    /// When it began.
    pub from: String,
    /// Instances whose start was accepted.
    pub started: u64,
    /// Instances that have ended.
    pub ended: u64,
    /// Those of them that have failed, without those that were cancelled.
    pub failed: u64,
}

/// What has been due the longest: what the overview counts as stuck, and its overdue timers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverdueList {
    /// When it was made.
    pub at: String,
    /// The oldest first.
    pub overdue: Vec<OverdueItem>,
}

/// Something that is overdue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverdueItem {
    /// The instance.
    pub instance: String,
    /// What it is.
    pub kind: OverdueKind,
    /// The name of the activity, event, queue or orchestration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Since when it is due.
    pub due_at: String,
}

/// What is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverdueKind {
    /// A message for the next turn.
    Message,
    /// An activity.
    Activity,
    /// A timer.
    Timer,
}

/// Numbers over the whole store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "each counts the instances of the status of that name")]
pub struct StoreStats {
    /// All instances.
    pub total: u64,
    pub pending: u64,
    pub running: u64,
    pub blocked: u64,
    #[serde(default)]
    pub paused: u64,
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Executions that are kept.
    pub executions: u64,
    /// Their events.
    pub events: u64,
    /// Messages that are due and not claimed.
    pub messages_due: u64,
    /// Activities that are due and not claimed.
    pub activities_due: u64,
    /// Timers that are not due yet.
    pub timers_pending: u64,
    /// Dead letters.
    pub dead_letters: u64,
}

/// The API answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `ok`. The store is not asked.
    pub status: String,
    /// The version of the API's program.
    pub version: String,
}
