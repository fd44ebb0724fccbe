//! `duroxide-lambda restart`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::id_parser;
use super::wait::{self, Timeout};
use super::{Common, examples};
use crate::terminal::text::escape;
use clap::Args;
use duroxide_lambda_api::types::{RestartRequest, Restarted};
use serde_json::json;

/// Restart an instance with the same input.
///
/// As a new instance (default), which may be done in any state and leaves the other one as it is; or in place, as the next execution
/// of an instance that has ended: the ended one stays among its executions.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "restart order-7",
    "restart order-7 --new-id order-7-again --wait 30",
    "restart order-7 --in-place",
    "restart order-7 --in-place --version 1.2.1",
]))]
pub struct Restart {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// The id of the new instance [default: generated]
    #[arg(long, value_name = "ID", value_parser = id_parser(), allow_hyphen_values = true, conflicts_with = "in_place")]
    new_id: Option<String>,
    /// As the next execution of the same instance, which must have ended
    #[arg(long)]
    in_place: bool,
    /// The version of the orchestration [default: as registered, usually the latest]
    #[arg(long, value_parser = id_parser())]
    version: Option<String>,
    /// Also restart a child: its parent has gone on, and does not get the new result
    #[arg(long, requires = "in_place")]
    alone: bool,
    /// Wait for the end, this many seconds at most [default without a number: 60]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    wait: Option<Timeout>,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Restart {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let request = RestartRequest {
            in_place: self.in_place,
            new_id: self.new_id.clone(),
            version: self.version.clone(),
            alone: self.alone,
        };
        let restarted = connection.restart(&self.instance, &request).await?;
        match self.wait {
            Some(timeout) => wait::for_end(connection, &restarted.instance, timeout).await,
            None => Ok(answer(&restarted)),
        }
    }
}

fn answer(restarted: &Restarted) -> Answer {
    let (instance, from) = (escape(&restarted.instance), escape(&restarted.restarted_from));
    let text = match (restarted.instance == restarted.restarted_from, restarted.execution) {
        (true, Some(execution)) => format!("restarted {instance} as its execution {execution}"),
        (true, None) => format!("restarted {instance}"),
        (false, _) => format!("started {instance} with the input of {from}"),
    };
    let json = json!({
        "instance": restarted.instance,
        "restartedFrom": restarted.restarted_from,
        "execution": restarted.execution,
    });
    Answer::done(json, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_says_which_instance_runs() {
        let text = |instance: &str, execution| {
            let restarted = Restarted {
                instance: instance.to_owned(),
                restarted_from: "a".to_owned(),
                execution,
                repeated: false,
            };
            answer(&restarted).text
        };
        assert_eq!(text("b", Some(1)), "started b with the input of a");
        assert_eq!(text("a", Some(3)), "restarted a as its execution 3");
    }
}
