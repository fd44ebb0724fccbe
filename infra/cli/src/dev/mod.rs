//! `duroxide-lambda dev`: the development loop in a user's project.
//!
//! ```text
//!   duroxide-lambda.toml ──> cargo build ──> copies of the binaries ──> local cloud, dashboard
//!                                 ^                                          │
//!                  sources change ┘── build ── replay the instances in flight ── replace the functions
//! ```
//!
//! | module | role |
//! |---|---|
//! | `session` | the running loop: a change, a build, a check, a replacement |
//! | `cargo` | which packages there are, and building |
//! | `watch` | which files count, and when they have changed |
//! | `shelf` | copies of the binaries |
//! | `logs` | log lines by instance |
//! | `attach` | functions that the user starts |
//!
//! Invariants: what runs is a build that succeeded and started. A build that fails, or a function that does not start, leaves the old functions
//! running. Nothing outside `.duroxide` of the project, cargo's target directory and the directory of the state is written.

mod attach;
mod cargo;
mod logs;
mod session;
mod shelf;
pub(crate) mod watch;

use crate::arguments::{CloudArguments, variable};
use crate::project::{FILE, Project};
use crate::stop_requested;
use crate::up::{Output, PORT};
use anyhow::Context as _;
use clap::Args;
use local_cloud::tagged_worker;
use logs::Shown;
use session::Session;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use watch::as_walked;

/// The folder of this command in a project.
const FOLDER: &str = ".duroxide";

const EXAMPLES: &str = "\
Examples:
  duroxide-lambda dev
  duroxide-lambda dev --instance order-7
  duroxide-lambda dev --attach worker

docs/development.md describes the loop, what happens when a source changes, and debugging.";

/// Build this project, run it on a local cloud, and replace its functions when a source changes.
///
/// Run it in a project, which has a file duroxide-lambda.toml. After each change it builds, replays the instances in flight on the new
/// orchestrator, reports those that it cannot go on with, and replaces the functions; instances go on.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dev {
    /// Leave this function to a process that you start, in a debugger for example; may be repeated
    ///
    /// orchestrator, worker, maintenance, api, or worker-TAG. Prints the command. Invocations wait until a process attaches.
    #[arg(long, value_name = "FUNCTION")]
    attach: Vec<String>,
    #[command(flatten)]
    shown: Shown,
    /// The port of SQS and Lambda on 127.0.0.1; the HTTP API has the next one; 0 takes any free ones [default: [local].port, else 9400]
    #[arg(long)]
    port: Option<u16>,
    /// The port of the embedded Cosmos DB on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    cosmos_port: u16,
    /// Keep the state in this directory [default: [local].data, else in memory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Build with the release profile
    #[arg(long)]
    release: bool,
    /// An environment variable for the functions, besides those of [local.env]; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// The most concurrent processes of each function, except the HTTP API
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    concurrency: u16,
    /// The timeout of an invocation, which is then killed
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=900))]
    timeout: u64,
    /// How often maintenance runs
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    schedule: u64,
    /// Do not freeze function processes between invocations
    #[arg(long)]
    no_freeze: bool,
}

/// A function of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    /// As the cloud names it.
    name: String,
    /// The name of its binary.
    binary: String,
    tag: Option<String>,
}

impl Dev {
    pub(crate) async fn run(self, stdout: &Output) -> anyhow::Result<ExitCode> {
        let here = std::env::current_dir().context("the current directory cannot be read")?;
        let project = Project::find(&here)?;
        // One for both: a second one would not see a signal that came before it.
        let mut stop = pin!(stop_requested());
        let mut session = tokio::select! {
            started = Session::start(&self, project, stdout) => started?,
            stop = &mut stop => return stop.map(|()| ExitCode::SUCCESS),
        };
        let ended = tokio::select! {
            () = session.run() => Ok(()),
            stop = &mut stop => stop,
        };
        stdout.line("stopping the functions ...");
        let stopped = session.stop().await;
        ended?;
        stopped.context("the data was written, but not forced to disk")?;
        stdout.line("stopped.");
        Ok(ExitCode::SUCCESS)
    }

    fn port(&self, project: &Project) -> u16 {
        self.port.or(project.local.port).unwrap_or(PORT)
    }

    /// Where this session keeps its state, and where another session of the project may: folders without sources, even in a package.
    fn state(&self, project: &Project) -> BTreeSet<PathBuf> {
        let folders = self.data.iter().chain(&project.local.data);
        folders.flat_map(|folder| as_walked(folder)).collect()
    }

