//! `duroxide-lambda list`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::filter::Filter;
use super::instance::{id_parser, ms_of, status_colour, version_of};
use super::{Common, examples};
use crate::terminal::table::{Cell, Table, ids, left, right};
use crate::terminal::text::{escape, moment, short, span};
use clap::Args;
use duroxide_lambda_api::types::{Instance, InstanceList};
use serde_json::{Value, json};

/// The most instances of a page that the API has; and of one that explains each of them.
const PAGE: u32 = 200;
const EXPLAINED_PAGE: u32 = 50;

/// What a list says that has nothing.
const NOTHING: &str = "no instances\n";

/// List instances, newest first.
///
/// An instance appears when its start is accepted. Filters can be combined. The table is cut to the width of a terminal, and
/// complete in a pipe.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "list",
    "list --status failed --limit 100",
    "list --attention --explain",
    "list --name fulfil-order --tag customer=ada --created-from 2026-11-01T00:00:00Z",
    "list --prefix order- --json | jq -r '.instances[].instance'",
    "list --cursor CURSOR",
]))]
pub struct List {
    #[command(flatten)]
    filter: Filter,
    /// Only instances that need attention: blocked, overdue, with a blocked activity or a dead letter, or failed within 24 hours
    ///
    /// `--ended-from` changes since when a failed instance counts.
    #[arg(long)]
    attention: bool,
    /// Also explain each of them in one sentence
    #[arg(long)]
    explain: bool,
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
        let mut query = self.filter.query();
        let flags = [("attention", self.attention), ("explain", self.explain)];
        query.extend(
            flags
                .map(|(name, is_set)| is_set.then(|| (name, "true".to_owned())))
                .into_iter()
                .flatten(),
        );
        let found = pages(connection, &query, self.cursor.clone(), self.limit).await?;
        let rows: Vec<Value> = found.instances.iter().map(row).collect();
        let text = match self.explain {
            true => explained(connection, &found.instances),
            false => table(connection, &found.instances, self.attention),
        };
        Ok(Answer::done(
            json!({ "instances": rows, "next": found.next_cursor, "truncated": found.truncated }),
            text + &remarks(&found),
        ))
    }
}

/// So many instances from a cursor on, and the cursor after them. A page of the API may be short and still continue.
pub(super) async fn pages(
    connection: &Connection,
    filter: &[(&'static str, String)],
    cursor: Option<String>,
    limit: u32,
) -> Result<InstanceList, Failure> {
    let most = match filter.iter().any(|(name, _)| *name == "explain") {
        true => EXPLAINED_PAGE,
        false => PAGE,
    };
    let mut found = InstanceList {
        next_cursor: cursor,
        ..InstanceList::default()
    };
    let mut left = limit;
    loop {
        let mut query = filter.to_vec();
        query.extend(found.next_cursor.map(|cursor| ("cursor", cursor)));
        let page = connection.list(&query, left.min(most)).await?;
        left = left.saturating_sub(u32::try_from(page.instances.len()).unwrap_or(left));
        found.instances.extend(page.instances);
        found.next_cursor = page.next_cursor;
        found.truncated |= page.truncated;
        if left == 0 || found.next_cursor.is_none() {
            return Ok(found);
        }
    }
}

/// The ids of all instances that this one has started, the oldest first.
pub(super) async fn every_child(connection: &Connection, instance: &str) -> Result<Vec<String>, Failure> {
    let filter = [("parent", instance.to_owned())];
    let children = pages(connection, &filter, None, u32::MAX).await?;
    Ok(children
        .instances
        .into_iter()
        .rev()
        .map(|child| child.instance)
        .collect())
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
        "attention": instance.attention,
        "explanation": instance.explanation,
    })
}

fn table(connection: &Connection, instances: &[Instance], attention: bool) -> String {
    if instances.is_empty() {
        return NOTHING.to_owned();
    }
    let now = connection.now_ms();
    let mut columns = vec![
        ids("INSTANCE"),
        left("ORCHESTRATION"),
        left("VERSION").optional(),
        left("STATUS"),
        left("CREATED").optional(),
        right("AGE"),
    ];
    columns.extend(attention.then(|| left("ATTENTION")));
    columns.push(left("CUSTOM STATUS"));
    let mut table = Table::new(columns);
    for instance in instances {
        let created = ms_of(&instance.created_at);
        let mut cells = vec![
            instance.instance.as_str().into(),
            instance.orchestration.as_str().into(),
            version_of(instance).into(),
            Cell::from(instance.status.name()).coloured(status_colour(instance.status)),
            moment(created).into(),
            span(now.saturating_sub(created)).into(),
        ];
        cells.extend(attention.then(|| instance.attention.join(", ").into()));
        cells.push(short(&remark(instance), false).into());
        table.row(cells);
    }
    table.render(connection.look)
}

/// A sentence is too long for a column: each has a line of its own below its instance.
fn explained(connection: &Connection, instances: &[Instance]) -> String {
    if instances.is_empty() {
        return NOTHING.to_owned();
    }
    let now = connection.now_ms();
    let lines = instances.iter().map(|instance| {
        let age = span(now.saturating_sub(ms_of(&instance.created_at)));
        let why = match instance.attention.is_empty() {
            true => String::new(),
            false => format!(", {}", instance.attention.join(", ")),
        };
        let sentence = instance.explanation.as_deref().unwrap_or("It was deleted meanwhile.");
        format!(
            "{} ({}, {}, {age}{why})\n  {}\n",
            escape(&instance.instance),
            escape(&instance.orchestration),
            instance.status.name(),
            escape(sentence)
        )
    });
    lines.collect()
}

/// What the list does not have.
fn remarks(found: &InstanceList) -> String {
    let mut text = String::new();
    if found.truncated {
        text.push_str("not complete: more than 200 items are overdue, blocked or given up\n");
    }
    if let Some(next) = &found.next_cursor {
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
