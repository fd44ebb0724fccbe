//! `duroxide-lambda raise`, `enqueue` and `cancel`: messages for an instance.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::id_parser;
use super::transport::Refused;
use super::wait::Changes;
use super::{Common, examples, payload};
use crate::terminal::text::escape;
use clap::Args;
use duroxide_lambda_api::types::{Accepted, ProblemType, Status};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long to wait for an unknown instance, which may be started in a moment, and for the first turn of a pending one.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

/// Raise an event that an instance waits for.
///
/// The orchestration receives it with `schedule_wait`. An event that it does not wait for yet may be lost; a message in a
/// queue is not: see `enqueue`.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "raise order-7 approved",
    "raise order-7 approved '{\"by\": \"Ada\"}'",
    "raise order-7 report @report.json",
]))]
pub struct Raise {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// The event's name
    #[arg(value_parser = id_parser())]
    event: String,
    /// The data: text, often JSON; `-` reads stdin, `@FILE` a file
    #[arg(default_value = "", hide_default_value = true, allow_negative_numbers = true)]
    data: String,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Put a message into a queue of an instance.
///
/// It stays in the queue until the orchestration takes it with `dequeue_event`. Messages keep their order.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "enqueue order-7 approval '{\"approved\": true, \"by\": \"ada\"}'",
    "enqueue order-7 notes - < note.txt",
]))]
pub struct Enqueue {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// The queue's name
    #[arg(value_parser = id_parser())]
    queue: String,
    /// The message: text, often JSON; `-` reads stdin, `@FILE` a file
    #[arg(default_value = "", hide_default_value = true, allow_negative_numbers = true)]
    message: String,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Cancel an instance.
///
/// It fails with the reason at its next turn, and its children are cancelled too. `wait` waits for the end.
#[derive(Debug, Args)]
#[command(after_help = examples(&["cancel order-7 --reason 'the customer called'"]))]
pub struct Cancel {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// The reason, which becomes part of the failure
    #[arg(long, value_name = "TEXT", default_value = "cancelled from the command line")]
    reason: String,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Raise {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let data = payload::read(&self.data)?;
        let (instance, event) = (self.instance.as_str(), self.event.as_str());
        until_begun(connection, instance).await?;
        patiently(instance, async || connection.raise(instance, event, data.clone()).await).await?;
        Ok(Answer::done(
            json!({ "instance": instance, "event": event }),
            format!("raised {} for {}", escape(event), escape(instance)),
        ))
    }
}

impl Enqueue {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let message = payload::read(&self.message)?;
        let (instance, queue) = (self.instance.as_str(), self.queue.as_str());
        patiently(instance, async || {
            connection.enqueue(instance, queue, message.clone()).await
        })
        .await?;
        Ok(Answer::done(
            json!({ "instance": instance, "queue": queue }),
            format!("put a message into queue {} of {}", escape(queue), escape(instance)),
        ))
    }
}

impl Cancel {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let instance = self.instance.as_str();
        patiently(instance, async || connection.cancel(instance, &self.reason).await).await?;
        Ok(Answer::done(
            json!({ "instance": instance, "reason": self.reason }),
            format!("requested the cancellation of {}", escape(instance)),
        ))
    }
}

/// Gives a pending instance some time for its first turn: an event that comes before it could be lost.
async fn until_begun(connection: &Connection, instance: &str) -> Result<(), Failure> {
    let mut changes = Changes::of(connection, instance, Some(PATIENCE));
    while let Some(now) = changes.next().await? {
        if now.status != Status::Pending {
            break;
        }
    }
    Ok(())
}

/// Sends a message, again if the instance does not exist yet.
async fn patiently(instance: &str, send: impl AsyncFn() -> Result<Accepted, Refused>) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match send().await {
            Ok(_) => return Ok(()),
            Err(Refused::Problem {
                kind: Some(ProblemType::NotFound),
                ..
            }) => {
                if Instant::now() >= deadline {
                    return Err(Failure::unknown(instance));
                }
                sleep(PAUSE).await;
            }
            Err(Refused::Problem {
                kind: Some(ProblemType::InstanceEnded | ProblemType::WrongState),
                detail,
            }) => return Err(Failure::error(format!("{detail}: it would not receive this"))),
            Err(refused) => return Err(refused.into()),
        }
    }
}
