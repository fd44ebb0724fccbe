//! Dead letters: what was given up.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of dead letters, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterList {
    /// The dead letters, without their work items.
    pub dead_letters: Vec<DeadLetterSummary>,
    /// The `cursor` of the next page; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A dead letter without its work items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterSummary {
    /// The instance that it belongs to.
    pub instance: String,
    /// Its id, unique within the instance.
    pub id: String,
    /// `undeliverable`, `no-instance`, `poison-turn`, `poison-activity` or `unknown`.
    pub kind: String,
    /// Why it was given up.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was given up.
    pub given_up_at: String,
    /// The execution of the instance, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The name of the orchestration or activity, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The instance that an undeliverable message was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// A dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// What happened.
    #[serde(flatten)]
    pub summary: DeadLetterSummary,
    /// The work items that were given up, as duroxide writes them.
    pub items: Vec<serde_json::Value>,
    /// How many of them were too large to keep.
    pub omitted: u32,
}

/// A dead letter runs again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Redriven {
    /// The instance that it is for: the receiver of a message, or the new instance that runs in place of the failed one.
    pub target: String,
    /// Whether it is delivered already; if not, maintenance does it.
    pub delivered: bool,
}

/// A dead letter is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Discarded {
    /// Always true: an unknown dead letter is a problem.
    pub discarded: bool,
}
