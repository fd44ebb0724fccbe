//! `duroxide-lambda stats`.

use super::answer::{Answer, Fail};
use super::connect::Session;
use super::{CODES, Common};
use clap::Args;
use duroxide::ClientError;
use futures::TryFutureExt as _;
use local_cloud::term::table::Fields;
use serde_json::json;

/// Count instances and what is queued.
///
/// It looks at every instance: on a large store it takes its time, and its request units.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Example:
  local stats --json | jq .queues

{CODES}"))]
pub struct Stats {
    #[command(flatten)]
    pub(super) common: Common,
}

impl Stats {
    pub(super) async fn act(self, session: &Session) -> Result<Answer, Fail> {
        let client = session.client();
        let (metrics, queues, dead_letters) = futures::try_join!(
            client.get_system_metrics(),
            client.get_queue_depths(),
            session.store().dead_letter_count().map_err(ClientError::from),
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
                "{} messages and {} activities that are due and that nobody holds; {} timers to come",
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
        Ok(Answer::done(json, fields.render(session.look)))
    }
}