    /// The arguments of a cloud with these settings, without binaries.
    fn cloud(&self, project: &Project) -> CloudArguments {
        let of_the_file = project.local.env.clone().into_iter();
        CloudArguments {
            data: self.data.clone().or_else(|| project.local.data.clone()),
            cosmos: None,
            orchestrator: None,
            worker: None,
            maintenance: None,
            api: None,
            release: self.release,
            variables: of_the_file.chain(self.variables.iter().cloned()).collect(),
            concurrency: self.concurrency,
            timeout: self.timeout,
            schedule: self.schedule,
            no_freeze: self.no_freeze,
        }
    }

    /// Refuses functions to attach to that the project does not have.
    fn check(&self, functions: &[Function]) -> anyhow::Result<()> {
        let known = |name: &&String| !functions.iter().any(|function| function.name == **name);
        let Some(unknown) = self.attach.iter().find(known) else {
            return Ok(());
        };
        let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
        anyhow::bail!(
            "--attach {unknown}: there is no such function. This project has {} (see {FILE})",
            names.join(", ")
        )
    }
}

/// The functions of a project, in the order in which they are replaced: an activity must be there before a turn asks for it.
fn functions(project: &Project) -> Vec<Function> {
    let names = &project.functions;
    let named = |name: &str, binary: &str| Function {
        name: name.to_owned(),
        binary: binary.to_owned(),
        tag: None,
    };
    let tagged = names.tagged.iter().map(|(tag, binary)| Function {
        tag: Some(tag.clone()),
        ..named(&tagged_worker(tag), binary)
    });
    let mut all = vec![named("worker", &names.worker)];
    all.extend(tagged);
    all.extend([
        named("maintenance", &names.maintenance),
        named("api", &names.api),
        named("orchestrator", &names.orchestrator),
    ]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        dev: Dev,
    }

    fn project(text: &str) -> Project {
        Project::parse(Path::new("/p"), &format!("name = \"a\"\n{text}")).unwrap()
    }

    #[test]
    fn arguments_override_the_file_of_the_project() {
        let file = project("[local]\nport = 7000\ndata = \"state\"\nenv = { A = \"1\", B = \"1\" }");
        let dev = |arguments: &[&str]| {
            let arguments = ["dev"].iter().chain(arguments).copied();
            Line::try_parse_from(arguments)
                .map_err(|error| error.to_string())
                .unwrap()
                .dev
        };
        let plain = dev(&[]);
        assert_eq!(plain.port(&file), 7000);
        assert_eq!(plain.port(&project("")), PORT);
        assert_eq!(plain.cloud(&file).data.as_deref(), Some(Path::new("/p/state")));
        let given = dev(&["--port", "0", "--data", "there", "--env", "B=2"]);
        assert_eq!(given.port(&file), 0);
        let cloud = given.cloud(&file);
        assert_eq!(cloud.data.as_deref(), Some(Path::new("there")));
        let there = std::env::current_dir().unwrap().join("there");
        assert_eq!(given.state(&file), [there, PathBuf::from("/p/state")].into());
        assert!(plain.state(&project("")).is_empty());
        let last = cloud.variables.iter().rev().find(|(name, _)| name == "B");
        assert_eq!(last.map(|(_, value)| value.as_str()), Some("2"), "the last one wins");
    }

    #[test]
    fn workers_are_replaced_before_the_orchestrator() {
        let all = functions(&project("[functions]\nworker = \"w\"\n[functions.tagged]\ngpu = \"g\""));
        let names: Vec<(&str, &str)> = all.iter().map(|one| (one.name.as_str(), one.binary.as_str())).collect();
        let expected = [
            ("worker", "w"),
            ("worker-gpu", "g"),
            ("maintenance", "maintenance"),
            ("api", "api"),
            ("orchestrator", "orchestrator"),
        ];
        assert_eq!(names, expected);
        let attach = |name: &str| Line::try_parse_from(["dev", "--attach", name]).map_err(|error| error.to_string());
        assert!(attach("worker-gpu").unwrap().dev.check(&all).is_ok());
        let refused = attach("gpu").unwrap().dev.check(&all).unwrap_err().to_string();
        assert!(refused.contains("worker, worker-gpu, maintenance"), "{refused}");
    }
}
