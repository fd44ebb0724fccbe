//! Instances, alone and in lists.

use super::payload::present;
use super::{ForkedFrom, Payload, Rewind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use utoipa::ToSchema;

/// What an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub enum Status {
    /// Its start was accepted, and no turn was committed.
    Pending,
    /// Its current execution has not ended.
    Running,
    /// No deployed build can go on with it; `blocked` has the reason.
    Blocked,
    /// An operator has paused it; `paused` has the reason.
    Paused,
    /// It has ended with an output.
    Completed,
    /// It has ended with an error.
    Failed,
    /// It has ended because it was cancelled.
    Cancelled,
    /// Its execution has ended, and the next one is about to begin.
    ContinuedAsNew,
    /// Of a newer release.
    #[serde(other)]
    Unknown,
}

impl Status {
    /// Those that can be searched for.
    pub const ALL: [Status; 8] = [
        Status::Pending,
        Status::Running,
        Status::Blocked,
        Status::Paused,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
        Status::ContinuedAsNew,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Status::Pending => "Pending",
            Status::Running => "Running",
            Status::Blocked => "Blocked",
            Status::Paused => "Paused",
            Status::Completed => "Completed",
            Status::Failed => "Failed",
            Status::Cancelled => "Cancelled",
            Status::ContinuedAsNew => "ContinuedAsNew",
            Status::Unknown => "Unknown",
        }
    }

    /// Whether nothing more will happen to the instance.
    pub fn is_finished(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not a status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is none of Pending, Running, Blocked, Paused, Completed, Failed, Cancelled, ContinuedAsNew")]
pub struct StatusError;

impl FromStr for Status {
    type Err = StatusError;

    fn from_str(text: &str) -> Result<Status, StatusError> {
        Status::ALL
            .into_iter()
            .find(|status| status.name().eq_ignore_ascii_case(text))
            .ok_or(StatusError)
    }
}

/// One instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its id.
    pub instance: String,
    /// The name of its orchestration.
    pub orchestration: String,
    /// The version of its orchestration; none before the first turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it is.
    pub status: Status,
    /// What it says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_status: Option<String>,
    /// How often it has set that.
    #[serde(default)]
    pub custom_status_version: u64,
    /// What it was started with, while it is pending and `includeInput=true` is given; later it is in the history.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// What it has completed with; with `raw=true`, the text as a string. Not in lists.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    /// What it has failed with, or why it was cancelled. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it is blocked; also while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// Since when it is paused, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// The instance whose input it repeats, if it was restarted as a new instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_from: Option<String>,
    /// The current execution, from 1.
    pub execution: u64,
    /// How many events the current execution has.
    pub events: u64,
    /// When its start was accepted.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
    /// When the current execution began; none before the first turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When the current execution ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// From its acceptance to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The instance that started it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Its newest rewinds, the oldest first. Not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewinds: Vec<Rewind>,
    /// Where it was forked from. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
}

/// Why no deployed build can go on with an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// `unknown-name`, `nondeterminism`, `panic`, `crash`, `history` or `unknown`.
    pub cause: String,
    /// What happened, and what to do.
    pub reason: String,
    /// The build that cannot go on.
    pub build: String,
    /// Since when.
    pub since: String,
    /// How often it was tried.
    pub tries: u32,
    /// When the same build tries again.
    pub next_try: String,
}

/// An instance that an operator has paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// Since when.
    pub since: String,
    /// Why, if the operator said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A page of instances, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceList {
    /// The instances. A page may be short, even empty, and still continue.
    pub instances: Vec<Instance>,
    /// The `cursor` of the next page; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_it_is_written_in_any_case() {
        for status in Status::ALL {
            assert_eq!(status.name().parse(), Ok(status));
            assert_eq!(status.name().to_lowercase().parse(), Ok(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
        }
        assert_eq!("Unknown".parse::<Status>(), Err(StatusError));
        assert_eq!(serde_json::from_str::<Status>("\"Dreaming\"").unwrap(), Status::Unknown);
    }
}
