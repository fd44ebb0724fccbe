//! `duroxide-lambda list`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::{BlockedView, Status, status_colour, version_of};
use super::{Common, examples};
use crate::terminal::table::{Cell, Table, ids, left, right};
use crate::terminal::text::{moment, short, span};
use clap::Args;
use duroxide_cosmos::{InstanceList, InstanceStatus, InstanceSummary};
use duroxide_lambda::log::rfc3339;
use serde_json::{Value, json};

/// List instances, newest first.
///
/// An instance appears when its start is accepted. The table is cut to the width of a terminal, and complete in a pipe.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "list",
    "list --status failed --limit 100",
    "list --status blocked",
    "list --json | jq -r '.instances[].instance'",
]))]
pub struct List {
    /// Only instances with this status
    #[arg(long)]
    status: Option<Status>,
    /// The most instances to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

impl List {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let status = self.status.map(InstanceStatus::from);
        let store = connection.store();
        let list = store.newest_instances(status.as_ref(), self.limit as usize).await?;
        let instances: Vec<Value> = list.newest.iter().map(row).collect();
        Ok(Answer::done(
            json!({ "total": list.total, "instances": instances }),
            render(connection, &list),
        ))
    }
}

fn row(summary: &InstanceSummary) -> Value {
    json!({
        "instance": summary.instance,
        "orchestration": summary.orchestration,
        "version": summary.version,
        "status": summary.status.name(),
        "customStatus": summary.custom_status,
        "blocked": summary.blocked.as_ref().map(BlockedView::from),
        "execution": summary.execution,
        "createdAt": rfc3339(summary.accepted_at),
        "updatedAt": rfc3339(summary.updated_at),
        "completedAt": summary.completed_at.map(rfc3339),
        "durationMs": summary.took_ms(),
        "parent": summary.parent,
    })
}

fn render(connection: &Connection, list: &InstanceList) -> String {
    if list.newest.is_empty() {
        return "no instances".to_owned();
    }
    let now = connection.now_ms();
    let mut table = Table::new([
        ids("INSTANCE"),
        left("ORCHESTRATION"),
        left("VERSION").optional(),
        left("STATUS"),
        left("CREATED").optional(),
        right("AGE"),
        left("CUSTOM STATUS"),
    ]);
    for summary in &list.newest {
        table.row([
            summary.instance.as_str().into(),
            summary.orchestration.as_str().into(),
            version_of(summary).into(),
            Cell::from(summary.status.name()).coloured(status_colour(&summary.status)),
            moment(summary.accepted_at).into(),
            span(now.saturating_sub(summary.accepted_at)).into(),
            short(&remark(summary), false).into(),
        ]);
    }
    let mut text = table.render(connection.look);
    if list.total > list.newest.len() {
        text.push_str(&format!(
            "{} of {}: --limit shows more\n",
            list.newest.len(),
            list.total
        ));
    }
    text
}

/// What the instance says of itself, or why it says nothing more.
fn remark(summary: &InstanceSummary) -> String {
    match &summary.blocked {
        Some(blocked) => format!("{}: {}", blocked.cause.name(), blocked.reason),
        None => summary.custom_status.clone().unwrap_or_default(),
    }
}
