//! `duroxide-lambda wait`: waits for the end of an instance and prints custom-status changes to stderr.

use super::answer::{Answer, Code, Failure, warn};
use super::connection::{Connection, Seen};
use super::instance::{id_parser, waits_for};
use super::status::View;
use super::{Common, examples};
use crate::terminal::program;
use crate::terminal::text::{escape, short};
use clap::Args;
use duroxide_lambda_api::types::{Instance, Status};
use reqwest::header::HeaderValue;
use std::str::FromStr;
use std::time::Duration;
use tokio::time::{Instant as Moment, sleep};

/// How long the API waits for a change before it answers that there was none.
const LONG_POLL: Duration = Duration::from_secs(20);
/// The pause between two looks for an instance that does not exist yet.
const PAUSE: Duration = Duration::from_millis(500);
/// How many looks in a row may fail, once one has succeeded.
const MOST_FAILURES: u32 = 5;

/// Wait until an instance has completed, failed or been cancelled.
///
/// Prints custom-status changes to stderr. A pending, blocked or paused instance is waited for like a running one. The instance may
/// be started later; it is not found if it does not appear within the timeout.
#[derive(Debug, Args)]
#[command(after_help = examples(&["wait order-7", "wait order-7 --timeout 600 && echo done"]))]
pub struct Wait {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// How long to wait at most
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    timeout: Timeout,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Timeout(pub(super) Duration);

impl FromStr for Timeout {
    type Err = String;

    fn from_str(text: &str) -> Result<Timeout, String> {
        /// Three years; much larger values could overflow.
        const MOST: f64 = 1e8;
        let seconds: f64 = text.parse().unwrap_or(f64::NAN);
        if !(0.0..=MOST).contains(&seconds) {
            return Err("give a number of seconds, like 30 or 0.5".to_owned());
        }
        Ok(Timeout(Duration::from_secs_f64(seconds)))
    }
}

impl Wait {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        for_end(connection, &self.instance, self.timeout).await
    }
}

/// Waits for the end of an instance.
pub(super) async fn for_end(connection: &Connection, instance: &str, timeout: Timeout) -> Result<Answer, Failure> {
    let mut changes = Changes::of(connection, instance, Some(timeout.0));
    let (mut seen, mut held) = (0, Held::default());
    while let Some(now) = changes.next().await? {
        if now.custom_status_version > seen {
            seen = now.custom_status_version;
            if let Some(status) = &now.custom_status {
                warn(&format!("{}: {}", escape(instance), short(status, false)));
            }
        }
        if let Some(line) = held.changed(&now, connection.now_ms()) {
            warn(&format!("{}: {line}", escape(instance)));
        }
        if now.status.is_finished() {
            return finished(connection, now).await;
        }
    }
    Err(changes.timed_out(timeout))
}

/// Whether an instance was paused or blocked when it was last seen.
#[derive(Debug, Default)]
pub(super) struct Held(Option<Status>);

impl Held {
    /// What to print if the instance was paused, resumed or blocked, or has gone on since.
    pub(super) fn changed(&mut self, now: &Instance, now_ms: u64) -> Option<String> {
        let held = Some(now.status).filter(|status| matches!(status, Status::Paused | Status::Blocked));
        let before = std::mem::replace(&mut self.0, held);
        match (before, held) {
            (before, held) if before == held => None,
            (_, Some(_)) => Some(waits_for(now, now_ms)),
            _ if now.status.is_finished() => None,
            (Some(Status::Paused), None) => Some("resumed".to_owned()),
            (_, None) => Some("no longer blocked".to_owned()),
        }
    }
}

/// The answer for an instance that has finished.
pub(super) async fn finished(connection: &Connection, now: Instance) -> Result<Answer, Failure> {
    let code = code_of(now.status);
    let view = View::read(connection, now).await?;
    Ok(Answer {
        code,
        json: view.json()?,
        text: view.render(connection.now_ms(), connection.look, false),
    })
}

/// The exit code for an instance that has finished.
pub(super) fn code_of(status: Status) -> Code {
    match status {
        Status::Failed | Status::Cancelled => Code::Failed,
        _ => Code::Done,
    }
}

