//! Finding instances, and what their status means.

use super::answer::Failure;
use super::connection::Connection;
use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use comfy_table::Color;
use duroxide::ClientError;
use duroxide::OrchestrationStatus;
use duroxide::providers::InstanceInfo;
use futures::{StreamExt as _, TryStreamExt as _, stream};

/// How many instances are read concurrently.
pub(super) const CONCURRENT_READS: usize = 8;

/// Parses an id on the command line.
pub(super) fn id_parser() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// duroxide's statuses of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Status {
    Running,
    Completed,
    Failed,
    /// Between two executions
    ContinuedAsNew,
}

impl Status {
    const ALL: [Status; 4] = [
        Status::Running,
        Status::Completed,
        Status::Failed,
        Status::ContinuedAsNew,
    ];

    /// As duroxide writes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Status::Running => "Running",
            Status::Completed => "Completed",
            Status::Failed => "Failed",
            Status::ContinuedAsNew => "ContinuedAsNew",
        }
    }

    /// The status of this name; `None` for one of another version of duroxide.
    pub(super) fn named(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// The colour of a status.
pub(super) fn status_colour(name: &str) -> Color {
    match Status::named(name) {
        Some(Status::Completed) => Color::Green,
        Some(Status::Failed) => Color::Red,
        Some(Status::Running | Status::ContinuedAsNew) | None => Color::Yellow,
    }
}

/// Whether nothing more will happen to it. An instance that continued as new has another execution.
pub(super) fn is_finished(info: &InstanceInfo) -> bool {
    matches!(Status::named(&info.status), Some(Status::Completed | Status::Failed))
}

impl Connection {
    /// The instance; `None` if no turn of it has run.
    pub(super) async fn find(&self, instance: &str) -> Result<Option<InstanceInfo>, ClientError> {
        match self.client().get_instance_info(instance).await {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.is_retryable() => Err(error),
            // duroxide has no kind of error for an unknown instance, but it has a status.
            Err(_) => match self.client().get_orchestration_status(instance).await? {
                OrchestrationStatus::NotFound => Ok(None),
                // It had its first turn in between.
                _ => self.client().get_instance_info(instance).await.map(Some),
            },
        }
    }

    /// The instance, or a failure that says that it was not found.
    pub(super) async fn get(&self, instance: &str) -> Result<InstanceInfo, Failure> {
        self.find(instance).await?.ok_or_else(|| Failure::unknown(instance))
    }

    /// These instances, in their order, without those that were deleted meanwhile.
    pub(super) async fn find_all(&self, instances: &[String]) -> Result<Vec<InstanceInfo>, Failure> {
        let reads: Vec<_> = instances.iter().map(|instance| self.find(instance)).collect();
        let found: Vec<Option<InstanceInfo>> = stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}
