//! `duroxide-lambda stats`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::{Common, examples};
use crate::terminal::table::Fields;
use clap::Args;
use duroxide::ClientError;
use futures::TryFutureExt as _;
use serde_json::json;

/// Count instances, events and queued messages.
///
/// It reads every instance: on a large store it takes a while and many request units.
#[derive(Debug, Args)]
#[command(after_help = examples(&["stats --json | jq .queues"]))]
pub struct Stats {
    #[command(flatten)]
    pub(super) common: Common,
}

impl Stats {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let client = connection.client();
        let (metrics, queues, dead_letters) = futures::try_join!(
            client.get_system_metrics(),
            client.get_queue_depths(),
            connection.store().dead_letter_count().map_err(ClientError::from),
        )?;
        let mut fields = Fields::default();
        fields.add(
            "instances",
            format!(
                "{}: {} running, {} completed, {} failed",
                metrics.total_instances,
                metrics.running_instances,
                metrics.completed_instances,
                metrics.failed_instances
            ),
        );
        fields.add(
            "history",
            format!(
                "{} executions, {} events",
                metrics.total_executions, metrics.total_events
            ),
        );
        fields.add(
            "queued",
            format!(
                "{} messages and {} activities that are due and not claimed; {} timers in the future",
                queues.orchestrator_queue, queues.worker_queue, queues.timer_queue
            ),
        );
        fields.add("dead letters", dead_letters.to_string());
        let json = json!({
            "instances": {
                "total": metrics.total_instances,
                "running": metrics.running_instances,
                "completed": metrics.completed_instances,
                "failed": metrics.failed_instances,
            },
            "executions": metrics.total_executions,
            "events": metrics.total_events,
            "queues": {
                "orchestrator": queues.orchestrator_queue,
                "worker": queues.worker_queue,
                "timers": queues.timer_queue,
            },
            "deadLetters": dead_letters,
        });
        Ok(Answer::done(json, fields.render(connection.look)))
    }
}
