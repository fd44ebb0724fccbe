//! `duroxide-lambda raise`, `enqueue` and `cancel`: messages for an instance.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::id_parser;
use super::{Common, examples, payload};
use crate::terminal::text::escape;
use clap::Args;
use duroxide_cosmos::InstanceStatus;
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
    /// Do not check that the instance exists and is running
    #[arg(long)]
    force: bool,
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
    /// Do not check that the instance exists and is running
    #[arg(long)]
    force: bool,
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
    /// Do not check that the instance exists and is running
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Raise {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let data = payload::read(&self.data)?;
        check_receiver(connection, &self.instance, self.force).await?;
        let (instance, event) = (self.instance.as_str(), self.event.as_str());
        connection.client().raise_event(instance, event, data).await?;
        Ok(Answer::done(
            json!({ "instance": instance, "event": event, "notified": connection.all_notified() }),
            format!("raised {} for {}", escape(event), escape(instance)),
        ))
    }
}

impl Enqueue {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let message = payload::read(&self.message)?;
        check_receiver(connection, &self.instance, self.force).await?;
        let (instance, queue) = (self.instance.as_str(), self.queue.as_str());
        connection.client().enqueue_event(instance, queue, message).await?;
        Ok(Answer::done(
            json!({ "instance": instance, "queue": queue, "notified": connection.all_notified() }),
            format!("put a message into queue {} of {}", escape(queue), escape(instance)),
        ))
    }
}

impl Cancel {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        check_receiver(connection, &self.instance, self.force).await?;
        let instance = self.instance.as_str();
        connection
            .client()
            .cancel_instance(instance, self.reason.as_str())
            .await?;
        Ok(Answer::done(
            json!({ "instance": instance, "reason": self.reason, "notified": connection.all_notified() }),
            format!("requested the cancellation of {}", escape(instance)),
        ))
    }
}

/// Checks that the instance exists and has not finished: a message for any other would stay in the store for ever. An event
/// that comes before the first turn could be lost, so a pending instance gets some time for it.
async fn check_receiver(connection: &Connection, instance: &str, force: bool) -> Result<(), Failure> {
    if force {
        return Ok(());
    }
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match connection.find(instance).await?.map(|summary| summary.status) {
            Some(InstanceStatus::Pending) if Instant::now() < deadline => sleep(PAUSE).await,
            Some(status) => break status,
            None if Instant::now() < deadline => sleep(PAUSE).await,
            None => {
                let mut failure = Failure::unknown(instance);
                failure.message.push_str("; --force queues the message anyway");
                return Err(failure);
            }
        }
    };
    if status.is_finished() {
        return Err(Failure::error(format!(
            "instance '{instance}' has finished ({status}) and would not receive it; --force queues it anyway"
        )));
    }
    Ok(())
}