/// The states of an instance, one after the other. The API holds each request back until there is something new.
pub(super) struct Changes<'a> {
    connection: &'a Connection,
    instance: &'a str,
    deadline: Option<Moment>,
    etag: Option<HeaderValue>,
    last: Option<Instance>,
    failures: u32,
}

impl<'a> Changes<'a> {
    pub(super) fn of(connection: &'a Connection, instance: &'a str, timeout: Option<Duration>) -> Changes<'a> {
        Changes {
            connection,
            instance,
            deadline: timeout.map(|timeout| Moment::now() + timeout),
            etag: None,
            last: None,
            failures: 0,
        }
    }

    /// The next state; `None` when the time is over.
    pub(super) async fn next(&mut self) -> Result<Option<Instance>, Failure> {
        loop {
            // The first look does not wait, and the last one is at the deadline.
            let left = self.left();
            let is_over = self.last.is_some() && left.is_zero();
            let wait = match &self.etag {
                Some(_) => left.min(LONG_POLL),
                None => Duration::ZERO,
            };
            if !wait.is_zero() && wait < Duration::from_secs(1) {
                // Waits of the API are whole seconds.
                sleep(wait).await;
            }
            if self.etag.is_none() && self.last.is_some() {
                // Without an ETag the API answers at once.
                sleep(PAUSE.min(left)).await;
            }
            let whole = Duration::from_secs(wait.as_secs());
            let seen = match self.connection.look_at(self.instance, self.etag.as_ref(), whole).await {
                Ok(seen) => seen,
                Err(failure) if self.last.is_some() && self.failures < MOST_FAILURES => {
                    self.failures += 1;
                    warn(&format!("warning: {}; retrying", failure.message));
                    sleep(PAUSE * self.failures).await;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            self.failures = 0;
            match seen {
                Seen::Instance(now, etag) => {
                    self.etag = etag;
                    self.last = Some((*now).clone());
                    return Ok(Some(*now));
                }
                Seen::Missing if self.last.is_some() => return Err(Failure::unknown(self.instance)),
                Seen::Missing if self.left().is_zero() => return Ok(None),
                Seen::Missing => sleep(PAUSE.min(self.left())).await,
                Seen::Unchanged if is_over || self.left().is_zero() => return Ok(None),
                Seen::Unchanged => {}
            }
        }
    }

    fn left(&self) -> Duration {
        let deadline = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Moment::now()));
        deadline.unwrap_or(LONG_POLL)
    }

    /// What to say when the time is over.
    pub(super) fn timed_out(&self, timeout: Timeout) -> Failure {
        let Some(last) = &self.last else {
            return Failure::unknown(self.instance);
        };
        let message = format!(
            "instance '{}' has not finished after {} s: {}. `{} wait` continues to wait",
            self.instance,
            timeout.0.as_secs_f64(),
            waits_for(last, self.connection.now_ms()),
            program()
        );
        Failure::new(Code::TimedOut, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_hold_and_its_end_are_said_once() {
        let mut held = Held::default();
        let mut at = |status| {
            let now = json!({
                "instance": "a", "orchestration": "order", "status": status, "execution": 1, "events": 1,
                "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z",
            });
            held.changed(&serde_json::from_value(now).unwrap(), 0)
        };
        let said = [
            Status::Running,
            Status::Blocked,
            Status::Blocked,
            Status::Running,
            Status::Paused,
            Status::Running,
            Status::Blocked,
            Status::Completed,
        ]
        .map(|status| at(status).unwrap_or_default());
        let expected = [
            "",
            "Blocked",
            "",
            "no longer blocked",
            "Paused",
            "resumed",
            "Blocked",
            "",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_timeout_is_a_number_of_seconds() {
        assert_eq!("0.5".parse(), Ok(Timeout(Duration::from_millis(500))));
        assert_eq!("0".parse(), Ok(Timeout(Duration::ZERO)));
        for wrong in ["", "-1", "NaN", "inf", "1e300", "5m"] {
            assert!(wrong.parse::<Timeout>().is_err(), "{wrong}");
        }
    }
}
