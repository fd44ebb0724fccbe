//! `duroxide-lambda explain`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::{id_parser, ms_of};
use super::{Common, examples};
use crate::terminal::program;
use crate::terminal::table::{Look, Table, ids, left};
use crate::terminal::text::{escape, moment, span};
use clap::Args;
use duroxide_lambda_api::types::{Explanation, Next};
use serde_json::Value;

/// How an answer of the API begins a command.
const PROGRAM: &str = "duroxide-lambda ";

/// Explain why an instance is where it is, and what to do.
///
/// It says what the instance waits for, since when and until when, what holds it back, and what to do next. If it waits for a child,
/// it follows the children to the one that is the true cause. It changes nothing.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "explain order-7",
    "explain order-7 --json | jq -r .cause",
]))]
pub struct Explain {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Explain {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let mut explained = connection.explain(&self.instance).await?;
        for next in &mut explained.next {
            next.command = next.command.as_deref().map(typed);
        }
        let text = render(&explained, connection.now_ms(), connection.look);
        let json: Value = serde_json::to_value(&explained)
            .map_err(|error| Failure::error(format!("the explanation cannot be written as JSON: {error}")))?;
        Ok(Answer::done(json, text))
    }
}

/// The hint of other commands.
pub(super) fn hint(instance: &str) -> String {
    let dashes = if instance.starts_with('-') { "-- " } else { "" };
    format!(
        "`{} explain {dashes}{}` says what it waits for.",
        program(),
        escape(instance)
    )
}

/// A command as the user runs this program.
fn typed(command: &str) -> String {
    match command.strip_prefix(PROGRAM) {
        Some(arguments) => format!("{} {arguments}", program()),
        None => command.to_owned(),
    }
}

/// The sentence, the chain, the waits, the facts, and what to do.
fn render(explained: &Explanation, now_ms: u64, look: Look) -> String {
    let mut parts = vec![escape(&explained.sentence)];
    if explained.chain.len() > 1 {
        let mut table = Table::new([ids("INSTANCE"), left("STATUS"), left("CAUSE")]);
        for link in &explained.chain {
            let status = link.status.map_or("", |status| status.name());
            table.row([link.instance.as_str().into(), status.into(), link.cause.as_str().into()]);
        }
        parts.push(table.render(look).trim_end().to_owned());
    }
    if explained.waits.len() > 1 {
        let mut table = Table::new([
            left("WAITS FOR"),
            left("NAME"),
            left("CAUSE"),
            left("SINCE"),
            left("DUE"),
        ]);
        for wait in &explained.waits {
            let name = wait.instance.as_ref().or(wait.name.as_ref());
            table.row([
                wait.kind.as_str().into(),
                name.map_or("", String::as_str).into(),
                wait.cause.as_str().into(),
                when(wait.since.as_deref(), now_ms).into(),
                when(wait.due.as_deref(), now_ms).into(),
            ]);
        }
        let more = match explained.more_waits {
            0 => String::new(),
            more => format!("\nand {more} more"),
        };
        parts.push(format!("{}{more}", table.render(look).trim_end()));
    }
    let mut table = Table::new([left("FACT"), left("VALUE"), left("WHEN")]);
    table.row(["status".into(), explained.status.name().into(), "".into()]);
    table.row([
        "cause".into(),
        explained.cause.as_str().into(),
        when(explained.since.as_deref(), now_ms).into(),
    ]);
    for fact in &explained.evidence {
        table.row([
            fact.what.as_str().into(),
            fact.value.as_str().into(),
            when(fact.at.as_deref(), now_ms).into(),
        ]);
    }
    parts.push(table.render(look).trim_end().to_owned());
    if !explained.next.is_empty() {
        let lines: Vec<String> = explained.next.iter().map(line).collect();
        parts.push(format!("Next:\n{}", lines.join("\n")));
    }
    parts.join("\n\n")
}

fn line(next: &Next) -> String {
    match &next.command {
        Some(command) => format!("- {}\n  {}", escape(&next.text), escape(command)),
        None => format!("- {}", escape(&next.text)),
    }
}

/// A moment, and how far away it is.
fn when(time: Option<&str>, now_ms: u64) -> String {
    let Some(ms) = time.map(ms_of) else {
        return String::new();
    };
    match ms.checked_sub(now_ms) {
        Some(left) if left > 0 => format!("{} (in {})", moment(ms), span(left)),
        _ => format!("{} ({} ago)", moment(ms), span(now_ms.saturating_sub(ms))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide_lambda_api::types::time::rfc3339;
    use serde_json::json;

    fn explained() -> Explanation {
        let json = json!({
            "instance": "a", "orchestration": "O", "status": "Running", "at": rfc3339(10_000),
            "sentence": "Waits for child `b`\u{1b}.", "cause": "child", "needsAttention": false, "since": rfc3339(5_000),
            "waits": [], "evidence": [{"what": "execution", "value": "1, 2 events", "at": rfc3339(12_000)}],
            "chain": [
                {"instance": "a", "orchestration": "O", "status": "Running", "cause": "child", "sentence": "."},
                {"instance": "b", "orchestration": "O", "cause": "child-missing", "sentence": "."},
            ],
            "next": [{"text": "End it.", "command": "duroxide-lambda cancel a"}, {"text": "Wait."}],
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_sentence_comes_first_and_what_to_do_last() {
        let text = render(&explained(), 10_000, Look::default());
        let expected = "\
Waits for child `b`\\u{1b}.

INSTANCE  STATUS   CAUSE
a         Running  child
b                  child-missing

FACT       VALUE        WHEN
status     Running
cause      child        1970-01-01T00:00:05Z (5.0 s ago)
execution  1, 2 events  1970-01-01T00:00:12Z (in 2.0 s)

Next:
- End it.
  duroxide-lambda cancel a
- Wait.";
        assert_eq!(text, expected);
    }
}
