//! `duroxide-lambda start`.

use super::answer::{Answer, Code, Fail};
use super::connect::Session;
use super::instance::id_parser;
use super::wait::{self, Timeout};
use super::{CODES, Common, payload};
use clap::Args;
use duroxide_cosmos::{Ids as _, RandomIds};
use local_cloud::term::text::escape;
use serde_json::json;

/// How much of a random id makes an instance's: the rest of its name says what it is.
const RANDOM: usize = 12;

/// Start an orchestration.
///
/// The instance gets the id that you give, or one that is made and shown. An id that exists is refused; one that was
/// started a moment ago and has not had its first turn cannot be seen yet, and duroxide then ignores the second start.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  local start fulfil-order --id order-7 --wait 30 --input '{{\"id\": \"7\", \"customer\": \"ada\", \"total_cents\": 4200,
      \"lines\": [{{\"sku\": \"teapot\", \"quantity\": 1}}], \"parcels\": [{{\"address\": \"Kyoto\"}}]}}'
  local start fulfil-order --input @order.json
  local start nightly-report --version 2.0.0 --json

{CODES}"))]
pub struct Start {
    /// The orchestration's name, as it was registered
    #[arg(value_parser = id_parser())]
    orchestration: String,
    /// The id of the new instance. Default: one that is made
    #[arg(long, value_parser = id_parser(), allow_hyphen_values = true)]
    id: Option<String>,
    /// The input: a text, often JSON; `-` reads it from stdin, `@FILE` from a file
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    input: String,
    /// The version of the orchestration. Default: as the registry decides, usually the latest
    #[arg(long, value_parser = id_parser())]
    version: Option<String>,
    /// Wait for its end, so many seconds [60 when only --wait is given]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    wait: Option<Timeout>,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Start {
    pub(super) async fn act(self, session: &Session) -> Result<Answer, Fail> {
        let input = payload::read(&self.input)?;
        let instance = match self.id {
            Some(id) => {
                refuse_existing(session, &id).await?;
                id
            }
            None => made_id(&self.orchestration),
        };
        let (client, orchestration) = (session.client(), self.orchestration.as_str());
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
            Some(timeout) => wait::for_started(session, &instance, timeout).await,
            None => Ok(Answer::done(
                json!({
                    "instance": instance,
                    "orchestration": orchestration,
                    "version": self.version,
                    "notified": session.all_notified(),
                }),
                format!("started {} ({})", escape(&instance), escape(orchestration)),
            )),
        }
    }
}

async fn refuse_existing(session: &Session, id: &str) -> Result<(), Fail> {
    match session.find(id).await? {
        None => Ok(()),
        Some(info) => Err(Fail::new(
            Code::Error,
            format!(
                "instance '{id}' exists already: {}, {}. Choose another --id, or delete that one first (`duroxide-lambda delete`)",
                info.orchestration_name, info.status
            ),
        )),
    }
}

fn made_id(orchestration: &str) -> String {
    let random: String = RandomIds.unique().chars().take(RANDOM).collect();
    format!("{orchestration}-{random}")
}
