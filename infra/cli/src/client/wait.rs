//! `duroxide-lambda wait`: until an instance is over, telling on stderr what it says of itself meanwhile.

use super::answer::{Answer, Code, Fail, warn};
use super::connect::Session;
use super::instance::{id_parser, is_over};
use super::status::View;
use super::{CODES, Common};
use clap::Args;
use duroxide::ClientError;
use duroxide::providers::{InstanceInfo, Provider as _};
use local_cloud::term::text::{escape, short};
use std::str::FromStr;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between two looks: at first short, for what is over soon; then longer.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How many looks in a row may fail for a reason that may pass.
const MOST_FAILURES: u32 = 5;

/// Wait until an instance has completed or failed.
///
/// What the orchestration says of itself meanwhile (its custom status) is told on stderr. An instance that is not known
/// yet may still be started; when the time is up and it never was seen, it is not found.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  local wait order-7
  local wait order-7 --timeout 600 && echo it is done

{CODES}"))]
pub struct Wait {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// How long at most
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    timeout: Timeout,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A time in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timeout(Duration);

impl FromStr for Timeout {
    type Err = String;

    fn from_str(text: &str) -> Result<Timeout, String> {
        /// Some three years: beyond it, sums of times could overflow.
        const MOST: f64 = 1e8;
        let seconds: f64 = text.parse().unwrap_or(f64::NAN);
        if !(0.0..=MOST).contains(&seconds) {
            return Err("give a number of seconds, like 30 or 0.5".to_owned());
        }
        Ok(Timeout(Duration::from_secs_f64(seconds)))
    }
}

impl Wait {
    pub(super) async fn act(self, session: &Session) -> Result<Answer, Fail> {
        match until_over(session, &self.instance, self.timeout).await? {
            Waited::Over(info) => over(session, info).await,
            Waited::NotYet(status) => Err(not_yet(&self.instance, &status, self.timeout)),
            Waited::NeverSeen => Err(Fail::unknown(&self.instance)),
        }
    }
}

/// The same for an instance that was started just now.
pub(super) async fn for_started(session: &Session, instance: &str, timeout: Timeout) -> Result<Answer, Fail> {
    match until_over(session, instance, timeout).await? {
        Waited::Over(info) => over(session, info).await,
        Waited::NotYet(status) => Err(not_yet(instance, &status, timeout)),
        Waited::NeverSeen => Err(not_yet(instance, "started, but its first turn has not run", timeout)),
    }
}

fn not_yet(instance: &str, status: &str, timeout: Timeout) -> Fail {
    Fail::new(
        Code::TimedOut,
        format!(
            "instance '{instance}' is not over after {} s: {status}. `duroxide-lambda wait` waits on",
            timeout.0.as_secs_f64()
        ),
    )
}

async fn over(session: &Session, info: InstanceInfo) -> Result<Answer, Fail> {
    let code = match info.status.as_str() {
        "Failed" => Code::Failed,
        _ => Code::Done,
    };
    let view = View::read(session, info).await?;
    Ok(Answer {
        code,
        json: view.json()?,
        text: view.render(session.now_ms(), session.look, false),
    })
}

enum Waited {
    Over(InstanceInfo),
    /// With its status.
    NotYet(String),
    NeverSeen,
}

async fn until_over(session: &Session, instance: &str, timeout: Timeout) -> Result<Waited, Fail> {
    let deadline = Instant::now() + timeout.0;
    let (mut pause, mut seen, mut last, mut failures) = (FIRST_PAUSE, 0, Waited::NeverSeen, 0);
    // One that fails from the first look on is a mistake, not a passing trouble.
    let mut reached = false;
    loop {
        match look(session, instance, &mut seen).await {
            Ok(Some(info)) if is_over(&info) => return Ok(Waited::Over(info)),
            Ok(found) => {
                (reached, failures) = (true, 0);
                last = found.map_or(last, |info| Waited::NotYet(info.status));
            }
            Err(error) if reached && error.is_retryable() && failures < MOST_FAILURES => {
                failures += 1;
                warn(&format!("warning: {error}; trying again"));
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

/// The instance, telling its custom status when that has changed.
async fn look(session: &Session, instance: &str, seen: &mut u64) -> Result<Option<InstanceInfo>, ClientError> {
    let Some(info) = session.find(instance).await? else {
        return Ok(None);
    };
    if let Some((status, version)) = session.store().get_custom_status(instance, *seen).await? {
        *seen = version;
        if let Some(status) = status {
            warn(&format!("{}: {}", escape(instance), short(&status, false)));
        }
    }
    Ok(Some(info))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_sensible_number_of_seconds() {
        assert_eq!("0.5".parse(), Ok(Timeout(Duration::from_millis(500))));
        assert_eq!("0".parse(), Ok(Timeout(Duration::ZERO)));
        for wrong in ["", "-1", "NaN", "inf", "1e300", "5m"] {
            assert!(wrong.parse::<Timeout>().is_err(), "{wrong}");
        }
    }
}
