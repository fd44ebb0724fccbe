//! `duroxide-lambda delete` and `duroxide-lambda prune`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::id_parser;
use super::{Common, examples};
use crate::terminal::text::escape;
use clap::Args;
use duroxide::ClientError;
use duroxide::providers::{DeleteInstanceResult, ProviderAdmin as _, PruneOptions};
use duroxide_cosmos::InstanceSummary;
use serde_json::json;

/// Delete a finished instance, with its children.
#[derive(Debug, Args)]
#[command(after_help = examples(&["delete order-7", "delete stuck-1 --force"]))]
pub struct Delete {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// Delete it even if it has not finished; what it did so far is not undone
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Delete earlier executions of an instance that continues as new.
#[derive(Debug, Args)]
#[command(after_help = examples(&["prune counter --keep 5"]))]
pub struct Prune {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// How many executions to keep, including the current one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Delete {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let summary = connection.find(&self.instance).await?;
        let deleted = match summary.filter(|summary| summary.started_at.is_none()) {
            Some(pending) => self.delete_pending(connection, pending).await?,
            None => connection.client().delete_instance(&self.instance, self.force).await?,
        };
        Ok(Answer::done(
            json!({
                "instance": self.instance,
                "instances": deleted.instances_deleted,
                "executions": deleted.executions_deleted,
                "events": deleted.events_deleted,
                "queued": deleted.queue_messages_deleted,
            }),
            format!(
                "deleted {}: {} instances, {} executions, {} events, {} queued messages",
                escape(&self.instance),
                deleted.instances_deleted,
                deleted.executions_deleted,
                deleted.events_deleted,
                deleted.queue_messages_deleted
            ),
        ))
    }
}

impl Delete {
    /// Deletes an instance that has not had a turn: for duroxide it does not exist.
    async fn delete_pending(
        &self,
        connection: &Connection,
        pending: InstanceSummary,
    ) -> Result<DeleteInstanceResult, ClientError> {
        let instance_id = self.instance.clone();
        if pending.parent.is_some() {
            return Err(ClientError::CannotDeleteSubOrchestration { instance_id });
        }
        if !self.force {
            return Err(ClientError::InstanceStillRunning { instance_id });
        }
        let deleted = connection.store().delete_instances_atomic(&[instance_id], true).await?;
        Ok(DeleteInstanceResult {
            instances_deleted: 1,
            ..deleted
        })
    }
}

impl Prune {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        connection.get(&self.instance).await?;
        let options = PruneOptions {
            keep_last: Some(self.keep),
            completed_before: None,
        };
        let pruned = connection.client().prune_executions(&self.instance, options).await?;
        Ok(Answer::done(
            json!({
                "instance": self.instance,
                "executions": pruned.executions_deleted,
                "events": pruned.events_deleted,
            }),
            format!(
                "pruned {}: {} executions, {} events",
                escape(&self.instance),
                pruned.executions_deleted,
                pruned.events_deleted
            ),
        ))
    }
}
