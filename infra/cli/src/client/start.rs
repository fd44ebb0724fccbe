//! `duroxide-lambda start`.

use super::answer::{Answer, Code, Failure};
use super::connection::Connection;
use super::instance::id_parser;
use super::wait::{self, Timeout};
use super::{Common, examples, payload};
use crate::terminal::program;
use crate::terminal::text::escape;
use clap::Args;
use duroxide_cosmos::{Ids as _, RandomIds};
use serde_json::json;

/// How many characters of a random id are part of a generated instance id.
const RANDOM: usize = 12;

/// Start an orchestration.
///
/// Prints the id of the instance. An id that exists is refused. Of two starts at the same moment duroxide ignores the second.
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
    /// Wait for the end, this many seconds at most [default without a number: 60]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    wait: Option<Timeout>,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Start {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let input = payload::read(&self.input)?;
        let instance = match self.id {
            Some(id) => {
                refuse_existing(connection, &id).await?;
                id
            }
            None => generated_id(&self.orchestration),
        };
        let (client, orchestration) = (connection.client(), self.orchestration.as_str());
        match &self.version {
            Some(version) => {
                let version = version.as_str();
                client
                    .start_orchestration_versioned(&instance, orchestration, version, input)
                    .await?;
            }
            None => client.start_orchestration(&instance, orchestration, input).await?,
        }
        match self.wait {
            Some(timeout) => wait::for_end(connection, &instance, timeout).await,
            None => Ok(Answer::done(
                json!({
                    "instance": instance,
                    "orchestration": orchestration,
                    "version": self.version,
                    "notified": connection.all_notified(),
                }),
                format!("started {} ({})", escape(&instance), escape(orchestration)),
            )),
        }
    }
}

async fn refuse_existing(connection: &Connection, id: &str) -> Result<(), Failure> {
    match connection.find(id).await? {
        None => Ok(()),
        Some(summary) => Err(Failure::new(
            Code::Error,
            format!(
                "instance '{id}' exists already: {}, {}. Choose another --id, or delete it first (`{} delete`)",
                summary.orchestration,
                summary.status,
                program()
            ),
        )),
    }
}

fn generated_id(orchestration: &str) -> String {
    let random: String = RandomIds.unique().chars().take(RANDOM).collect();
    format!("{orchestration}-{random}")
}
