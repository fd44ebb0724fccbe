//! `duroxide-lambda dead-letters`: list, show, redrive and discard.

use super::answer::{Answer, Code, Failure};
use super::connection::Connection;
use super::instance::id_parser;
use super::status::readable;
use super::{Common, examples};
use crate::terminal::program;
use crate::terminal::table::{Fields, Table, ids, left, right};
use crate::terminal::text::{escape, moment, short, span};
use clap::{Args, Subcommand};
use duroxide_cosmos::{DeadLetterCursor, DeadLetterId, DeadLetterKind, DeadLetterSummary, Redriven};
use serde_json::json;

/// List, show, redrive or discard dead letters.
///
/// A turn or an activity that was tried as often as allowed, and a message that could not be delivered, become dead letters.
/// They are kept for 30 days.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = examples(&[
    "dead-letters",
    "dead-letters show order-7 ID",
    "dead-letters redrive order-7 ID",
]))]
pub struct DeadLetters {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List them, newest first (default)
    List(List),
    /// Show one, with its work items
    Show(Which),
    /// Run it again: deliver the message, or start the instance again under another id
    Redrive(Which),
    /// Delete it
    Discard(Which),
}

#[derive(Debug, Args)]
struct List {
    /// The most dead letters to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Continue where an earlier list ended: its `next`
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Which {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// The dead letter's id, as the list shows it
    #[arg(value_parser = id_parser())]
    id: String,
    #[command(flatten)]
    common: Common,
}

impl DeadLetters {
    pub(super) fn common(&self) -> &Common {
        match &self.verb {
            Some(Verb::List(list)) => &list.common,
            Some(Verb::Show(which) | Verb::Redrive(which) | Verb::Discard(which)) => &which.common,
            None => &self.list.common,
        }
    }

    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        match self.verb {
            None => self.list.act(connection).await,
            Some(Verb::List(list)) => list.act(connection).await,
            Some(Verb::Show(which)) => which.show(connection).await,
            Some(Verb::Redrive(which)) => which.redrive(connection).await,
            Some(Verb::Discard(which)) => which.discard(connection).await,
        }
    }
}

impl List {
    async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let after: Option<DeadLetterCursor> = match self.after {
            Some(text) => Some(serde_json::from_value(text.into()).map_err(|error| Failure::error(error.to_string()))?),
            None => None,
        };
        let page = connection.store().dead_letters(self.limit, after.as_ref()).await?;
        let mut text = "no dead letters".to_owned();
        if !page.dead_letters.is_empty() {
            let now = connection.now_ms();
            let mut table = Table::new([
                ids("INSTANCE"),
                ids("ID"),
                left("KIND"),
                right("AGE"),
                right("TRIES").optional(),
                left("REASON"),
            ]);
            for dead_letter in &page.dead_letters {
                table.row([
                    dead_letter.id.instance.as_str().into(),
                    dead_letter.id.id.as_str().into(),
                    kind(dead_letter.kind).into(),
                    span(now.saturating_sub(dead_letter.at_ms)).into(),
                    dead_letter.attempts.to_string().into(),
                    short(&dead_letter.reason, false).into(),
                ]);
            }
            text = table.render(connection.look);
        }
        let json = serde_json::to_value(&page).map_err(|error| Failure::error(error.to_string()))?;
        if let Some(next) = json["next"].as_str() {
            text.push_str(&format!("more: --limit, or --after {}\n", escape(next)));
        }
        Ok(Answer::done(json, text))
    }
}

impl Which {
    fn dead_letter(&self) -> DeadLetterId {
        DeadLetterId {
            instance: self.instance.clone(),
            id: self.id.clone(),
        }
    }

    fn not_found(&self) -> Failure {
        Failure::new(
            Code::NotFound,
            format!(
                "instance '{}' has no dead letter '{}': it was redriven, was discarded, has expired or never existed; `{} \
                 dead-letters` lists all",
                self.instance,
                self.id,
                program()
            ),
        )
    }

    async fn show(self, connection: &Connection) -> Result<Answer, Failure> {
        let found = connection.store().dead_letter(&self.dead_letter()).await?;
        let dead_letter = found.ok_or_else(|| self.not_found())?;
        let json = serde_json::to_value(&dead_letter).map_err(|error| Failure::error(error.to_string()))?;
        let mut fields = described(&dead_letter.summary);
        for item in &dead_letter.items {
            fields.add("work item", readable(item.get(), false));
        }
        if dead_letter.omitted > 0 {
            fields.add(
                "not kept",
                format!("{} work items, which were too large", dead_letter.omitted),
            );
        }
        Ok(Answer::done(json, fields.render(connection.look)))
    }

    async fn redrive(self, connection: &Connection) -> Result<Answer, Failure> {
        let (target, delivered) = match connection.store().redrive(&self.dead_letter()).await? {
            Redriven::Delivered { instance } => {
                connection.notify(&instance).await;
                (instance, true)
            }
            Redriven::Undelivered { instance } => (instance, false),
            Redriven::Gone => return Err(self.not_found()),
        };
        let how = match delivered {
            true => "queued for",
            false => "maintenance will deliver it to",
        };
        Ok(Answer::done(
            json!({ "instance": self.instance, "id": self.id, "target": target, "delivered": delivered, "notified": connection.all_notified() }),
            format!("redrove {}: {how} {}", escape(&self.id), escape(&target)),
        ))
    }

    async fn discard(self, connection: &Connection) -> Result<Answer, Failure> {
        if !connection.store().discard(&self.dead_letter()).await? {
            return Err(self.not_found());
        }
        Ok(Answer::done(
            json!({ "instance": self.instance, "id": self.id, "discarded": true }),
            format!("discarded {} of {}", escape(&self.id), escape(&self.instance)),
        ))
    }
}

fn described(dead_letter: &DeadLetterSummary) -> Fields {
    let mut fields = Fields::default();
    fields.add("instance", escape(&dead_letter.id.instance));
    fields.add("id", escape(&dead_letter.id.id));
    fields.add("kind", kind(dead_letter.kind));
    fields.maybe("name", dead_letter.name.as_ref().map(|name| escape(name)));
    fields.maybe("for", dead_letter.target.as_ref().map(|target| escape(target)));
    fields.maybe(
        "execution",
        dead_letter.execution.map(|execution| execution.to_string()),
    );
    fields.add("given up", moment(dead_letter.at_ms));
    fields.add("tries", dead_letter.attempts.to_string());
    fields.add("reason", &dead_letter.reason);
    fields
}

fn kind(kind: DeadLetterKind) -> &'static str {
    match kind {
        DeadLetterKind::Undeliverable => "undeliverable",
        DeadLetterKind::NoInstance => "no-instance",
        DeadLetterKind::PoisonTurn => "poison-turn",
        DeadLetterKind::PoisonActivity => "poison-activity",
        DeadLetterKind::Unknown => "unknown",
    }
}
