//! What `demo` and `up` are told about the cloud.

use anyhow::{Context, bail};
use clap::Args;
use cosmos_emulator::ServerOptions;
use duroxide_lambda::Limits;
use local_cloud::binaries::Build;
use local_cloud::cloud::{CloudOptions, Functions, Store};
use std::path::PathBuf;
use std::time::Duration;

/// The cloud.
#[derive(Args, Clone, Debug)]
pub(crate) struct CloudArguments {
    /// Keep the state in this directory: it survives restarts, crashes included
    #[arg(long, value_name = "DIR", conflicts_with = "cosmos")]
    pub data: Option<PathBuf>,
    /// Use this Cosmos DB account or emulator instead of the embedded one; its key is taken from COSMOS_KEY
    #[arg(long, value_name = "URL")]
    pub cosmos: Option<String>,
    /// The binary of the orchestrator function; unless given, the sample's is built
    #[arg(long, value_name = "PATH")]
    pub orchestrator: Option<PathBuf>,
    /// The binary of the worker function; unless given, the sample's is built
    #[arg(long, value_name = "PATH")]
    pub worker: Option<PathBuf>,
    /// The binary of the maintenance function; unless given, it is built
    #[arg(long, value_name = "PATH")]
    pub maintenance: Option<PathBuf>,
    /// Take the binaries that are not given from the release profile
    #[arg(long)]
    pub release: bool,
    /// One more environment variable for the functions; may be given several times
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    pub variables: Vec<(String, String)>,
    /// The most processes of each function at once
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub concurrency: u16,
    /// An invocation that takes longer is killed
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=900))]
    pub timeout: u64,
    /// How often maintenance runs
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub schedule: u64,
    /// Do not freeze function processes between invocations, as Lambda does: for debuggers
    #[arg(long)]
    pub no_freeze: bool,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

impl CloudArguments {
    /// The options of a cloud; builds the functions that were not given.
    pub(crate) async fn options(&self, cosmos_port: u16) -> anyhow::Result<CloudOptions> {
        let store = self.store(cosmos_port)?;
        let variables = self.functions_variables();
        self.check_timeout(&variables)?;
        let mut options = CloudOptions::of(self.functions().await?);
        options.store = store;
        options.variables = variables;
        options.concurrency = self.concurrency.into();
        options.timeout = Duration::from_secs(self.timeout);
        // A wakeup must not come again while it is served.
        options.visibility = options.timeout + Duration::from_secs(5);
        options.schedule = Duration::from_secs(self.schedule);
        options.freeze = !self.no_freeze;
        options.launcher = Some(std::env::current_exe().context("this program does not know where it is")?);
        for (name, place) in [
            ("COSMOS_DATABASE", &mut options.database),
            ("COSMOS_CONTAINER", &mut options.container),
        ] {
            if let Some(value) = set(name) {
                *place = value;
            }
        }
        Ok(options)
    }

    /// With too short a timeout the functions start, and begin nothing.
    fn check_timeout(&self, variables: &[(String, String)]) -> anyhow::Result<()> {
        let get = |name: &str| {
            let set = variables.iter().rev().find(|(set, _)| set == name);
            set.map(|(_, value)| value.clone())
        };
        // What cannot be read a function tells in its start.
        let Ok(limits) = Limits::from_variables(get) else {
            return Ok(());
        };
        let least = limits.least_timeout();
        if Duration::from_secs(self.timeout) < least {
            bail!(
                "--timeout {} is too short: with these reserves a function needs at least {least:?} to begin a step",
                self.timeout
            );
        }
        Ok(())
    }

    fn store(&self, port: u16) -> anyhow::Result<Store> {
        let Some(endpoint) = &self.cosmos else {
            let options = ServerOptions {
                port,
                data: self.data.clone(),
                // It may stay up for weeks.
                keep_log: false,
                ..ServerOptions::default()
            };
            return Ok(Store::Embedded(options));
        };
        let Some(key) = set("COSMOS_KEY") else {
            bail!("--cosmos {endpoint} needs the account's key: set COSMOS_KEY");
        };
        Ok(Store::Account {
            endpoint: endpoint.clone(),
            key,
        })
    }

    async fn functions(&self) -> anyhow::Result<Functions> {
        let given = [&self.orchestrator, &self.worker, &self.maintenance];
        if let [Some(orchestrator), Some(worker), Some(maintenance)] = given {
            return Ok(Functions {
                orchestrator: orchestrator.clone(),
                worker: worker.clone(),
                maintenance: maintenance.clone(),
            });
        }
        let built = Build::like_this_program(self.release).functions().await?;
        Ok(Functions {
            orchestrator: self.orchestrator.clone().unwrap_or(built.orchestrator),
            worker: self.worker.clone().unwrap_or(built.worker),
            maintenance: self.maintenance.clone().unwrap_or(built.maintenance),
        })
    }

    /// What is set in this process's environment and handed on, and what the arguments say.
    fn functions_variables(&self) -> Vec<(String, String)> {
        let handed_on = duroxide_lambda::config::VARIABLES
            .iter()
            .map(|variable| variable.name)
            .filter(|name| is_handed_on(name));
        let inherited = handed_on.filter_map(|name| set(name).map(|value| (name.to_owned(), value)));
        inherited.chain(self.variables.iter().cloned()).collect()
    }
}

/// Whether a variable says how a function works, here as anywhere. The others are of one deployment: where its parts are,
/// which tags one of its functions serves, where its metrics go.
fn is_handed_on(name: &str) -> bool {
    name == "LOG_LEVEL"
        || ["DUROXIDE_", "MAINTENANCE_", "RETENTION_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl Default for CloudArguments {
    fn default() -> CloudArguments {
        #[derive(clap::Parser)]
        struct None {
            #[command(flatten)]
            arguments: CloudArguments,
        }
        <None as clap::Parser>::parse_from(["duroxide-lambda"]).arguments
    }
}
