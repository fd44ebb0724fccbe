//! `duroxide-lambda list`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::{Wanted, id_parser, ms_of, status_colour, version_of};
use super::{Common, examples};
use crate::terminal::table::{Cell, Table, ids, left, right};
use crate::terminal::text::{escape, moment, short, span};
use clap::Args;
use duroxide_lambda_api::types::time::{parse_rfc3339, rfc3339};
use duroxide_lambda_api::types::{Instance, Status};
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
    /// Only instances with this status
    #[arg(long)]
    status: Option<Wanted>,
    /// Only instances of this orchestration
    #[arg(long, value_name = "ORCHESTRATION", value_parser = id_parser())]
    name: Option<String>,
    /// Only instances of this version
    #[arg(long, value_name = "VERSION", value_parser = id_parser())]
    version: Option<String>,
    /// Only instances whose ids begin so
    #[arg(long, value_name = "TEXT", value_parser = id_parser(), allow_hyphen_values = true)]
    prefix: Option<String>,
    /// Only instances with this tag; may be repeated
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    tags: Vec<String>,
    /// Only instances that were accepted at this time or later, like 2026-11-17T20:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    created_from: Option<String>,
    /// Only instances that were accepted at this time or before
    #[arg(long, value_name = "TIME", value_parser = time)]
    created_to: Option<String>,
    /// Only instances that this one has started
    #[arg(long, value_name = "INSTANCE", value_parser = id_parser())]
    parent: Option<String>,
    /// The most instances to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Continue where an earlier list with the same filters ended: its `next`
    #[arg(long, value_name = "NEXT", value_parser = id_parser())]
    cursor: Option<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A tag as the API takes it.
fn tag(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok(format!("{key}:{value}")),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

fn time(text: &str) -> Result<String, String> {
    let ms = parse_rfc3339(text).ok_or("write it like 2026-11-17T20:00:00Z")?;
    Ok(rfc3339(ms))
}

impl List {
    fn filter(&self) -> Vec<(&'static str, String)> {
        let texts = [
            ("status", self.status.map(|status| Status::from(status).to_string())),
            ("name", self.name.clone()),
            ("version", self.version.clone()),
            ("prefix", self.prefix.clone()),
            ("createdFrom", self.created_from.clone()),
            ("createdTo", self.created_to.clone()),
            ("parent", self.parent.clone()),
        ];
        let mut filter: Vec<_> = texts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        filter.extend(self.tags.iter().map(|tag| ("tag", tag.clone())));
        filter
    }

    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let (instances, next) = pages(connection, &self.filter(), self.cursor.clone(), self.limit).await?;
        let rows: Vec<Value> = instances.iter().map(row).collect();
        Ok(Answer::done(
            json!({ "instances": rows, "next": next }),
            render(connection, &instances, next.as_deref()),
        ))
    }
}

/// So many instances from a cursor on, and the cursor after them. A page of the API may be short and still continue.
async fn pages(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_times_are_passed_as_the_api_takes_them() {
        assert_eq!(tag("customer=a=b"), Ok("customer:a=b".to_owned()));
        assert!(tag("customer").is_err() && tag("=a").is_err() && tag("a=").is_err());
        assert_eq!(
            time("2026-01-31T13:00:00+01:00"),
            Ok("2026-01-31T12:00:00.000Z".to_owned())
        );
        assert!(time("yesterday").is_err());
    }
}
