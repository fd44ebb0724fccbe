//! `duroxide-lambda history`.

use super::answer::{Answer, Code, Failure};
use super::attempts::note;
use super::connection::Connection;
use super::event::{described, is_failure, parsed};
use super::instance::{id_parser, waits_for};
use super::transport::Refused;
use super::{Common, examples};
use crate::terminal::table::{Cell, Look, Table, left, right};
use crate::terminal::text::{escape, moment, short, span};
use clap::Args;
use comfy_table::Color;
use duroxide::Event;
use duroxide_lambda_api::types::{ActivityAttempts, ProblemType};
use serde_json::json;

/// Show the events of an instance.
///
/// AT is the time since the first event. FOR is the id of the event that an event answers: the scheduling of an activity that
/// completed, the creation of a timer that fired. The completion of an activity shows which attempt it was, and how earlier ones
/// ended. With --json the events are as duroxide records them, and `attempts` has those of each activity.
#[derive(Debug, Args)]
#[command(after_help = examples(&["history order-7", "history order-7 --full | less", "history counter --execution 3"]))]
pub struct History {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// The execution of an instance that continues as new [default: the current one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    execution: Option<u64>,
    /// Do not shorten long values
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

impl History {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let instance = connection.get(&self.instance).await?;
        if instance.started_at.is_none() {
            return Err(Failure::new(
                Code::NotFound,
                format!(
                    "instance '{}' has no history yet: {}",
                    self.instance,
                    waits_for(&instance, connection.now_ms())
                ),
            ));
        }
        let execution = self.execution.unwrap_or(instance.execution);
        let history = match connection.history(&self.instance, Some(execution)).await {
            Err(Refused::Problem {
                kind: Some(ProblemType::NotFound),
                ..
            }) => return Err(self.no_execution(connection, execution).await?),
            history => history?,
        };
        let events = parsed(&history.events)?;
        let look = match self.full {
            true => Look {
                columns: None,
                ..connection.look
            },
            false => connection.look,
        };
        Ok(Answer::done(
            json!({ "instance": self.instance, "execution": execution, "events": history.events, "attempts": history.attempts }),
            render(&self.instance, execution, (&events, &history.attempts), look, self.full),
        ))
    }
}

impl History {
    async fn no_execution(&self, connection: &Connection, execution: u64) -> Result<Failure, Failure> {
        let kept = connection.executions(&self.instance).await?;
        let kept: Vec<String> = kept.iter().map(|kept| kept.execution.to_string()).collect();
        let message = format!(
            "instance '{}' has no execution {execution}; it has: {}",
            self.instance,
            kept.join(", ")
        );
        Ok(Failure::new(Code::NotFound, message))
    }
}

fn render(
    instance: &str,
    execution: u64,
    (events, attempts): (&[Event], &[ActivityAttempts]),
    look: Look,
    full: bool,
) -> String {
    let begin = events.first().map_or(0, |event| event.timestamp_ms);
    let mut table = Table::new([right("ID"), right("AT"), left("EVENT"), right("FOR"), left("DETAILS")]);
    for event in events {
        let (kind, details) = described(&event.kind);
        let kind = match is_failure(&event.kind) {
            true => Cell::from(kind).coloured(Color::Red),
            false => Cell::from(kind),
        };
        table.row([
            event.event_id.to_string().into(),
            format!("+{}", span(event.timestamp_ms.saturating_sub(begin))).into(),
            kind,
            event
                .source_event_id
                .map(|id| id.to_string())
                .unwrap_or_default()
                .into(),
            [Some(short(&details, full)), note(event, begin, attempts)]
                .into_iter()
                .flatten()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(" ")
                .into(),
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
