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
    /// Instances by status, those that exist.
    pub counts: Vec<StatusCount>,
    /// Instances that have failed within the last 24 hours.
    pub failed_recently: u64,
    /// Instances that no deployed build can go on with.
    pub blocked: u64,
    /// Instances with something that has been due for long, and no turn in progress.
    pub stuck: u64,
    /// Timers that should have fired.
    pub overdue_timers: u64,
    /// Messages that are due.
    pub messages_due: u64,
    /// Activities that are due.
    pub activities_due: u64,
    /// Timers that are not due yet.
    pub timers_pending: u64,
    /// How long the oldest message or activity has been due.
    pub oldest_due_seconds: u64,
    /// Messages to other instances that were not delivered.
    pub outbox: u64,
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
