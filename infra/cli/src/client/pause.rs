//! `duroxide-lambda pause` and `duroxide-lambda resume`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::id_parser;
use super::{Common, examples};
use crate::terminal::text::escape;
use clap::Args;
use duroxide_lambda_api::types::PauseChanged;
use serde_json::json;

/// Pause an instance.
///
/// No turn of it is taken and no activity begins until `resume`. Activities that run complete, what arrives is kept in order, and
/// timers that fall due meanwhile fire on `resume`. `cancel` ends a paused instance at once.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "pause order-7 --reason 'the shop is down'",
    "pause order-7 --children",
    "list --status paused",
]))]
pub struct Pause {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// Also all its descendants
    #[arg(long)]
    children: bool,
    /// The reason, which `status` shows
    #[arg(long, value_name = "TEXT", value_parser = id_parser())]
    reason: Option<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Resume a paused instance.
///
/// Everything that waits is due again. Of an instance that is not paused, only the wakeups are sent again.
#[derive(Debug, Args)]
#[command(after_help = examples(&["resume order-7", "resume order-7 --children"]))]
pub struct Resume {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// Also all its descendants, whoever has paused them
    #[arg(long)]
    children: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Pause {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let changed = connection
            .pause(&self.instance, self.children, self.reason.clone())
            .await?;
        Ok(answer(&changed, self.children, ("paused", "was paused before")))
    }
}

impl Resume {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let changed = connection.resume(&self.instance, self.children).await?;
        Ok(answer(
            &changed,
            self.children,
            ("resumed", "was not paused: its wakeups were sent again"),
        ))
    }
}

fn answer(changed: &PauseChanged, children: bool, (done, before): (&str, &str)) -> Answer {
    let instance = escape(&changed.instance);
    let text = match (changed.changed, children) {
        (0, _) => format!("{instance} {before}"),
        (_, false) => format!("{done} {instance}"),
        (count, true) => format!("{done} {count} instances: {instance} and its descendants"),
    };
    Answer::done(
        json!({ "instance": changed.instance, "changed": changed.changed }),
        text,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_says_how_many_were_changed() {
        let text = |changed: u64, children: bool| {
            let changed = PauseChanged {
                instance: "a".to_owned(),
                changed,
            };
            answer(&changed, children, ("paused", "was paused before")).text
        };
        assert_eq!(text(1, false), "paused a");
        assert_eq!(text(0, true), "a was paused before");
        assert_eq!(text(3, true), "paused 3 instances: a and its descendants");
    }
}
