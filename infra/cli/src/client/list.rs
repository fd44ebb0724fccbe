//! `duroxide-lambda list`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::{BlockedView, Status, status_colour, version_of};
use super::{Common, examples};
use crate::terminal::table::{Cell, Table, ids, left, right};
use crate::terminal::text::{moment, short, span};
use clap::Args;
use duroxide_cosmos::{InstanceFilter, InstanceStatus, InstanceSummary, SearchError};
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
        let filter = InstanceFilter {
            status: self.status.map(InstanceStatus::from),
            ..InstanceFilter::default()
        };
        let store = connection.store();
        let (newest, counts) = futures::try_join!(newest(connection, &filter, self.limit as usize), async {
            Ok(store.counts().await?)
        })?;
        let matching = counts
            .iter()
            .filter(|count| filter.status.as_ref().is_none_or(|status| *status == count.status));
        let total = matching.map(|count| count.count).sum();
        let instances: Vec<Value> = newest.iter().map(row).collect();
        Ok(Answer::done(
            json!({ "total": total, "instances": instances }),
            render(connection, &newest, total),
        ))
    }
}

/// The newest instances that match, from as many pages as it takes.
async fn newest(
    connection: &Connection,
    filter: &InstanceFilter,
    limit: usize,
) -> Result<Vec<InstanceSummary>, Failure> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let left = limit - found.len();
        let page = connection.store().search(filter, cursor.as_deref(), left).await;
        let page = page.map_err(|error| match error {
            SearchError::Store(error) => Failure::from(error),
            other => Failure::error(other.to_string()),
        })?;
        found.extend(page.instances);
        cursor = page.next;
        if cursor.is_none() || found.len() >= limit {
            return Ok(found);
        }
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

fn render(connection: &Connection, newest: &[InstanceSummary], total: u64) -> String {
    if newest.is_empty() {
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
    for summary in newest {
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
    if total > newest.len() as u64 {
        text.push_str(&format!("{} of {total}: --limit shows more\n", newest.len()));
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
