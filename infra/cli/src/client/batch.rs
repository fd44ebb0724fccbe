//! `duroxide-lambda batch`: one action on many instances.

use super::answer::{Answer, Code, Failure, warn};
use super::connection::Connection;
use super::filter::Filter;
use super::instance::{id_parser, ms_of};
use super::{Common, examples_with, payload};
use crate::terminal::table::{Fields, Table, ids, left, right};
use crate::terminal::text::{escape, moment, short, span};
use clap::{Args, Subcommand, ValueEnum};
use duroxide_lambda_api::types::{Batch, BatchFailure, BatchRequest, BatchState, BatchVerb};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// How often `--wait` looks.
const PAUSE: Duration = Duration::from_secs(1);

const EXIT_CODES: &str = "\
Exit codes:
  0: done
  1: error, for example API unreachable
  2: wrong usage
  3: the batch has ended and instances failed, or it was cancelled or cannot go on
  5: not found";

/// Change many instances at once: cancel, pause, resume, raise, delete, rewind or restart by filter.
///
/// A batch goes on by itself, in paced steps, and handles each instance once. Look at a dry run first.
#[derive(Debug, Args)]
#[command(after_help = examples_with(&[
    "batch start pause --version 1.2.0 --dry-run --wait",
    "batch start pause --version 1.2.0 --reason 'wrong prices' --wait",
    "batch start raise --status running --name fulfil-order --event shop-open --data '{}'",
    "batch start restart --status failed --created-from 2026-11-17T20:00:00Z --in-place --rate 50",
    "batch status ID",
    "batch failures ID --json | jq -r '.failures[].instance'",
    "batch cancel ID",
], EXIT_CODES))]
pub struct Batches {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Begin a batch
    Start(Box<Start>),
    /// Show a batch and its progress
    Status(Which),
    /// List batches, newest first
    List(List),
    /// Stop a batch; what it has done stays done
    Cancel(Which),
    /// List the instances that failed, with their reasons
    Failures(Failures),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    Cancel,
    Pause,
    Resume,
    Raise,
    Delete,
    Rewind,
    Restart,
}

