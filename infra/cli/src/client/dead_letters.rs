//! `duroxide-lambda dead-letters`: what was given up, and what becomes of it.

use super::answer::{Answer, Code, Fail};
use super::connect::Session;
use super::instance::id_parser;
use super::status::readable;
use super::{CODES, Common};
use clap::{Args, Subcommand};
use duroxide_cosmos::{DeadLetterCursor, DeadLetterId, DeadLetterKind, DeadLetterSummary, Redriven};
use local_cloud::term::table::{Cell, Fields, Table, ids, left, right};
use local_cloud::term::text::{escape, moment, short, span};
use serde_json::json;

/// List, show, redrive or discard what was given up.
///
/// A turn or an activity that failed too often (poison), and a message that could not be delivered, become dead letters.
/// They are kept for 30 days.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = format!("\
Examples:
  local dead-letters
  local dead-letters show order-7 ID
  local dead-letters redrive order-7 ID

{CODES}"))]
pub struct Letters {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List them, newest first; the same without a word
    List(List),
    /// Show one, with the work items that were given up
    Show(Which),
    /// Run it again: an undeliverable message is delivered, a poisoned instance starts anew under another id
    Redrive(Which),
    /// Delete it
    Discard(Which),
}

#[derive(Debug, Args)]
struct List {
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Go on where an earlier list ended: its `next`
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

impl Letters {
    pub(super) fn common(&self) -> &Common {
        match &self.verb {
            Some(Verb::List(list)) => &list.common,
            Some(Verb::Show(which) | Verb::Redrive(which) | Verb::Discard(which)) => &which.common,
            None => &self.list.common,
        }
    }

    pub(super) async fn act(self, session: &Session) -> Result<Answer, Fail> {
        match self.verb {
            None => self.list.act(session).await,
            Some(Verb::List(list)) => list.act(session).await,
            Some(Verb::Show(which)) => which.show(session).await,
            Some(Verb::Redrive(which)) => which.redrive(session).await,
            Some(Verb::Discard(which)) => which.discard(session).await,
        }
    }
}

impl List {
    async fn act(self, session: &Session) -> Result<Answer, Fail> {
        // A cursor is a text for whoever keeps it.
        let after: Option<DeadLetterCursor> = match self.after {
            Some(text) => Some(serde_json::from_value(text.into()).map_err(|error| Fail::error(error.to_string()))?),
            None => None,
        };
        let page = session.store().dead_letters(self.limit, after.as_ref()).await?;
        let mut text = "no dead letters".to_owned();
        if !page.dead_letters.is_empty() {
            let now = session.now_ms();
            let mut table = Table::new([
                ids("INSTANCE"),
                ids("ID"),
                left("KIND"),
                right("AGE"),
                right("TRIES").spare(),
                left("REASON"),
            ]);
            for dead_letter in &page.dead_letters {
                table.row([
                    Cell::new(&dead_letter.id.instance),
                    Cell::new(&dead_letter.id.id),
                    Cell::new(kind(dead_letter.kind)),
                    Cell::new(span(now.saturating_sub(dead_letter.at_ms))),
                    Cell::new(dead_letter.attempts.to_string()),
                    Cell::new(short(&dead_letter.reason, false)),
                ]);
            }
            text = table.render(session.look);
        }
        let json = serde_json::to_value(&page).map_err(|error| Fail::error(error.to_string()))?;
        if let Some(next) = json["next"].as_str() {
            text.push_str(&format!("there are more: --limit, or --after {}\n", escape(next)));
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

    fn gone(&self) -> Fail {
        Fail::new(
            Code::NotFound,
            format!(
                "instance '{}' has no dead letter '{}': it was redriven or discarded, has expired, or never was; \
                 `duroxide-lambda dead-letters` lists those there are",
                self.instance, self.id
            ),
        )
    }

    async fn show(self, session: &Session) -> Result<Answer, Fail> {
        let found = session.store().dead_letter(&self.dead_letter()).await?;
        let dead_letter = found.ok_or_else(|| self.gone())?;
        let json = serde_json::to_value(&dead_letter).map_err(|error| Fail::error(error.to_string()))?;
        let mut fields = described(&dead_letter.summary);
        for item in &dead_letter.items {
            fields.add("work item", readable(item.get(), false));
        }
        if dead_letter.omitted > 0 {
            fields.add(
                "not kept",
                format!("{} work items that were too large", dead_letter.omitted),
            );
        }
        Ok(Answer::done(json, fields.render(session.look)))
    }

    async fn redrive(self, session: &Session) -> Result<Answer, Fail> {
        let (target, delivered) = match session.store().redrive(&self.dead_letter()).await? {
            Redriven::Delivered { instance } => {
                session.notify(&instance).await;
                (instance, true)
            }
            Redriven::Undelivered { instance } => (instance, false),
            Redriven::Gone => return Err(self.gone()),
        };
        let how = match delivered {
            true => "queued for",
            false => "owed, and soon delivered by maintenance, to",
        };
        Ok(Answer::done(
            json!({ "instance": self.instance, "id": self.id, "target": target, "delivered": delivered, "notified": session.all_notified() }),
            format!("redrove {}: {how} {}", escape(&self.id), escape(&target)),
        ))
    }

    async fn discard(self, session: &Session) -> Result<Answer, Fail> {
        if !session.store().discard(&self.dead_letter()).await? {
            return Err(self.gone());
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
        DeadLetterKind::PoisonTurn => "poison-turn",
        DeadLetterKind::PoisonActivity => "poison-activity",
        DeadLetterKind::Unknown => "unknown",
    }
}
