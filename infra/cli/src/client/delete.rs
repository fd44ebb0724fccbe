//! `duroxide-lambda delete` and `duroxide-lambda prune`.

use super::answer::{Answer, Fail};
use super::connect::Session;
use super::instance::id_parser;
use super::{CODES, Common};
use clap::Args;
use duroxide::providers::PruneOptions;
use local_cloud::term::text::escape;
use serde_json::json;

/// Delete an instance that is over, with its children.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  local delete order-7
  local delete stuck-1 --force

{CODES}"))]
pub struct Delete {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// Delete it even if it is not over: what it had begun is not undone
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Delete the earlier executions of an instance that continues as new.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Example:
  local prune counter --keep 5

{CODES}"))]
pub struct Prune {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// How many executions to keep, with the current one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Delete {
    pub(super) async fn act(self, session: &Session) -> Result<Answer, Fail> {
        let deleted = session.client().delete_instance(&self.instance, self.force).await?;
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

impl Prune {
    pub(super) async fn act(self, session: &Session) -> Result<Answer, Fail> {
        session.known(&self.instance).await?;
        let options = PruneOptions {
            keep_last: Some(self.keep),
            completed_before: None,
        };
        let pruned = session.client().prune_executions(&self.instance, options).await?;
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
