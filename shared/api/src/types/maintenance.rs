//! Maintenance on request.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A pass of maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Pass {
    /// Delivers messages to other instances.
    Outbox,
    /// Completes commits and deletions that were begun.
    Unfinished,
    /// Removes expired affinity sessions.
    Sessions,
    /// Wakes what no wakeup reached.
    Sweep,
    /// Deletes instances and executions that are old enough.
    Retention,
    /// Counts the items in the store.
    Report,
}

/// What to run now; without fields, all passes with the settings of the deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MaintenanceRequest {
    /// Only these passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1)]
    pub passes: Option<Vec<Pass>>,
    /// The most items of each physical partition on one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000)]
    pub page_size: Option<u32>,
    /// What is deleted; needs the pass `retention`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionRequest>,
}

/// What retention deletes; at least one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetentionRequest {
    /// Instances that ended so many days ago, with their children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 36_500)]
    pub delete_after_days: Option<u32>,
    /// All but the last so many executions of each instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub keep_executions: Option<u32>,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceReport {
    /// What the search at the beginning found, unless the request names passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub look: Option<Look>,
    /// What each pass did.
    pub passes: BTreeMap<String, PassReport>,
    /// Wakeups that were sent.
    pub wakeups_sent: u64,
    /// Wakeups that could not be sent.
    pub wakeups_failed: u64,
    /// Overdue items that were not woken again, because their wakeups may still be in the queue.
    pub reminders_held: u64,
    /// Whether a pass has something left to do.
    pub left_over: bool,
    /// The items in the store after the run, if the pass `report` ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreReport>,
}

/// What the search at the beginning found: an object whose fields may change.
pub type Look = serde_json::Map<String, serde_json::Value>;

/// What a pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassReport {
    /// Items that were found.
    pub found: u64,
    /// Items that are completed now.
    pub done: u64,
    /// Items that could not be completed this time.
    pub failed: u64,
    /// Items that became dead letters.
    pub given_up: u64,
    /// Whether the time ended before the pass.
    pub left_over: bool,
    /// The number of pages.
    pub pages: u64,
    /// Why the pass could not continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The items in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreReport {
    /// Messages to other instances that were not delivered.
    pub outbox_depth: u64,
    /// The age of the oldest of them.
    pub oldest_intent_seconds: u64,
    /// Messages that are due.
    pub messages_due: u64,
    /// Activities that are due.
    pub activities_due: u64,
    /// How long the oldest message or activity has been due.
    pub oldest_due_seconds: u64,
    /// Timers that should have fired.
    pub overdue_timers: u64,
    /// Timers that are not due yet.
    pub timers_pending: u64,
    /// Instances with something that has been due for long, and no turn in progress.
    pub stuck_instances: u64,
    /// Dead letters.
    pub dead_letters: u64,
}
