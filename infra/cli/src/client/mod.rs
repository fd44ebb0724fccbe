//! The client commands: start, watch and manage workflows.
//!
//! ```text
//!   arguments ──> connect (environment, or GET {cloud}/cloud/variables) ──> one verb ──> Answer ──> table or JSON
//!                                                                             └─ Failure ──> stderr, exit code
//! ```
//!
//! One file per verb: its arguments, what it does, its answer. The rest is shared:
//!
//! | module | role |
//! |---|---|
//! | `connection` | connects to a deployment or a local cloud; a notifier that remembers wakeups that were not sent |
//! | `instance` | finds instances; what their status means |
//! | `payload`, `event`, `attempts` | texts that come in; events of a history as text; attempts of activities as text |
//! | `answer` | the answer of a verb, its exit code, and how both are printed |
//!
//! Invariant: with `--json`, stdout holds exactly one JSON value, or nothing if the exit code says why. Errors and warnings go
//! to stderr.

mod answer;
mod attempts;
mod connection;
mod dead_letters;
mod delete;
mod event;
mod history;
mod instance;
mod list;
mod payload;
mod send;
mod start;
mod stats;
mod status;
mod tree;
mod wait;

use crate::terminal::program;
use answer::{Answer, Failure};
use clap::{Args, Subcommand};
use connection::Connection;
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Exit codes:
  0: done
  1: error, for example store unreachable
  2: wrong usage
  3: the orchestration failed or was cancelled
  4: timed out
  5: not found";

/// The end of each command's help: examples as they are typed, and the exit codes.
fn examples(commands: &[&str]) -> String {
    let title = if commands.len() == 1 { "Example" } else { "Examples" };
    let lines: String = commands
        .iter()
        .map(|command| format!("  {} {command}\n", program()))
        .collect();
    format!("{title}:\n{lines}\n{EXIT_CODES}")
}

/// A command to a running local cloud, or to a deployment.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "clap takes the help of a command from its arguments")]
pub enum Command {
    Start(start::Start),
    Raise(send::Raise),
    Enqueue(send::Enqueue),
    Cancel(send::Cancel),
    Status(status::ShowStatus),
    Wait(wait::Wait),
    List(list::List),
    History(history::History),
    Tree(tree::Tree),
    Delete(delete::Delete),
    Prune(delete::Prune),
    DeadLetters(dead_letters::DeadLetters),
    Stats(stats::Stats),
}

/// Arguments of every command.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The local cloud [default: $LOCAL_CLOUD, else http://127.0.0.1:9400]
    ///
    /// Without it and with COSMOS_ENDPOINT set, the command connects to a deployment, which needs the same environment
    /// variables as its functions.
    #[arg(long, value_name = "URL", help_heading = "Connection and output")]
    cloud: Option<String>,
    /// Print the answer as one JSON value
    #[arg(long, help_heading = "Connection and output")]
    json: bool,
}

/// Runs a command, prints its outcome, and returns the exit code.
pub async fn run(command: Command) -> ExitCode {
    let common = command.common().clone();
    let outcome = match Connection::connect(&common).await {
        Ok(connection) => {
            let outcome = command.act(&connection).await;
            connection.warn_of_unsent_wakeups();
            outcome
        }
        Err(failure) => Err(failure),
    };
    answer::print(outcome, common.json)
}

impl Command {
    fn common(&self) -> &Common {
        match self {
            Command::Start(verb) => &verb.common,
            Command::Raise(verb) => &verb.common,
            Command::Enqueue(verb) => &verb.common,
            Command::Cancel(verb) => &verb.common,
            Command::Status(verb) => &verb.common,
            Command::Wait(verb) => &verb.common,
            Command::List(verb) => &verb.common,
            Command::History(verb) => &verb.common,
            Command::Tree(verb) => &verb.common,
            Command::Delete(verb) => &verb.common,
            Command::Prune(verb) => &verb.common,
            Command::DeadLetters(verb) => verb.common(),
            Command::Stats(verb) => &verb.common,
        }
    }

    async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        match self {
            Command::Start(verb) => verb.act(connection).await,
            Command::Raise(verb) => verb.act(connection).await,
            Command::Enqueue(verb) => verb.act(connection).await,
            Command::Cancel(verb) => verb.act(connection).await,
            Command::Status(verb) => verb.act(connection).await,
            Command::Wait(verb) => verb.act(connection).await,
            Command::List(verb) => verb.act(connection).await,
            Command::History(verb) => verb.act(connection).await,
            Command::Tree(verb) => verb.act(connection).await,
            Command::Delete(verb) => verb.act(connection).await,
            Command::Prune(verb) => verb.act(connection).await,
            Command::DeadLetters(verb) => verb.act(connection).await,
            Command::Stats(verb) => verb.act(connection).await,
        }
    }
}

#[cfg(test)]
mod tests;
