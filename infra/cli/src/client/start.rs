//! `duroxide-lambda start`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::id_parser;
use super::transport::Refused;
use super::wait::{self, Timeout};
use super::{Common, examples, payload};
use crate::ambient;
use crate::terminal::program;
use crate::terminal::text::escape;
use clap::Args;
use duroxide_lambda_api::types::{ProblemType, StartRequest};
use serde_json::json;

/// How many characters of a random id are part of a generated instance id.
const RANDOM: usize = 12;

/// Start an orchestration.
///
/// Prints the id of the instance. An id that exists is refused.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "start fulfil-order --id order-7 --wait 30 --input '{\"id\": \"7\", \"customer\": \"ada\", \"total_cents\": 4200,
      \"lines\": [{\"sku\": \"teapot\", \"quantity\": 1}], \"parcels\": [{\"address\": \"Kyoto\"}]}'",
    "start fulfil-order --input @order.json",
    "start nightly-report --version 2.0.0 --json",
]))]
pub struct Start {
    /// The registered name of the orchestration
    #[arg(value_parser = id_parser())]
    orchestration: String,
    /// The id of the new instance [default: generated]
    #[arg(long, value_parser = id_parser(), allow_hyphen_values = true)]
    id: Option<String>,
    /// The input: text, often JSON; `-` reads stdin, `@FILE` a file
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    input: String,
    /// The version of the orchestration [default: as registered, usually the latest]
    #[arg(long, value_parser = id_parser())]
    version: Option<String>,
    /// A tag to find it by, like customer=ada; may be repeated
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    tags: Vec<(String, String)>,
    /// Wait for the end, this many seconds at most [default without a number: 60]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    wait: Option<Timeout>,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Start {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let input = payload::read(&self.input)?;
        let instance = self.id.clone().unwrap_or_else(|| generated_id(&self.orchestration));
        let orchestration = self.orchestration.as_str();
        let request = StartRequest {
            id: Some(instance.clone()),
            input: None,
            input_text: Some(input),
            version: self.version.clone(),
            tags: self.tags.iter().cloned().collect(),
        };
        match connection.start(orchestration, &request).await {
            Err(Refused::Problem {
                kind: Some(ProblemType::InstanceExists),
                detail,
            }) => return Err(existing(connection, &instance, detail).await),
            started => started?,
        };
        match self.wait {
            Some(timeout) => wait::for_end(connection, &instance, timeout).await,
            None => Ok(Answer::done(
                json!({
                    "instance": instance,
                    "orchestration": orchestration,
                    "version": self.version,
                }),
                format!("started {} ({})", escape(&instance), escape(orchestration)),
            )),
        }
    }
}

/// Says what the instance is that has the id already.
async fn existing(connection: &Connection, id: &str, detail: String) -> Failure {
    let Ok(found) = connection.get(id).await else {
        return Failure::error(detail);
    };
    Failure::error(format!(
        "instance '{id}' exists already: {}, {}. Choose another --id, or delete it first (`{} delete`)",
        found.orchestration,
        found.status,
        program()
    ))
}

fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

fn generated_id(orchestration: &str) -> String {
    let random: String = ambient::unique().chars().take(RANDOM).collect();
    format!("{orchestration}-{random}")
}
