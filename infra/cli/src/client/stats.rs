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
        let (client, store) = (connection.client(), connection.store());
        let (counts, queues, dead_letters) = futures::try_join!(
            store.instance_counts().map_err(ClientError::from),
            client.get_queue_depths(),
            store.dead_letter_count().map_err(ClientError::from),
        )?;
        let mut fields = Fields::default();
        fields.add(
            "instances",
            format!(
                "{}: {} pending, {} running, {} blocked, {} completed, {} failed, {} cancelled",
                counts.total,
                counts.pending,
                counts.running,
                counts.blocked,
                counts.completed,
                counts.failed,
                counts.cancelled
            ),
        );
        fields.add(
            "history",
            format!("{} executions, {} events", counts.executions, counts.events),
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
                "total": counts.total,
                "pending": counts.pending,
                "running": counts.running,
                "blocked": counts.blocked,
                "completed": counts.completed,
                "failed": counts.failed,
                "cancelled": counts.cancelled,
            },
            "executions": counts.executions,
            "events": counts.events,
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
