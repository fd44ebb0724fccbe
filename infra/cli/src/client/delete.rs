//! `duroxide-lambda delete` and `duroxide-lambda prune`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::id_parser;
use super::{Common, examples};
use crate::terminal::text::escape;
use clap::Args;
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
        let deleted = connection.delete(&self.instance, self.force).await?;
        Ok(Answer::done(
            json!({
                "instance": self.instance,
                "instances": deleted.instances,
                "executions": deleted.executions,
                "events": deleted.events,
                "queued": deleted.queued,
            }),
            format!(
                "deleted {}: {} instances, {} executions, {} events, {} queued messages",
                escape(&self.instance),
                deleted.instances,
                deleted.executions,
                deleted.events,
                deleted.queued
            ),
        ))
    }
}

impl Prune {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let pruned = connection.prune(&self.instance, self.keep).await?;
        Ok(Answer::done(
            json!({
                "instance": self.instance,
                "executions": pruned.executions,
                "events": pruned.events,
            }),
            format!(
                "pruned {}: {} executions, {} events",
                escape(&self.instance),
                pruned.executions,
                pruned.events
            ),
        ))
    }
}
