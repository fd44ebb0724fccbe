//! Finding instances, and what their status means.

use super::answer::Failure;
use super::connection::Connection;
use crate::terminal::text::{moment, span};
use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use comfy_table::Color;
use duroxide::ClientError;
use duroxide_cosmos::{Blocked, InstanceStatus, InstanceSummary};
use duroxide_lambda::log::rfc3339;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;

/// How many instances are read concurrently.
const CONCURRENT_READS: usize = 8;

/// Parses an id on the command line.
pub(super) fn id_parser() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// The statuses that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Status {
    /// Started, and without a turn so far
    Pending,
    Running,
    /// No deployed build can go on with it
    Blocked,
    Completed,
    Failed,
    Cancelled,
    /// Between two executions
    ContinuedAsNew,
}

impl From<Status> for InstanceStatus {
    fn from(status: Status) -> InstanceStatus {
        match status {
            Status::Pending => InstanceStatus::Pending,
            Status::Running => InstanceStatus::Running,
            Status::Blocked => InstanceStatus::Blocked,
            Status::Completed => InstanceStatus::Completed,
            Status::Failed => InstanceStatus::Failed,
            Status::Cancelled => InstanceStatus::Cancelled,
            Status::ContinuedAsNew => InstanceStatus::ContinuedAsNew,
        }
    }
}

/// The colour of a status.
pub(super) fn status_colour(status: &InstanceStatus) -> Color {
    match status {
        InstanceStatus::Completed => Color::Green,
        InstanceStatus::Failed | InstanceStatus::Blocked => Color::Red,
        _ => Color::Yellow,
    }
}

/// The version for people: a pending instance has none.
pub(super) fn version_of(summary: &InstanceSummary) -> &str {
    summary.version.as_deref().unwrap_or_default()
}

/// Why an instance is blocked, as JSON. An interface: fields may be added, not renamed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockedView {
    /// `unknown-name`, `nondeterminism`, `panic`, `crash`, `history` or `unknown`.
    pub cause: &'static str,
    pub reason: String,
    /// The build that cannot go on.
    pub build: String,
    pub since: String,
    pub tries: u32,
    /// When the same build tries again.
    pub next_try: String,
}

impl From<&Blocked> for BlockedView {
    fn from(blocked: &Blocked) -> BlockedView {
        BlockedView {
            cause: blocked.cause.name(),
            reason: blocked.reason.clone(),
            build: blocked.build.clone(),
            since: rfc3339(blocked.since),
            tries: blocked.tries,
            next_try: rfc3339(blocked.until),
        }
    }
}

/// Why an instance is blocked, in lines for people.
pub(super) fn blocked_lines(blocked: &Blocked, now_ms: u64) -> String {
    let next = match blocked.until.checked_sub(now_ms) {
        Some(wait) if wait > 0 => format!("next in {}", span(wait)),
        _ => "next one is due".to_owned(),
    };
    format!(
        "{}, since {} ({} ago)\nbuild {}; tries so far: {}, {next}\n{}",
        blocked.cause.name(),
        moment(blocked.since),
        span(now_ms.saturating_sub(blocked.since)),
        blocked.build,
        blocked.tries,
        blocked.reason
    )
}

/// What an instance that has not finished waits for.
pub(super) fn waits_for(summary: &InstanceSummary, now_ms: u64) -> String {
    let since = |ms: u64| span(now_ms.saturating_sub(ms));
    match (&summary.status, &summary.blocked) {
        (InstanceStatus::Pending, _) => format!(
            "Pending: accepted {} ago, it waits for its first turn",
            since(summary.accepted_at)
        ),
        (InstanceStatus::Blocked, Some(blocked)) => format!(
            "Blocked for {} ({}, build {}): {}",
            since(blocked.since),
            blocked.cause.name(),
            blocked.build,
            blocked.reason
        ),
        (status, _) => status.to_string(),
    }
}

impl Connection {
    /// The instance, from the moment that its start was accepted.
    pub(super) async fn find(&self, instance: &str) -> Result<Option<InstanceSummary>, ClientError> {
        Ok(self.store().instance_summary(instance).await?)
    }

    /// The instance, or a failure that says that it was not found.
    pub(super) async fn get(&self, instance: &str) -> Result<InstanceSummary, Failure> {
        self.find(instance).await?.ok_or_else(|| Failure::unknown(instance))
    }

    /// These instances, in their order, without those that were deleted meanwhile.
    pub(super) async fn find_all(&self, instances: &[String]) -> Result<Vec<InstanceSummary>, Failure> {
        let reads: Vec<_> = instances.iter().map(|instance| self.find(instance)).collect();
        let found: Vec<Option<InstanceSummary>> = stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}
