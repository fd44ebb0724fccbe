//! Why an instance is where it is, and what to do.

use super::{Blocked, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why an instance is where it is, since when, until when, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The instance.
    pub instance: String,
    /// Its orchestration; empty if only a newer release can read the instance.
    pub orchestration: String,
    /// The version of its orchestration; none before the first turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it is.
    pub status: Status,
    /// When the store was read.
    pub at: String,
    /// One sentence, the important fact first.
    pub sentence: String,
    /// The cause, a stable word: docs/api.md lists all of them.
    pub cause: String,
    /// Whether a person should do something.
    pub needs_attention: bool,
    /// Since when it is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// When something happens by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// What it waits for, the most important first.
    pub waits: Vec<Wait>,
    /// How many waits were left out.
    #[serde(default)]
    pub more_waits: u64,
    /// From this instance to the one that is the true cause; alone, if it is that itself.
    pub chain: Vec<ChainLink>,
    /// The facts that this rests on.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub next: Vec<Next>,
}

/// One thing that an instance waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// `activity`, `event`, `queue`, `timer` or `child`.
    pub kind: String,
    /// The cause of this wait alone.
    pub cause: String,
    /// The event of the history that began it.
    pub id: u64,
    /// The activity, event or queue, or the orchestration of a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// For people, as a part of a sentence.
    pub text: String,
    /// Whether a person should do something.
    pub needs_attention: bool,
    /// Since when it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// When a timer is due, or the next attempt, or the lock of the attempt that runs ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// The attempt that runs, or that was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// How many attempts are allowed, as far as the configuration of the API knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How the last attempt ended: `failed`, `timed-out`, `released`, `lost` or `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_end: Option<String>,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Until when somebody has claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_until: Option<String>,
    /// Why no worker runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// The tag of an activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The affinity session of an activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Who wakes the instance for a timer: `wakeup` (it was sent with the commit) or `maintenance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<String>,
    /// It may be left over from a race that something else won.
    #[serde(default)]
    pub may_be_left_over: bool,
    /// What arrived and may have been meant for it.
    #[serde(default)]
    pub similar: Vec<Similar>,
}

/// Something that arrived and may have been meant for a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Similar {
    /// `event` or `queue`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// When it arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Why it did not end the wait.
    pub why: String,
}

/// One instance on the way to the true cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainLink {
    /// The instance.
    pub instance: String,
    /// Its orchestration; empty if it is not known.
    pub orchestration: String,
    /// What it is; none if it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Its cause.
    pub cause: String,
    /// The same as a sentence.
    pub sentence: String,
}

/// A fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Its name.
    pub what: String,
    /// Its value; may be empty if the time says it all.
    pub value: String,
    /// The time that belongs to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Next {
    /// For people.
    pub text: String,
    /// The command that does it, quoted for a shell; it begins with `duroxide-lambda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}
