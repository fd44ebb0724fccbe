//! `duroxide-lambda list`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::filter::Filter;
use super::instance::{id_parser, ms_of, status_colour, version_of};
use super::{Common, examples};
use crate::terminal::table::{Cell, Table, ids, left, right};
use crate::terminal::text::{escape, moment, short, span};
use clap::Args;
use duroxide_lambda_api::types::Instance;
use serde_json::{Value, json};

/// The most instances of a page that the API has.
const PAGE: u32 = 200;

/// List instances, newest first.
///
/// An instance appears when its start is accepted. Filters can be combined. The table is cut to the width of a terminal, and
/// complete in a pipe.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "list",
    "list --status failed --limit 100",
    "list --name fulfil-order --tag customer=ada --created-from 2026-11-01T00:00:00Z",
    "list --prefix order- --json | jq -r '.instances[].instance'",
    "list --cursor CURSOR",
]))]
pub struct List {
    #[command(flatten)]
    filter: Filter,
    /// The most instances to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Continue where an earlier list with the same filters ended: its `next`
    #[arg(long, value_name = "NEXT", value_parser = id_parser())]
    cursor: Option<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

impl List {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let (instances, next) = pages(connection, &self.filter.query(), self.cursor.clone(), self.limit).await?;
        let rows: Vec<Value> = instances.iter().map(row).collect();
        Ok(Answer::done(
            json!({ "instances": rows, "next": next }),
            render(connection, &instances, next.as_deref()),
        ))
    }
}

/// So many instances from a cursor on, and the cursor after them. A page of the API may be short and still continue.
pub(super) async fn pages(
    connection: &Connection,
    filter: &[(&'static str, String)],
    cursor: Option<String>,
    limit: u32,
) -> Result<(Vec<Instance>, Option<String>), Failure> {
    let (mut instances, mut next, mut left) = (Vec::new(), cursor, limit);
    loop {
        let mut query = filter.to_vec();
        query.extend(next.map(|cursor| ("cursor", cursor)));
        let page = connection.list(&query, left.min(PAGE)).await?;
        left = left.saturating_sub(u32::try_from(page.instances.len()).unwrap_or(left));
        instances.extend(page.instances);
        next = page.next_cursor;
        if left == 0 || next.is_none() {
            return Ok((instances, next));
        }
    }
}

/// The ids of all instances that this one has started, the oldest first.
pub(super) async fn every_child(connection: &Connection, instance: &str) -> Result<Vec<String>, Failure> {
    let filter = [("parent", instance.to_owned())];
    let (children, _) = pages(connection, &filter, None, u32::MAX).await?;
    Ok(children.into_iter().rev().map(|child| child.instance).collect())
}

fn row(instance: &Instance) -> Value {
    json!({
        "instance": instance.instance,
        "orchestration": instance.orchestration,
        "version": instance.version,
        "status": instance.status.name(),
        "customStatus": instance.custom_status,
        "blocked": instance.blocked,
        "paused": instance.paused,
        "execution": instance.execution,
        "createdAt": instance.created_at,
        "updatedAt": instance.updated_at,
        "completedAt": instance.completed_at,
        "durationMs": instance.duration_ms,
        "parent": instance.parent,
        "tags": instance.tags,
    })
}

fn render(connection: &Connection, instances: &[Instance], next: Option<&str>) -> String {
    let mut text = "no instances\n".to_owned();
    if !instances.is_empty() {
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
        for instance in instances {
            let created = ms_of(&instance.created_at);
            table.row([
                instance.instance.as_str().into(),
                instance.orchestration.as_str().into(),
                version_of(instance).into(),
                Cell::from(instance.status.name()).coloured(status_colour(instance.status)),
                moment(created).into(),
                span(now.saturating_sub(created)).into(),
                short(&remark(instance), false).into(),
            ]);
        }
        text = table.render(connection.look);
    }
    if let Some(next) = next {
        text.push_str(&format!("more: --limit, or --cursor {}\n", escape(next)));
    }
    text
}

/// What the instance says of itself, or why it says nothing more.
fn remark(instance: &Instance) -> String {
    let paused = instance.paused.as_ref().and_then(|paused| paused.reason.clone());
    match &instance.blocked {
        _ if paused.is_some() => paused.unwrap_or_default(),
        Some(blocked) => format!("{}: {}", blocked.cause, blocked.reason),
        None => instance.custom_status.clone().unwrap_or_default(),
    }
}
