//! The client commands: start, watch and manage workflows.
//!
//! ```text
//!   arguments ──> which API, and who are we (access) ──> one verb ── requests ──> Answer ──> table or JSON
//!                                                           └─ Failure ──> stderr, exit code
//! ```
//!
//! One file per verb: its arguments, what it does, its answer. The rest is shared:
//!
//! | module | role |
//! |---|---|
//! | `access`, `profiles` | which API a command uses, and how it proves who it is |
//! | `connection` | the API as the verbs use it, with typed answers |
//! | `transport`, `sign` | sends requests: signed, repeated, problems read |
//! | `dashboard` | a server on this machine, which passes requests of a browser on |
//! | `instance` | what the status of an instance means |
//! | `filter`, `recorded`, `saved` | which instances a command is about; their histories, from the API and in files |
//! | `payload`, `event`, `attempts` | texts that come in; events of a history as text; attempts of activities as text |
//! | `names` | which orchestration an instance runs |
//! | `answer` | the answer of a verb, its exit code, and how both are printed |
//!
//! It speaks HTTP only, and knows neither the store nor the queues. `demo` and `up` are beside it.
//!
//! Invariant: with `--json`, stdout holds exactly one JSON value (of `watch`, one per line), or nothing if the exit code says why.
//! Errors and warnings go to stderr.

mod access;
mod answer;
mod attempts;
mod batch;
mod connection;
mod dashboard;
mod dead_letters;
mod delete;
mod doctor;
mod event;
mod explain;
mod filter;
mod fork;
mod history;
mod instance;
mod list;
mod names;
mod pause;
mod payload;
mod profiles;
mod recorded;
mod replay;
mod restart;
mod rewind;
mod saved;
mod send;
mod sign;
mod start;
mod stats;
mod status;
mod transport;
mod tree;
mod usage;
mod wait;
mod watch;

pub(crate) use names::Names;
pub(crate) use replay::{CheckTime, Checked, check, registered};

use crate::terminal::program;
use access::Token;
use answer::{Answer, Failure};
use clap::{Args, Subcommand};
use connection::Connection;
pub(crate) use replay::gate as replay_gate;
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Exit codes:
  0: done
  1: error, for example API unreachable
  2: wrong usage
  3: the orchestration failed or was cancelled
  4: timed out
  5: not found";

/// The end of each command's help: examples as they are typed, and the exit codes.
fn examples(commands: &[&str]) -> String {
    examples_with(commands, EXIT_CODES)
}

/// The same for a command with exit codes of its own.
fn examples_with(commands: &[&str], exit_codes: &str) -> String {
    let title = if commands.len() == 1 { "Example" } else { "Examples" };
    let lines: String = commands
        .iter()
        .map(|command| format!("  {} {command}\n", program()))
        .collect();
    format!("{title}:\n{lines}\n{exit_codes}")
}

/// A command to a running local cloud, or to a deployment.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "clap takes the help of a command from its arguments")]
pub enum Command {
    Start(start::Start),
    Raise(send::Raise),
    Enqueue(send::Enqueue),
    Cancel(send::Cancel),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Restart(restart::Restart),
    Batch(batch::Batches),
    Rewind(rewind::Rewind),
    Fork(fork::Fork),
    Status(status::ShowStatus),
    Wait(wait::Wait),
    Watch(watch::Watch),
    List(list::List),
    History(history::History),
    Replay(replay::Replay),
    Tree(tree::Tree),
    Delete(delete::Delete),
    Prune(delete::Prune),
    DeadLetters(dead_letters::DeadLetters),
    Stats(stats::Stats),
    Explain(explain::Explain),
    Doctor(doctor::Doctor),
    Dashboard(dashboard::Dashboard),
}

/// Arguments of every command.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The address of the HTTP API [default: $DUROXIDE_LAMBDA_URL, else that of a local cloud (`dev` or `up`) on its default port]
    ///
    /// Requests to another machine are signed with the AWS credentials of this shell, unless there is a token.
    #[arg(long, value_name = "URL", help_heading = "Connection and output")]
    url: Option<String>,
    /// A bearer token [default: $DUROXIDE_LAMBDA_TOKEN]
    ///
    /// Other users of this machine can see arguments: prefer the variable.
    #[arg(long, value_name = "TOKEN", help_heading = "Connection and output")]
    token: Option<Token>,
    /// A deployment of the file of profiles [default: $DUROXIDE_LAMBDA_PROFILE]
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Connection and output",
        conflicts_with = "url"
    )]
    profile: Option<String>,
    /// Print the answer as one JSON value
    #[arg(long, help_heading = "Connection and output")]
    json: bool,
}

/// Runs a command, prints its outcome, and returns the exit code.
pub async fn run(command: Command) -> ExitCode {
    let common = command.common().clone();
    let outcome = match command {
        // It connects itself, if it reads histories from the API.
        Command::Replay(verb) => verb.run().await,
        command => match Connection::connect(&common).await {
            Ok(connection) => command.act(connection).await,
            Err(failure) => Err(failure),
        },
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
            Command::Pause(verb) => &verb.common,
            Command::Resume(verb) => &verb.common,
            Command::Restart(verb) => &verb.common,
            Command::Batch(verb) => verb.common(),
            Command::Rewind(verb) => &verb.common,
            Command::Fork(verb) => &verb.common,
            Command::Status(verb) => &verb.common,
            Command::Wait(verb) => &verb.common,
            Command::Watch(verb) => &verb.common,
            Command::List(verb) => &verb.common,
            Command::History(verb) => &verb.common,
            Command::Replay(verb) => &verb.common,
            Command::Tree(verb) => &verb.common,
            Command::Delete(verb) => &verb.common,
            Command::Prune(verb) => &verb.common,
            Command::DeadLetters(verb) => verb.common(),
            Command::Stats(verb) => &verb.common,
            Command::Explain(verb) => &verb.common,
            Command::Doctor(verb) => &verb.common,
            Command::Dashboard(verb) => &verb.common,
        }
    }

    async fn act(self, connection: Connection) -> Result<Answer, Failure> {
        match self {
            Command::Start(verb) => verb.act(&connection).await,
            Command::Raise(verb) => verb.act(&connection).await,
            Command::Enqueue(verb) => verb.act(&connection).await,
            Command::Cancel(verb) => verb.act(&connection).await,
            Command::Pause(verb) => verb.act(&connection).await,
            Command::Resume(verb) => verb.act(&connection).await,
            Command::Restart(verb) => verb.act(&connection).await,
            Command::Batch(verb) => verb.act(&connection).await,
            Command::Rewind(verb) => verb.act(&connection).await,
            Command::Fork(verb) => verb.act(&connection).await,
            Command::Status(verb) => verb.act(&connection).await,
            Command::Wait(verb) => verb.act(&connection).await,
            Command::Watch(verb) => verb.act(&connection).await,
            Command::List(verb) => verb.act(&connection).await,
            Command::History(verb) => verb.act(&connection).await,
            Command::Tree(verb) => verb.act(&connection).await,
            Command::Delete(verb) => verb.act(&connection).await,
            Command::Prune(verb) => verb.act(&connection).await,
            Command::DeadLetters(verb) => verb.act(&connection).await,
            Command::Stats(verb) => verb.act(&connection).await,
            Command::Explain(verb) => verb.act(&connection).await,
            Command::Doctor(verb) => verb.act(&connection).await,
            Command::Replay(verb) => verb.run().await,
            // It keeps the connection.
            Command::Dashboard(verb) => verb.act(connection).await,
        }
    }
}

#[cfg(test)]
mod tests;
