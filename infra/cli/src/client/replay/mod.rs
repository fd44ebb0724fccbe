//! `duroxide-lambda replay`: the gate before a deployment.
//!
//! ```text
//!   API: instances in flight ──> histories ──┐                    ┌─> report, exit code
//!                        files, saved before ┴─> the new binary ──┘
//! ```
//!
//! | module | role |
//! |---|---|
//! | `binary` | the new binary as a child process: a history in, an answer out; restarted when it dies or hangs |
//! | `report` | what was found, as text and JSON |
//!
//! [`check`] and [`registered`] are the same for commands that have a binary and a cloud in hand, like `dev`.

mod binary;
mod report;

use super::answer::{Answer, Code, Failure};
use super::connection::Connection;
use super::filter::Filter;
use super::recorded::{self, Read};
use super::{Common, examples_with, saved};
use binary::Binary;
use clap::Args;
use duroxide_lambda::replay::{Recording, Registered};
use futures::StreamExt as _;
use report::{Report, Unreadable};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Seconds for the start of the binary, and for each history.
const TIMEOUT: u64 = 10;

const EXIT_CODES: &str = "\
Exit codes:
  0: done; every history replays
  1: at least one does not, or cannot be read
  2: wrong usage
  6: the check could not be made: the binary cannot replay, the API is unreachable, the folder is empty";

/// Replay the histories of instances in flight on a new orchestrator binary, before it is deployed.
///
/// The binary gets no settings of a store and makes no request; no activity runs, and nothing is written. It must call
/// `duroxide_lambda::orchestrator`, and run on this machine. Without --from, the histories come from the API: those of all instances that
/// have not ended, or that match the filters.
#[derive(Debug, Args)]
#[command(after_help = examples_with(&[
    "replay --orchestrator target/release/orchestrator",
    "replay --orchestrator bootstrap --name fulfil-order --limit 500 --save histories",
    "replay --orchestrator bootstrap --from histories --json",
], EXIT_CODES))]
pub struct Replay {
    /// The new orchestrator binary
    #[arg(long, value_name = "PATH")]
    orchestrator: PathBuf,
    #[command(flatten)]
    filter: Filter,
    /// The most instances to replay [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Replay the histories of this folder, saved earlier, instead of those of the API
    #[arg(long, value_name = "DIR", conflicts_with_all = ["Filter", "limit", "save"])]
    from: Option<PathBuf>,
    /// Also save the histories in this folder
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// The time for the start of the binary, and for each history
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// An environment variable for the binary, which gets no other settings; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = crate::arguments::variable)]
    variables: Vec<(String, String)>,
    /// Show the inputs that differ; they may be confidential
    #[arg(long)]
    payloads: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Replay {
    /// Runs the gate. It connects to the API only if it needs it.
    pub(super) async fn run(self) -> Result<Answer, Failure> {
        self.gate().await.map_err(|failure| match failure.code {
            Code::Usage => failure,
            // 1 says that the new build is at fault.
            _ => Failure::new(Code::NotRun, failure.message),
        })
    }

    async fn gate(self) -> Result<Answer, Failure> {
        let mut binary = Binary::new(
            &self.orchestrator,
            self.variables.clone(),
            Duration::from_secs(self.timeout),
        )?;
        // First, because nothing else is worth doing without it.
        binary.start().await?;
        let mut report = Report::default();
        match &self.from {
            Some(folder) => {
                for file in saved::files(folder)? {
                    match saved::load(&file) {
                        Ok(recording) => replay(&mut binary, &mut report, &recording).await?,
                        Err(why) => report.unreadable(Unreadable::File(file), why),
                    }
                }
            }
            None => self.replay_api(&mut binary, &mut report).await?,
        }
        binary.stop().await;
        Ok(report.answer(&self.orchestrator, self.payloads))
    }

    async fn replay_api(&self, binary: &mut Binary, report: &mut Report) -> Result<(), Failure> {
        if let Some(folder) = &self.save {
            saved::prepare(folder)?;
        }
        let connection = Connection::connect(&self.common).await?;
        let (instances, more) = recorded::in_flight(&connection, &self.filter, self.limit).await?;
        report.more = more;
        let only_in_flight = self.filter.status.is_none();
        let mut histories = pin!(recorded::histories(&connection, instances, only_in_flight));
        while let Some(read) = histories.next().await {
            let read = read?;
            if let (Some(folder), Read::Recorded(recording)) = (&self.save, &read) {
                saved::save(folder, recording)?;
            }
            report.take(binary, read).await?;
        }
        Ok(())
    }
}

/// What the gate has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// How many histories were replayed.
    pub(crate) replayed: usize,
    /// How many of their instances the new build cannot go on with, or goes on with differently.
    pub(crate) faults: usize,
    /// How many histories cannot be read.
    pub(crate) unreadable: usize,
    /// How many instances there was no time for.
    pub(crate) unchecked: usize,
    /// One line for each fault and each history that cannot be read, then the counts; escaped.
    pub(crate) text: String,
}

