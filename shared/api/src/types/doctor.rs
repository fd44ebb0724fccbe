//! An examination of a deployment.

use super::Decimal;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// How to examine; without fields, with the usual number of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DoctorRequest {
    /// How often each operation of the store is made; 20 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 200)]
    pub samples: Option<u32>,
}

/// What the API has found out about its deployment. It has written to partitions of its own, and deleted what it wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The checks.
    pub checks: Vec<Check>,
    /// What the operations of the store cost, as the API sees it.
    pub operations: Vec<OperationCost>,
    /// The queues of the wakeups.
    pub queues: Vec<QueueFinding>,
    /// The API's function.
    pub function: FunctionFacts,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// What it is about.
    pub name: String,
    /// How it came out.
    pub state: CheckState,
    /// What was found.
    pub found: String,
    /// What is promised or expected.
    pub expected: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// As promised.
    Ok,
    /// It works, and costs more time or money than it should, or could not be checked.
    Warning,
    /// It does not work, or will not under load or after a crash.
    Failed,
}

impl fmt::Display for CheckState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CheckState::Ok => "ok",
            CheckState::Warning => "warning",
            CheckState::Failed => "failed",
        })
    }
}

/// What one kind of operation costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationCost {
    /// `commit` (a batch that creates three documents), `read`, `query` (of those), `claim` (a patch), `complete` (a batch that deletes
    /// them).
    pub name: String,
    /// How many were made.
    pub samples: u64,
    /// Requests of all, repetitions included.
    pub requests: u64,
    /// The median of their times, in ms.
    #[schema(value_type = f64)]
    pub median_ms: Decimal,
    /// The 99th percentile of their times, in ms.
    #[schema(value_type = f64)]
    pub p99_ms: Decimal,
    /// Request units of one, on average.
    #[schema(value_type = f64)]
    pub request_units: Decimal,
}

/// A queue of wakeups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueFinding {
    /// `turn`, `work`, or `work:` and a tag.
    pub name: String,
    /// How long a received wakeup is hidden; none if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility_seconds: Option<u64>,
    /// After so many receives a wakeup goes to the dead-letter queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_receives: Option<u32>,
    /// How long the service took to answer, in ms.
    #[schema(value_type = f64)]
    pub round_trip_ms: Decimal,
}

/// The function that has answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FunctionFacts {
    /// The version of its release.
    pub version: String,
    /// The label of its deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Its AWS region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Its processor's architecture.
    pub architecture: String,
    /// Its memory in MB, if it runs on Lambda.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
}
