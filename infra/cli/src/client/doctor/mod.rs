//! `duroxide-lambda doctor`: is this deployment sound, and how fast and expensive is it really?
//!
//! ```text
//!   POST /v1/doctor ──> checks, costs of the store's operations ──┐
//!   canary, N times ──> histories, attempts, usage ──> checks ────┴──> table or JSON, exit code
//! ```
//!
//! The command speaks to the API only: the API holds the key of the account, and its role may read the queues. What only the
//! functions know comes from the canary, a workflow that each of them registers.
//!
//! | module | role |
//! |---|---|
//! | `canary` | runs the canary, and deletes its instances whatever happens |
//! | `measure` | pure: latencies, lateness and cold starts of a run, from its history |
//! | `checks` | pure: the runs against what is promised |
//! | `report` | what was found, as text and JSON |

mod canary;
mod checks;
mod measure;
mod report;

use super::answer::{Answer, Code, Failure, warn};
use super::connection::Connection;
use super::transport::Refused;
use super::wait::Timeout;
use super::{Common, examples_with};
use clap::Args;
use duroxide_lambda_api::types::{CheckState, Diagnosis, ProblemType};
use report::Report;

const EXIT_CODES: &str = "\
Exit codes:
  0: done; nothing failed, there may be warnings
  1: a check failed, or another error
  2: wrong usage
  6: the check could not be made: the API is unreachable, or older than this command";

/// Check a deployment, run a canary workflow, and print what both cost beside what is promised.
///
/// It needs the role operator. The canary is a workflow that every function registers: three activities, a timer and an event. Its
/// instances are deleted at the end. Nothing of yours is read or changed.
#[derive(Debug, Args)]
#[command(after_help = examples_with(&[
    "doctor",
    "doctor --profile production --runs 100",
    "doctor --runs 0 --json | jq '.checks[] | select(.state != \"ok\")'",
], EXIT_CODES))]
pub struct Doctor {
    /// How often the canary runs; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
    runs: u32,
    /// How often the API makes each operation of the store
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    samples: u32,
    /// How long one run of the canary may take
    #[arg(long, value_name = "SECONDS", default_value = "120")]
    timeout: Timeout,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Doctor {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        warn("examining the store, the queues and the clock");
        let diagnosis = self.examined(connection).await.map_err(not_run)?;
        let mut found = diagnosis.checks.clone();
        let runs = match self.runs {
            0 => Vec::new(),
            count => {
                warn(&format!("running the canary {count} times"));
                canary::run(connection, count, self.timeout.0).await?
            }
        };
        found.extend(checks::of_runs(&runs, &diagnosis.queues, connection.is_local()));
        let report = Report::new(diagnosis, found, &runs);
        let code = match report.worst() {
            CheckState::Failed => Code::Error,
            CheckState::Ok | CheckState::Warning => Code::Done,
        };
        Ok(Answer {
            code,
            json: report.json()?,
            text: report.render(connection.look),
        })
    }

    async fn examined(&self, connection: &Connection) -> Result<Diagnosis, Failure> {
        connection.doctor(self.samples).await.map_err(|refused| match refused {
            Refused::Problem {
                kind: Some(ProblemType::NoSuchRoute),
                ..
            } => Failure::error(
                "this API has no examination: it is of an older release. Deploy the functions of this release first",
            ),
            other => other.into(),
        })
    }
}

/// 1 says that the deployment is at fault.
fn not_run(failure: Failure) -> Failure {
    Failure::new(Code::NotRun, failure.message)
}
