//! `duroxide-lambda list`.

use super::answer::{Answer, Fail};
use super::connect::Session;
use super::{CODES, Common};
use clap::{Args, ValueEnum};
use duroxide::ClientError;
use duroxide::providers::{InstanceInfo, Provider as _};
use duroxide_lambda::log::rfc3339;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use local_cloud::term::table::{Cell, Table, ids, left, right};
use local_cloud::term::text::{moment, short, span};
use serde_json::{Value, json};

/// How many custom statuses are read at once.
const AT_ONCE: usize = 8;

/// List instances, newest first.
///
/// An instance appears with its first turn. On a terminal the table is cut to its width; piped, it is not.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  local list
  local list --status failed --limit 100
  local list --json | jq -r '.instances[].instance'

{CODES}"))]
pub struct List {
    /// Only those of this status
    #[arg(long)]
    status: Option<Status>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

/// duroxide's names, as one types them.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    Running,
    Completed,
    Failed,
    /// Between two executions
    ContinuedAsNew,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Running => "Running",
            Status::Completed => "Completed",
            Status::Failed => "Failed",
            Status::ContinuedAsNew => "ContinuedAsNew",
        }
    }
}

struct Row {
    info: InstanceInfo,
    custom_status: Option<String>,
}

impl List {
    pub(super) async fn act(self, session: &Session) -> Result<Answer, Fail> {
        let client = session.client();
        let found = match self.status {
            Some(status) => client.list_instances_by_status(status.name()).await?,
            None => client.list_all_instances().await?,
        };
        let (total, most) = (found.len(), self.limit as usize);
        let shown = &found[..total.min(most)];
        let infos = session.find_all(shown).await?;
        let rows: Vec<_> = infos.into_iter().map(|info| row(session, info)).collect();
        let rows: Vec<Row> = stream::iter(rows).buffered(AT_ONCE).try_collect().await?;
        let instances: Vec<Value> = rows.iter().map(Row::json).collect();
        Ok(Answer::done(
            json!({ "total": total, "instances": instances }),
            render(session, &rows, total),
        ))
    }
}

async fn row(session: &Session, info: InstanceInfo) -> Result<Row, Fail> {
    let custom = session.store().get_custom_status(&info.instance_id, 0).await;
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

fn render(session: &Session, rows: &[Row], total: usize) -> String {
    if rows.is_empty() {
        return "no instances".to_owned();
    }
    let now = session.now_ms();
    let mut table = Table::new([
        ids("INSTANCE"),
        left("ORCHESTRATION"),
        left("VERSION").spare(),
        left("STATUS"),
        left("CREATED").spare(),
        right("AGE"),
        left("CUSTOM STATUS"),
    ]);
    for Row { info, custom_status } in rows {
        table.row([
            Cell::new(&info.instance_id),
            Cell::new(&info.orchestration_name),
            Cell::new(&info.orchestration_version),
            Cell::status(&info.status),
            Cell::new(moment(info.created_at)),
            Cell::new(span(now.saturating_sub(info.created_at))),
            Cell::new(
                custom_status
                    .as_ref()
                    .map(|text| short(text, false))
                    .unwrap_or_default(),
            ),
        ]);
    }
    let mut text = table.render(session.look);
    if total > rows.len() {
        text.push_str(&format!("{} of {total}: --limit shows more\n", rows.len()));
    }
    text
}
