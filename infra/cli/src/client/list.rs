//! `duroxide-lambda list`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::{CONCURRENT_READS, Status, status_colour};
use super::{Common, examples};
use crate::terminal::table::{Cell, Table, ids, left, right};
use crate::terminal::text::{moment, short, span};
use clap::Args;
use duroxide::ClientError;
use duroxide::providers::{InstanceInfo, Provider as _};
use duroxide_lambda::log::rfc3339;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

/// List instances, newest first.
///
/// An instance appears with its first turn. The table is cut to the width of a terminal, and complete in a pipe.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "list",
    "list --status failed --limit 100",
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

struct Row {
    info: InstanceInfo,
    custom_status: Option<String>,
}

impl List {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let client = connection.client();
        let found = match self.status {
            Some(status) => client.list_instances_by_status(status.name()).await?,
            None => client.list_all_instances().await?,
        };
        let (total, most) = (found.len(), self.limit as usize);
        let shown = &found[..total.min(most)];
        let infos = connection.find_all(shown).await?;
        let rows: Vec<_> = infos.into_iter().map(|info| row(connection, info)).collect();
        let rows: Vec<Row> = stream::iter(rows).buffered(CONCURRENT_READS).try_collect().await?;
        let instances: Vec<Value> = rows.iter().map(Row::json).collect();
        Ok(Answer::done(
            json!({ "total": total, "instances": instances }),
            render(connection, &rows, total),
        ))
    }
}

async fn row(connection: &Connection, info: InstanceInfo) -> Result<Row, Failure> {
    let custom = connection.store().get_custom_status(&info.instance_id, 0).await;
    let custom = custom.map_err(ClientError::from)?;
    Ok(Row {
        info,
        custom_status: custom.and_then(|(status, _)| status),
    })
}

impl Row {
    fn json(&self) -> Value {
        let info = &self.info;
        json!({
            "instance": info.instance_id,
            "orchestration": info.orchestration_name,
            "version": info.orchestration_version,
            "status": info.status,
            "customStatus": self.custom_status,
            "execution": info.current_execution_id,
            "createdAt": rfc3339(info.created_at),
            "updatedAt": rfc3339(info.updated_at),
            "parent": info.parent_instance_id,
        })
    }
}

fn render(connection: &Connection, rows: &[Row], total: usize) -> String {
    if rows.is_empty() {
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
    for Row { info, custom_status } in rows {
        table.row([
            info.instance_id.as_str().into(),
            info.orchestration_name.as_str().into(),
            info.orchestration_version.as_str().into(),
            Cell::from(&info.status).coloured(status_colour(&info.status)),
            moment(info.created_at).into(),
            span(now.saturating_sub(info.created_at)).into(),
            short(custom_status.as_deref().unwrap_or_default(), false).into(),
        ]);
    }
    let mut text = table.render(connection.look);
    if total > rows.len() {
        text.push_str(&format!("{} of {total}: --limit shows more\n", rows.len()));
    }
    text
}