#[derive(Debug, Args)]
struct Start {
    /// What to do with each instance
    action: Action,
    #[command(flatten)]
    filter: Filter,
    /// Every instance: needed if there is no other filter
    #[arg(long)]
    all: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// How many instances to handle in a second, at most [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    rate: Option<u32>,
    /// Wait for its end, and print its progress to stderr
    #[arg(long)]
    wait: bool,
    /// cancel, pause, rewind: the reason
    #[arg(long, value_name = "TEXT", value_parser = id_parser())]
    reason: Option<String>,
    /// pause, resume: also all descendants
    #[arg(long)]
    children: bool,
    /// raise: the name of the event
    #[arg(long, value_name = "NAME", value_parser = id_parser())]
    event: Option<String>,
    /// raise: its data; `-` reads stdin, `@FILE` a file
    #[arg(long, value_name = "TEXT", allow_negative_numbers = true, requires = "event")]
    data: Option<String>,
    /// delete: also instances that have not ended
    #[arg(long)]
    force: bool,
    /// restart: as the next execution of the same instance
    #[arg(long)]
    in_place: bool,
    /// rewind, and restart in place: also children
    #[arg(long)]
    alone: bool,
    /// rewind: run activities again whose results were obtained
    #[arg(long)]
    discard_results: bool,
    /// restart: the version of the orchestration
    #[arg(long, value_name = "VERSION", value_parser = id_parser())]
    to_version: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Which {
    /// The batch's id
    #[arg(value_parser = id_parser())]
    batch: String,
    /// Wait for its end, and print its progress to stderr
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct List {
    /// The most batches to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Continue where an earlier list ended: its `next`
    #[arg(long, value_name = "NEXT", value_parser = id_parser())]
    cursor: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Failures {
    /// The batch's id
    #[arg(value_parser = id_parser())]
    batch: String,
    /// Continue where an earlier list ended: its `next`
    #[arg(long, value_name = "NEXT", value_parser = id_parser())]
    cursor: Option<String>,
    #[command(flatten)]
    common: Common,
}

impl Batches {
    pub(super) fn common(&self) -> &Common {
        match &self.verb {
            Verb::Start(verb) => &verb.common,
            Verb::Status(verb) | Verb::Cancel(verb) => &verb.common,
            Verb::List(verb) => &verb.common,
            Verb::Failures(verb) => &verb.common,
        }
    }

    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        match self.verb {
            Verb::Start(start) => {
                let begun = connection.start_batch(&start.request()?).await?;
                ended(connection, begun, start.wait).await
            }
            Verb::Status(which) => {
                let batch = connection.batch(&which.batch).await?;
                ended(connection, batch, which.wait).await
            }
            Verb::Cancel(which) => {
                let batch = connection.cancel_batch(&which.batch).await?;
                match which.wait {
                    true => ended(connection, batch, true).await,
                    false => Ok(Answer::done(json_of(&batch)?, format!("batch {} stops", batch.batch))),
                }
            }
            Verb::List(list) => {
                let page = connection.batches(list.limit, list.cursor.as_deref()).await?;
                let json: Vec<Value> = page.batches.iter().map(json_of).collect::<Result<_, _>>()?;
                let text = listed(connection, &page.batches, page.next_cursor.as_deref());
                Ok(Answer::done(json!({ "batches": json, "next": page.next_cursor }), text))
            }
            Verb::Failures(which) => {
                let page = connection.batch_failures(&which.batch, which.cursor.as_deref()).await?;
                let text = failures(connection, &page.failures, page.next_cursor.as_deref());
                let json = json!({ "failures": page.failures, "next": page.next_cursor });
                Ok(Answer::done(json, text))
            }
        }
    }
}

impl Start {
    fn request(&self) -> Result<BatchRequest, Failure> {
        let flag = |flag: bool| flag.then_some(true);
        Ok(BatchRequest {
            filter: self.filter.of_batch(self.all),
            action: match self.action {
                Action::Cancel => BatchVerb::Cancel,
                Action::Pause => BatchVerb::Pause,
                Action::Resume => BatchVerb::Resume,
                Action::Raise => BatchVerb::Raise,
                Action::Delete => BatchVerb::Delete,
                Action::Rewind => BatchVerb::Rewind,
                Action::Restart => BatchVerb::Restart,
            },
            dry_run: self.dry_run,
            rate: self.rate,
            reason: self.reason.clone(),
            children: flag(self.children),
            event: self.event.clone(),
            data: None,
            data_text: self.data.as_deref().map(payload::read).transpose()?,
            force: flag(self.force),
            in_place: flag(self.in_place),
            alone: flag(self.alone),
            discard_results: flag(self.discard_results),
            version: self.to_version.clone(),
        })
    }
}

/// The batch as it is, or when it has ended.
async fn ended(connection: &Connection, mut batch: Batch, wait: bool) -> Result<Answer, Failure> {
    let mut said = String::new();
    while wait && !batch.state.has_ended() {
        let now = progress(&batch);
        if now != said {
            warn(&now);
            said = now;
        }
        sleep(PAUSE).await;
        batch = connection.batch(&batch.batch).await?;
    }
    let code = match batch.state {
        BatchState::Cancelled | BatchState::Failed => Code::Failed,
        BatchState::Completed if batch.counts.failed > 0 && !batch.dry_run => Code::Failed,
        _ => Code::Done,
    };
    Ok(Answer {
        code,
        json: json_of(&batch)?,
        text: shown(connection, &batch),
    })
}

fn json_of(batch: &Batch) -> Result<Value, Failure> {
    serde_json::to_value(batch).map_err(|error| Failure::error(format!("the batch cannot be printed: {error}")))
}

fn name_of(verb: BatchVerb) -> &'static str {
    match verb {
        BatchVerb::Cancel => "cancel",
        BatchVerb::Pause => "pause",
        BatchVerb::Resume => "resume",
        BatchVerb::Raise => "raise",
        BatchVerb::Delete => "delete",
        BatchVerb::Rewind => "rewind",
        BatchVerb::Restart => "restart",
    }
}

/// One line of progress.
fn progress(batch: &Batch) -> String {
    let counts = &batch.counts;
    let would = if batch.dry_run { "would be " } else { "" };
    let mut line = format!("{} examined, {} {would}changed", counts.examined, counts.changed);
    for (count, what) in [(counts.unchanged, "unchanged"), (counts.gone, "gone")] {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    }
    if counts.failed > 0 {
        let what = if batch.dry_run { "would be refused" } else { "failed" };
        line.push_str(&format!(", {} {what}", counts.failed));
    }
    if batch.slowed {
        line.push_str(" (slowed down: the store throttles, or turns are late)");
    }
    line
}

fn shown(connection: &Connection, batch: &Batch) -> String {
    let mut fields = Fields::default();
    fields.add("batch", &batch.batch);
    let dry = if batch.dry_run { " (dry run)" } else { "" };
    fields.add("action", format!("{}{dry}", name_of(batch.action)));
    fields.add("state", format!("{:?}", batch.state));
    fields.add("progress", progress(batch));
    fields.add("begun", moment(ms_of(&batch.created_at)));
    if let Some(at) = &batch.ended_at {
        let took = ms_of(at).saturating_sub(ms_of(&batch.created_at));
        fields.add("ended", format!("{} (after {})", moment(ms_of(at)), span(took)));
    }
    if let Some(by) = &batch.by {
        fields.add("by", by);
    }
    if !batch.by_status.is_empty() {
        let found: Vec<String> = batch
            .by_status
            .iter()
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        fields.add("found", found.join(", "));
    }
    if let Some(error) = &batch.error {
        fields.add("error", error);
    }
    let mut text = fields.render(connection.look);
    if batch.dry_run && !batch.sample.is_empty() {
        let mut table = Table::new([ids("INSTANCE"), left("STATUS")]);
        for sample in &batch.sample {
            table.row([sample.instance.as_str().into(), sample.status.as_str().into()]);
        }
        text.push_str(&table.render(connection.look));
    }
    text
}

fn listed(connection: &Connection, batches: &[Batch], next: Option<&str>) -> String {
    let mut text = "no batches\n".to_owned();
    if !batches.is_empty() {
        let now = connection.now_ms();
        let mut table = Table::new([
            ids("BATCH"),
            left("ACTION"),
            left("STATE"),
            right("AGE"),
            left("PROGRESS"),
        ]);
        for batch in batches {
            table.row([
                batch.batch.as_str().into(),
                name_of(batch.action).into(),
                format!("{:?}", batch.state).into(),
                span(now.saturating_sub(ms_of(&batch.created_at))).into(),
                progress(batch).into(),
            ]);
        }
        text = table.render(connection.look);
    }
    more(text, next)
}

fn failures(connection: &Connection, failures: &[BatchFailure], next: Option<&str>) -> String {
    let mut text = "no instance failed\n".to_owned();
    if !failures.is_empty() {
        let mut table = Table::new([ids("INSTANCE"), left("REASON")]);
        for failure in failures {
            table.row([failure.instance.as_str().into(), short(&failure.reason, false).into()]);
        }
        text = table.render(connection.look);
    }
    more(text, next)
}

fn more(mut text: String, next: Option<&str>) -> String {
    if let Some(next) = next {
        text.push_str(&format!("more: --cursor {}\n", escape(next)));
    }
    text
}
