//! `duroxide-lambda stats`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::{Common, examples};
use crate::terminal::table::Fields;
use clap::Args;
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
        let counts = connection.store_stats().await?;
        let mut fields = Fields::default();
        fields.add(
            "instances",
            format!(
                "{}: {} pending, {} running, {} blocked, {} paused, {} completed, {} failed, {} cancelled",
                counts.total,
                counts.pending,
                counts.running,
                counts.blocked,
                counts.paused,
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
                counts.messages_due, counts.activities_due, counts.timers_pending
            ),
        );
        fields.add("dead letters", counts.dead_letters.to_string());
        let json = json!({
            "instances": {
                "total": counts.total,
                "pending": counts.pending,
                "running": counts.running,
                "blocked": counts.blocked,
                "paused": counts.paused,
                "completed": counts.completed,
                "failed": counts.failed,
                "cancelled": counts.cancelled,
            },
            "executions": counts.executions,
            "events": counts.events,
            "queues": {
                "orchestrator": counts.messages_due,
                "worker": counts.activities_due,
                "timers": counts.timers_pending,
            },
            "deadLetters": counts.dead_letters,
        });
        Ok(Answer::done(json, fields.render(connection.look)))
    }
}
