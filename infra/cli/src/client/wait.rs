//! `duroxide-lambda wait`: waits for the end of an instance and prints custom-status changes to stderr.

use super::answer::{Answer, Code, Failure, warn};
use super::connection::Connection;
use super::instance::{id_parser, waits_for};
use super::status::View;
use super::{Common, examples};
use crate::terminal::program;
use crate::terminal::text::{escape, short};
use clap::Args;
use duroxide::ClientError;
use duroxide_cosmos::{InstanceStatus, InstanceSummary};
use std::str::FromStr;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The pause between two reads: short at first, for instances that finish soon, then longer.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How many consecutive reads may fail with a retryable error.
const MOST_FAILURES: u32 = 5;

/// Wait until an instance has completed, failed or been cancelled.
///
/// Prints custom-status changes to stderr. A pending or blocked instance is waited for like a running one. The instance may be
/// started later; it is not found if it does not appear within the timeout.
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timeout(Duration);

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
    match until_finished(connection, instance, timeout).await? {
        Waited::Finished(summary) => finished(connection, summary).await,
        Waited::NotYet(summary) => Err(timed_out(&summary, connection.now_ms(), timeout)),
        Waited::NeverSeen => Err(Failure::unknown(instance)),
    }
}

fn timed_out(summary: &InstanceSummary, now_ms: u64, timeout: Timeout) -> Failure {
    Failure::new(
        Code::TimedOut,
        format!(
            "instance '{}' has not finished after {} s: {}. `{} wait` continues to wait",
            summary.instance,
            timeout.0.as_secs_f64(),
            waits_for(summary, now_ms),
            program()
        ),
    )
}

async fn finished(connection: &Connection, summary: InstanceSummary) -> Result<Answer, Failure> {
    let code = match summary.status {
        InstanceStatus::Failed | InstanceStatus::Cancelled => Code::Failed,
        _ => Code::Done,
    };
    let view = View::read(connection, summary).await?;
    Ok(Answer {
        code,
        json: view.json()?,
        text: view.render(connection.now_ms(), connection.look, false),
    })
}

enum Waited {
    Finished(InstanceSummary),
    NotYet(InstanceSummary),
    NeverSeen,
}

async fn until_finished(connection: &Connection, instance: &str, timeout: Timeout) -> Result<Waited, Failure> {
    let deadline = Instant::now() + timeout.0;
    let (mut pause, mut seen, mut last, mut failures) = (FIRST_PAUSE, 0, Waited::NeverSeen, 0);
    // If the first read fails, the connection is wrong and retries would not help.
    let mut reached = false;
    loop {
        match read(connection, instance, &mut seen).await {
            Ok(Some(summary)) if summary.status.is_finished() => return Ok(Waited::Finished(summary)),
            Ok(found) => {
                (reached, failures) = (true, 0);
                last = found.map_or(last, Waited::NotYet);
            }
            Err(error) if reached && error.is_retryable() && failures < MOST_FAILURES => {
                failures += 1;
                warn(&format!("warning: {error}; retrying"));
            }
            Err(error) => return Err(error.into()),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(last);
        }
        sleep(pause.min(left)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reads the instance; prints its custom status if that has changed.
async fn read(connection: &Connection, instance: &str, seen: &mut u64) -> Result<Option<InstanceSummary>, ClientError> {
    let Some(summary) = connection.find(instance).await? else {
        return Ok(None);
    };
    if summary.custom_status_version > *seen {
        *seen = summary.custom_status_version;
        if let Some(status) = &summary.custom_status {
            warn(&format!("{}: {}", escape(instance), short(status, false)));
        }
    }
    Ok(Some(summary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_number_of_seconds() {
        assert_eq!("0.5".parse(), Ok(Timeout(Duration::from_millis(500))));
        assert_eq!("0".parse(), Ok(Timeout(Duration::ZERO)));
        for wrong in ["", "-1", "NaN", "inf", "1e300", "5m"] {
            assert!(wrong.parse::<Timeout>().is_err(), "{wrong}");
        }
    }
}
