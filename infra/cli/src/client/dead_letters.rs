//! `duroxide-lambda dead-letters`: list, show, redrive and discard.

use super::answer::{Answer, Code, Failure};
use super::connection::Connection;
use super::instance::{id_parser, ms_of};
use super::status::readable;
use super::transport::Refused;
use super::{Common, examples};
use crate::terminal::program;
use crate::terminal::table::{Fields, Table, ids, left, right};
use crate::terminal::text::{escape, moment, short, span};
use clap::{Args, Subcommand};
use duroxide_lambda_api::types::{DeadLetterSummary, ProblemType};
use serde_json::json;

/// The most dead letters of a page that the API has.
const PAGE: u32 = 200;

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
        let (mut dead_letters, mut next) = (Vec::new(), self.after);
        let mut wanted = self.limit;
        loop {
            let page = connection.dead_letters(wanted.min(PAGE), next.as_deref()).await?;
            wanted = wanted.saturating_sub(u32::try_from(page.dead_letters.len()).unwrap_or(wanted));
            dead_letters.extend(page.dead_letters);
            next = page.next_cursor;
            if wanted == 0 || next.is_none() {
                break;
            }
        }
        let mut text = "no dead letters".to_owned();
        if !dead_letters.is_empty() {
            let now = connection.now_ms();
            let mut table = Table::new([
                ids("INSTANCE"),
                ids("ID"),
                left("KIND"),
                right("AGE"),
                right("TRIES").optional(),
                left("REASON"),
            ]);
            for dead_letter in &dead_letters {
                table.row([
                    dead_letter.instance.as_str().into(),
                    dead_letter.id.as_str().into(),
                    dead_letter.kind.as_str().into(),
                    span(now.saturating_sub(ms_of(&dead_letter.given_up_at))).into(),
                    dead_letter.attempts.to_string().into(),
                    short(&dead_letter.reason, false).into(),
                ]);
            }
            text = table.render(connection.look);
        }
        if let Some(next) = &next {
            text.push_str(&format!("more: --limit, or --after {}\n", escape(next)));
        }
        Ok(Answer::done(json!({ "deadLetters": dead_letters, "next": next }), text))
    }
}

impl Which {
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

    /// Says that it is not found, if that is so.
    fn or_not_found(&self, refused: Refused) -> Failure {
        match refused {
            Refused::Problem {
                kind: Some(ProblemType::NotFound),
                ..
            } => self.not_found(),
            other => other.into(),
        }
    }

    async fn show(self, connection: &Connection) -> Result<Answer, Failure> {
        let found = connection.dead_letter(&self.instance, &self.id).await;
        let dead_letter = found.map_err(|refused| self.or_not_found(refused))?;
        let json = serde_json::to_value(&dead_letter).map_err(|error| Failure::error(error.to_string()))?;
        let mut fields = described(&dead_letter.summary);
        for item in &dead_letter.items {
            fields.add("work item", readable(&item.to_string(), false));
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
        let redriven = connection.redrive(&self.instance, &self.id).await;
        let redriven = redriven.map_err(|refused| self.or_not_found(refused))?;
        let (target, delivered) = (redriven.target, redriven.delivered);
        let how = match delivered {
            true => "queued for",
            false => "maintenance will deliver it to",
        };
        Ok(Answer::done(
            json!({ "instance": self.instance, "id": self.id, "target": target, "delivered": delivered }),
            format!("redrove {}: {how} {}", escape(&self.id), escape(&target)),
        ))
    }

    async fn discard(self, connection: &Connection) -> Result<Answer, Failure> {
        let discarded = connection.discard(&self.instance, &self.id).await;
        discarded.map_err(|refused| self.or_not_found(refused))?;
        Ok(Answer::done(
            json!({ "instance": self.instance, "id": self.id, "discarded": true }),
            format!("discarded {} of {}", escape(&self.id), escape(&self.instance)),
        ))
    }
}

fn described(dead_letter: &DeadLetterSummary) -> Fields {
    let mut fields = Fields::default();
    fields.add("instance", escape(&dead_letter.instance));
    fields.add("id", escape(&dead_letter.id));
    fields.add("kind", &dead_letter.kind);
    fields.maybe("name", dead_letter.name.as_ref().map(|name| escape(name)));
    fields.maybe("for", dead_letter.target.as_ref().map(|target| escape(target)));
    fields.maybe(
        "execution",
        dead_letter.execution.map(|execution| execution.to_string()),
    );
    fields.add("given up", moment(ms_of(&dead_letter.given_up_at)));
    fields.add("tries", dead_letter.attempts.to_string());
    fields.add("reason", &dead_letter.reason);
    fields
}