/// How long a check may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckTime {
    /// The start of the binary, and each history.
    pub(crate) each: Duration,
    /// All of it.
    pub(crate) all: Duration,
}

/// Replays the histories of all instances in flight, which the API at this address has, on a new orchestrator binary.
///
/// # Errors
/// When the check cannot be made, with the reason.
pub(crate) async fn check(
    api: &str,
    orchestrator: &Path,
    variables: &[(String, String)],
    time: CheckTime,
) -> Result<Checked, String> {
    let end = Instant::now() + time.all;
    let checked = async {
        let mut binary = Binary::new(orchestrator, variables.to_vec(), time.each)?;
        let begun = async {
            binary.start().await?;
            let connection = Connection::at(api).await?;
            let (instances, _) = recorded::in_flight(&connection, &Filter::default(), None).await?;
            Ok::<_, Failure>((connection, instances))
        };
        let begun = timeout_at(end, begun).await;
        let (connection, instances) = begun.map_err(|_| late(time.all))??;
        let mut unchecked = instances.len();
        let mut report = Report::default();
        let mut histories = pin!(recorded::histories(&connection, instances, true));
        let replayed = async {
            while let Some(read) = histories.next().await {
                report.take(&mut binary, read?).await?;
                unchecked = unchecked.saturating_sub(1);
            }
            Ok::<_, Failure>(())
        };
        // What was found in time counts.
        if let Ok(replayed) = timeout_at(end, replayed).await {
            replayed?;
            unchecked = 0;
        }
        binary.stop().await;
        Ok(report.checked(unchecked))
    };
    checked.await.map_err(|failure: Failure| failure.message)
}

fn late(limit: Duration) -> Failure {
    Failure::error(format!(
        "the new orchestrator or the API did not answer within {} s",
        limit.as_secs()
    ))
}

/// The orchestrations that a binary registers.
///
/// # Errors
/// When the binary cannot say it, with the reason.
pub(crate) async fn registered(
    orchestrator: &Path,
    variables: &[(String, String)],
    limit: Duration,
) -> Result<Vec<Registered>, String> {
    let asked = async {
        let mut binary = Binary::new(orchestrator, variables.to_vec(), limit)?;
        let ready = binary.start().await?;
        binary.stop().await;
        Ok(ready.orchestrations)
    };
    asked.await.map_err(|failure: Failure| failure.message)
}

impl Report {
    async fn take(&mut self, binary: &mut Binary, read: Read) -> Result<(), Failure> {
        match read {
            Read::Recorded(recording) => replay(binary, self, &recording).await?,
            Read::NotBegun => self.not_begun += 1,
            Read::Gone => self.gone += 1,
            Read::Unreadable(instance, why) => self.unreadable(Unreadable::Instance(instance), why),
        }
        Ok(())
    }
}

/// What the gate has found.
pub(crate) struct Gated {
    /// Whether every history replays.
    pub(crate) passed: bool,
    /// The report.
    pub(crate) text: String,
}

/// The gate of a deployment: replays all instances in flight of an API on a new orchestrator binary. The error says why it could not be run.
pub(crate) async fn gate(orchestrator: &Path, api: &str) -> Result<Gated, String> {
    let replay = Replay {
        orchestrator: orchestrator.to_owned(),
        filter: Filter::default(),
        limit: None,
        from: None,
        save: None,
        timeout: TIMEOUT,
        variables: Vec::new(),
        payloads: false,
        common: Common {
            url: Some(api.to_owned()),
            token: None,
            profile: None,
            json: false,
        },
    };
    let answer = replay.run().await.map_err(|failure| failure.message)?;
    Ok(Gated {
        passed: answer.code == Code::Done,
        text: answer.text.trim_end().to_owned(),
    })
}

async fn replay(binary: &mut Binary, report: &mut Report, recording: &Recording) -> Result<(), Failure> {
    let replayed = binary.replay(recording).await?;
    report.add(recording, replayed);
    Ok(())
}
