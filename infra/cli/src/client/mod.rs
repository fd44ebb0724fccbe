//! The way in: workflows started, told, watched and put away from the command line.
//!
//! ```text
//!   arguments ──> connect (environment, or GET {cloud}/cloud/variables) ──> one verb ──> Answer ──> table or JSON
//!                                                                             └─ Fail ──> stderr, exit code
//! ```
//!
//! One file per verb: its arguments, what it does, what it answers. The rest is shared:
//!
//! | module | role |
//! |---|---|
//! | `connect` | whom to talk to, and the notifier that remembers what it could not wakeup |
//! | `instance` | what the verbs ask of an instance: is it there, is it over |
//! | `payload`, `event` | texts that come in; events of a history in words |
//! | `answer` | what a verb answers, its exit code, and how both are told |
//! | [`table`], [`text`] | tables and texts for terminals: nothing of a workflow's data reaches one unescaped |
//!
//! Invariant: with `--json`, stdout holds exactly one JSON value, or nothing when the exit code says why. Whatever goes
//! wrong is told on stderr.

mod answer;
mod connect;
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

use answer::{Answer, Fail};
use clap::{Args, Subcommand};
use connect::Session;
use std::process::ExitCode;

/// What every command ends its help with.
const CODES: &str = "\
Exit codes: 0 done, 1 error, 2 wrong usage, 3 the orchestration failed, 4 timed out, 5 not found.
In the project's folder, `duroxide-lambda` is `cargo run -q --`.";

/// A command to a running local cloud, or to a deployment.
#[derive(Debug, Subcommand)]
#[allow(
    missing_docs,
    reason = "clap takes the help from the arguments' own documentation, unless it stands here"
)]
pub enum Command {
    Start(start::Start),
    Raise(send::Raise),
    Enqueue(send::Enqueue),
    Cancel(send::Cancel),
    Status(status::Show),
    Wait(wait::Wait),
    List(list::List),
    History(history::History),
    Tree(tree::Tree),
    Delete(delete::Delete),
    Prune(delete::Prune),
    DeadLetters(dead_letters::Letters),
    Stats(stats::Stats),
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The running local cloud [default: $LOCAL_CLOUD, else http://127.0.0.1:9400]
    ///
    /// When COSMOS_ENDPOINT is set and this is not given, the environment variables lead to a deployment instead: those
    /// that its functions have.
    #[arg(long, value_name = "URL", help_heading = "Connection and output")]
    cloud: Option<String>,
    /// Answer one JSON value on stdout
    #[arg(long, help_heading = "Connection and output")]
    json: bool,
}

/// Does what the command says; tells the outcome, and answers it as an exit code.
pub async fn run(command: Command) -> ExitCode {
    let common = command.common().clone();
    let done = match Session::connect(&common).await {
        Ok(session) => {
            let done = command.act(&session).await;
            session.tell_wakeups();
            done
        }
        Err(fail) => Err(fail),
    };
    answer::tell(done, common.json)
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

    async fn act(self, session: &Session) -> Result<Answer, Fail> {
        match self {
            Command::Start(verb) => verb.act(session).await,
            Command::Raise(verb) => verb.act(session).await,
            Command::Enqueue(verb) => verb.act(session).await,
            Command::Cancel(verb) => verb.act(session).await,
            Command::Status(verb) => verb.act(session).await,
            Command::Wait(verb) => verb.act(session).await,
            Command::List(verb) => verb.act(session).await,
            Command::History(verb) => verb.act(session).await,
            Command::Tree(verb) => verb.act(session).await,
            Command::Delete(verb) => verb.act(session).await,
            Command::Prune(verb) => verb.act(session).await,
            Command::DeadLetters(verb) => verb.act(session).await,
            Command::Stats(verb) => verb.act(session).await,
        }
    }
}

#[cfg(test)]
mod tests;
