//! `duroxide-lambda history`.

use super::answer::{Answer, Code, Failure};
use super::attempts::note;
use super::connection::Connection;
use super::event::{described, is_failure, parsed};
use super::filter::Filter;
use super::instance::{id_parser, waits_for};
use super::recorded::{self, Read};
use super::transport::Refused;
use super::{Common, examples, saved};
use crate::terminal::table::{Cell, Look, Table, left, right};
use crate::terminal::text::{escape, moment, short, span};
use clap::Args;
use comfy_table::Color;
use duroxide::Event;
use duroxide_lambda::replay::Recording;
use duroxide_lambda_api::types::{ActivityAttempts, Instance, ProblemType};
use futures::StreamExt as _;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::pin::pin;

/// Show the events of an instance.
///
/// AT is the time since the first event. FOR is the id of the event that an event answers: the scheduling of an activity that
/// completed, the creation of a timer that fired. The completion of an activity shows which attempt it was, and how earlier ones
/// ended. With --json the events are as duroxide records them, and `attempts` has those of each activity.
///
/// With --save it saves histories for `replay` instead: that of the instance, or those of all instances that have not ended or that match
/// the filters.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "history order-7",
    "history order-7 --full | less",
    "history counter --execution 3",
    "history order-7 --undone",
    "history order-7 --save histories",
    "history --save histories --name fulfil-order",
]))]
pub struct History {
    /// The instance's id
    #[arg(value_parser = id_parser(), required_unless_present = "save", conflicts_with = "Filter")]
    instance: Option<String>,
    /// Save histories as files in this folder, one per execution of an instance
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    #[command(flatten)]
    filter: Filter,
    /// The execution of an instance that continues as new [default: the current one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "instance")]
    execution: Option<u64>,
    /// What a rewind has undone, by its number [default: by the last one]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = false, value_parser = clap::value_parser!(u64).range(1..),
        requires = "instance", conflicts_with_all = ["execution", "save"])]
    undone: Option<Option<u64>>,
    /// Do not shorten long values
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

impl History {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let (id, folder) = match (&self.instance, &self.save) {
            (Some(id), None) => (id, None),
            (Some(id), Some(folder)) => (id, Some(folder)),
            (None, Some(folder)) => return save_all(connection, &self.filter, folder).await,
            (None, None) => return Err(Failure::new(Code::Usage, "an instance is missing")),
        };
        let instance = connection.get(id).await?;
        if instance.started_at.is_none() {
            return Err(Failure::new(
                Code::NotFound,
                format!(
                    "instance '{id}' has no history yet: {}",
                    waits_for(&instance, connection.now_ms())
                ),
            ));
        }
        match folder {
            Some(folder) => self.save_one(connection, &instance, folder).await,
            None => match self.undone {
                Some(number) => self.show_undone(connection, &instance, number).await,
                None => self.show(connection, &instance).await,
            },
        }
    }

    async fn show_undone(
        &self,
        connection: &Connection,
        instance: &Instance,
        number: Option<u64>,
    ) -> Result<Answer, Failure> {
        let id = &instance.instance;
        let Some(number) = number.or(instance.rewinds.last().map(|rewind| rewind.number)) else {
            return Err(Failure::new(
                Code::NotFound,
                format!("instance '{id}' was never rewound"),
            ));
        };
        let history = match connection.undone(id, number).await {
            Err(Refused::Problem {
                kind: Some(ProblemType::NotFound),
                ..
            }) => {
                let message = format!("instance '{id}' has no rewind {number}, or remembers it no more");
                return Err(Failure::new(Code::NotFound, message));
            }
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
            json!({ "instance": id, "execution": history.execution, "undone": history.undone, "events": history.events }),
            render(id, history.execution, (&events, &history.attempts), look, self.full),
        ))
    }

    async fn show(&self, connection: &Connection, instance: &Instance) -> Result<Answer, Failure> {
        let id = &instance.instance;
        let execution = self.execution.unwrap_or(instance.execution);
        let history = match connection.history(id, Some(execution)).await {
            Err(Refused::Problem {
                kind: Some(ProblemType::NotFound),
                ..
            }) => return Err(no_execution(connection, id, execution).await?),
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
            json!({ "instance": id, "execution": execution, "events": history.events, "attempts": history.attempts }),
            render(id, execution, (&events, &history.attempts), look, self.full),
        ))
    }

    async fn save_one(&self, connection: &Connection, instance: &Instance, folder: &Path) -> Result<Answer, Failure> {
        saved::prepare(folder)?;
        match recorded::history(connection, instance, self.execution, false).await? {
            Read::Recorded(recording) => {
                let file = saved::save(folder, &recording)?;
                let events = recording.events.len();
                Ok(answer_of(&[(*recording, file, events)], 0))
            }
            Read::Unreadable(instance, why) => Err(unreadable(&instance, &why)),
            Read::NotBegun | Read::Gone => {
                let execution = self.execution.unwrap_or(instance.execution);
                Err(no_execution(connection, &instance.instance, execution).await?)
            }
        }
    }
}

/// Saves the histories of all instances that match.
async fn save_all(connection: &Connection, filter: &Filter, folder: &Path) -> Result<Answer, Failure> {
    saved::prepare(folder)?;
    let (instances, _) = recorded::in_flight(connection, filter, None).await?;
    let mut histories = pin!(recorded::histories(connection, instances, filter.status.is_none()));
    let (mut files, mut skipped) = (Vec::new(), 0);
    while let Some(read) = histories.next().await {
        match read? {
            Read::Recorded(mut recording) => {
                let file = saved::save(folder, &recording)?;
                // The list needs no more than their number; there may be many.
                let events = recording.events.len();
                recording.events.clear();
                files.push((*recording, file, events));
            }
            Read::NotBegun | Read::Gone => skipped += 1,
            // Those before it are saved.
            Read::Unreadable(instance, why) => return Err(unreadable(&instance, &why)),
        }
    }
    Ok(answer_of(&files, skipped))
}

fn unreadable(instance: &str, why: &str) -> Failure {
    Failure::error(format!("the history of instance '{instance}' cannot be read: {why}"))
}

fn answer_of(files: &[(Recording, PathBuf, usize)], skipped: usize) -> Answer {
    let rows = files.iter().map(|(recording, file, events)| {
        json!({
            "instance": recording.instance,
            "execution": recording.execution,
            "events": events,
            "file": file.display().to_string(),
        })
    });
    let mut text: String = files
        .iter()
        .map(|(_, file, events)| format!("{} ({events} events)\n", escape(&file.display().to_string())))
        .collect();
    text.push_str(&format!("{} saved, {skipped} without a history skipped\n", files.len()));
    Answer::done(json!({ "saved": rows.collect::<Vec<_>>(), "skipped": skipped }), text)
}

async fn no_execution(connection: &Connection, instance: &str, execution: u64) -> Result<Failure, Failure> {
    let kept = connection.executions(instance).await?;
    let kept: Vec<String> = kept.iter().map(|kept| kept.execution.to_string()).collect();
    let message = format!(
        "instance '{instance}' has no execution {execution}; it has: {}",
        kept.join(", ")
    );
    Ok(Failure::new(Code::NotFound, message))
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
