//! `duroxide-lambda history`.

use super::answer::{Answer, Code, Fail};
use super::connect::Session;
use super::event::{is_bad, words};
use super::instance::id_parser;
use super::{CODES, Common};
use clap::Args;
use duroxide::Event;
use local_cloud::term::table::{Cell, Look, Table, Tone, left, right};
use local_cloud::term::text::{escape, moment, short, span};
use serde_json::json;

/// Show what happened to an instance, event by event.
///
/// AT is the time since the first event. FOR names the event that an event answers: the activity that completed, the
/// timer that fired. With --json the events are as duroxide records them.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  local history order-7
  local history order-7 --full | less
  local history counter --execution 3

{CODES}"))]
pub struct History {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// Which execution of one that continues as new. Default: the current one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    execution: Option<u64>,
    /// Show long values to their end
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

impl History {
    pub(super) async fn act(self, session: &Session) -> Result<Answer, Fail> {
        let info = session.known(&self.instance).await?;
        let client = session.client();
        let execution = self.execution.unwrap_or(info.current_execution_id);
        let kept = client.list_executions(&self.instance).await?;
        if !kept.contains(&execution) {
            let kept: Vec<String> = kept.iter().map(u64::to_string).collect();
            return Err(Fail::new(
                Code::NotFound,
                format!(
                    "instance '{}' has no execution {execution}; kept are: {}",
                    self.instance,
                    kept.join(", ")
                ),
            ));
        }
        let events = client.read_execution_history(&self.instance, execution).await?;
        let look = match self.full {
            true => Look {
                columns: None,
                ..session.look
            },
            false => session.look,
        };
        Ok(Answer::done(
            json!({ "instance": self.instance, "execution": execution, "events": events }),
            render(&self.instance, execution, &events, look, self.full),
        ))
    }
}

fn render(instance: &str, execution: u64, events: &[Event], look: Look, full: bool) -> String {
    let begin = events.first().map_or(0, |event| event.timestamp_ms);
    let mut table = Table::new([right("ID"), right("AT"), left("EVENT"), right("FOR"), left("WHAT")]);
    for event in events {
        let (kind, what) = words(&event.kind);
        let tone = if is_bad(&event.kind) { Tone::Bad } else { Tone::Plain };
        table.row([
            Cell::new(event.event_id.to_string()),
            Cell::new(format!("+{}", span(event.timestamp_ms.saturating_sub(begin)))),
            Cell::new(kind).toned(tone),
            Cell::new(event.source_event_id.map(|id| id.to_string()).unwrap_or_default()),
            Cell::new(short(&what, full)),
        ]);
    }
    format!(
        "{}, execution {execution}, {} events from {}\n{}",
        escape(instance),
        events.len(),
        moment(begin),
        table.render(look)
    )
}
