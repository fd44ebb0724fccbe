//! `duroxide-lambda fork`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::id_parser;
use super::rewind::list;
use super::{Common, examples, payload};
use crate::terminal::text::escape;
use clap::Args;
use duroxide_lambda_api::types::{EditedResult, ForkRequest, Forked};

/// Make a new instance from a point of another one's history.
///
/// The source is only read. What is open at that point runs again in the fork, with its effects: use --dry-run first, which lists it.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "fork order-7 --new-id order-7-fix --dry-run",
    "fork order-7 --new-id order-7-fix --at 12 --version 2.0.0",
    "fork order-7 --new-id order-7-fix --result '5={\"paid\":true}'",
]))]
pub struct Fork {
    /// The id of the source
    #[arg(value_parser = id_parser())]
    instance: String,
    /// The id of the new instance
    #[arg(long, value_name = "ID", value_parser = id_parser(), allow_hyphen_values = true)]
    new_id: String,
    /// The last event that is taken over [default: all]
    #[arg(long, value_name = "EVENT", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
    /// The execution of the source [default: the current one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    execution: Option<u64>,
    /// Another result of an event: of an activity or a child, also of a failed one, or the data of an event; may be repeated
    #[arg(long = "result", value_name = "EVENT=TEXT", value_parser = edited)]
    results: Vec<(u64, String)>,
    /// Another input: text, often JSON; `-` reads stdin, `@FILE` a file
    #[arg(long, value_name = "TEXT", allow_negative_numbers = true)]
    input: Option<String>,
    /// Another version of the orchestration
    #[arg(long, value_parser = id_parser())]
    version: Option<String>,
    /// Only list what would run
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

fn edited(argument: &str) -> Result<(u64, String), String> {
    let (event, result) = argument.split_once('=').ok_or("it is not EVENT=TEXT")?;
    let event = event
        .parse()
        .map_err(|_| format!("'{event}' is not the id of an event"))?;
    Ok((event, result.to_owned()))
}

impl Fork {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let input = self.input.as_deref().map(payload::read).transpose()?;
        let results = self.results.iter().map(|(event, result)| EditedResult {
            event: *event,
            result: None,
            result_text: Some(result.clone()),
        });
        let request = ForkRequest {
            new_id: self.new_id.clone(),
            execution: self.execution,
            at: self.at,
            results: results.collect(),
            input: None,
            input_text: input,
            version: self.version.clone(),
            dry_run: self.dry_run,
        };
        let forked = connection.fork(&self.instance, &request).await?;
        let json = serde_json::to_value(&forked).map_err(|error| Failure::error(error.to_string()))?;
        Ok(Answer::done(json, text(&forked)))
    }
}

fn text(forked: &Forked) -> String {
    let (instance, source) = (escape(&forked.instance), escape(&forked.source));
    let verb = |would: &'static str, does: &'static str| if forked.dry_run { would } else { does };
    let mut lines = vec![format!(
        "{} {instance} from {source}, up to event {} of execution {}",
        verb("would fork", "forked"),
        forked.at,
        forked.execution
    )];
    lines.extend(list(verb("would run", "runs"), &forked.activities));
    lines.extend(list(verb("would be started", "started"), &forked.children));
    lines.extend(list("taken over, delivered", &forked.delivered));
    lines.extend(list("waited for", &forked.timers));
    lines.extend(list("taken over, used when it is scheduled again", &forked.reused));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_result_names_its_event() {
        assert_eq!(edited("5={\"a\":\"b=c\"}"), Ok((5, "{\"a\":\"b=c\"}".to_owned())));
        assert!(edited("5").is_err() && edited("x=1").is_err());
    }
}
