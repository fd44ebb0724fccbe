//! `duroxide-lambda raise`, `duroxide-lambda enqueue` and `duroxide-lambda cancel`: what an instance is told.

use super::answer::{Answer, Fail};
use super::connect::Session;
use super::instance::{id_parser, is_over};
use super::{CODES, Common, payload};
use clap::Args;
use duroxide::providers::InstanceInfo;
use local_cloud::term::text::escape;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long an instance that nobody knows may take to appear: it may have been started a moment ago.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

/// Raise an event that an instance waits for.
///
/// An event goes to the orchestration that waits for it by `schedule_wait`; one that nobody waits for yet may be lost.
/// Where that matters, the orchestration reads a queue instead: see `duroxide-lambda enqueue`.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  local raise order-7 approved
  local raise order-7 approved '{{\"by\": \"Ada\"}}'
  local raise order-7 report @report.json

{CODES}"))]
pub struct Raise {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// The event's name
    #[arg(value_parser = id_parser())]
    event: String,
    /// Its data: a text, often JSON; `-` reads it from stdin, `@FILE` from a file
    #[arg(default_value = "", hide_default_value = true, allow_negative_numbers = true)]
    data: String,
    /// Do not look whether the instance is there and runs
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Put a message into a queue of an instance.
///
/// It stays there until the orchestration takes it (`dequeue_event`), in the order in which messages came.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  local enqueue order-7 approval '{{\"approved\": true, \"by\": \"ada\"}}'
  cat note.txt | local enqueue order-7 notes -

{CODES}"))]
pub struct Enqueue {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// The queue's name
    #[arg(value_parser = id_parser())]
    queue: String,
    /// The message: a text, often JSON; `-` reads it from stdin, `@FILE` from a file
    #[arg(default_value = "", hide_default_value = true, allow_negative_numbers = true)]
    message: String,
    /// Do not look whether the instance is there and runs
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Ask an instance to stop.
///
/// It then fails with the reason, and its children are cancelled too. `duroxide-lambda wait` shows when it is over.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Example:
  local cancel order-7 --reason 'the customer called'

{CODES}"))]
pub struct Cancel {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// Why: it becomes part of the failure
    #[arg(long, value_name = "TEXT", default_value = "cancelled from the command line")]
    reason: String,
    /// Do not look whether the instance is there and runs
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Raise {
    pub(super) async fn act(self, session: &Session) -> Result<Answer, Fail> {
        let data = payload::read(&self.data)?;
        reach(session, &self.instance, self.force).await?;
        let (instance, event) = (self.instance.as_str(), self.event.as_str());
        session.client().raise_event(instance, event, data).await?;
        Ok(Answer::done(
            json!({ "instance": instance, "event": event, "notified": session.all_notified() }),
            format!("raised {} for {}", escape(event), escape(instance)),
        ))
    }
}

impl Enqueue {
    pub(super) async fn act(self, session: &Session) -> Result<Answer, Fail> {
        let message = payload::read(&self.message)?;
        reach(session, &self.instance, self.force).await?;
        let (instance, queue) = (self.instance.as_str(), self.queue.as_str());
        session.client().enqueue_event(instance, queue, message).await?;
        Ok(Answer::done(
            json!({ "instance": instance, "queue": queue, "notified": session.all_notified() }),
            format!("put a message into {} of {}", escape(queue), escape(instance)),
        ))
    }
}

impl Cancel {
    pub(super) async fn act(self, session: &Session) -> Result<Answer, Fail> {
        reach(session, &self.instance, self.force).await?;
        let instance = self.instance.as_str();
        session.client().cancel_instance(instance, self.reason.as_str()).await?;
        Ok(Answer::done(
            json!({ "instance": instance, "reason": self.reason, "notified": session.all_notified() }),
            format!("asked {} to stop", escape(instance)),
        ))
    }
}

/// Makes sure that somebody will get it: what is queued for nobody would lie there for ever, and nobody would be told.
async fn reach(session: &Session, instance: &str, force: bool) -> Result<(), Fail> {
    if force {
        return Ok(());
    }
    let deadline = Instant::now() + PATIENCE;
    let info: InstanceInfo = loop {
        match session.find(instance).await? {
            Some(info) => break info,
            None if Instant::now() < deadline => sleep(PAUSE).await,
            None => {
                let mut fail = Fail::unknown(instance);
                fail.message.push_str("; --force queues for it all the same");
                return Err(fail);
            }
        }
    };
    if is_over(&info) {
        return Err(Fail::error(format!(
            "instance '{instance}' is over ({}): nobody would get it; --force queues it all the same",
            info.status
        )));
    }
    Ok(())
}
