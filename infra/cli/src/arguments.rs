//! The arguments of `demo` and `up` that describe the cloud; `dev` makes them from the file of a project.

use anyhow::{Context, bail};
use clap::Args;
use cosmos_emulator::ServerOptions;
use duroxide_lambda::Limits;
use local_cloud::{Build, CloudOptions, Functions, Store};
use std::path::PathBuf;
use std::time::Duration;

/// Options of the cloud.
#[derive(Args, Clone, Debug)]
pub(crate) struct CloudArguments {
    /// Keep the state in this directory; it survives restarts and crashes
    #[arg(long, value_name = "DIR", conflicts_with = "cosmos")]
    pub data: Option<PathBuf>,
    /// Use this Cosmos DB account or emulator instead of the embedded one; COSMOS_KEY holds its key
    #[arg(long, value_name = "URL")]
    pub cosmos: Option<String>,
    /// The binary of the orchestrator function [default: builds the sample's]
    #[arg(long, value_name = "PATH")]
    pub orchestrator: Option<PathBuf>,
    /// The binary of the worker function [default: builds the sample's]
    #[arg(long, value_name = "PATH")]
    pub worker: Option<PathBuf>,
    /// The binary of the maintenance function [default: builds it]
    #[arg(long, value_name = "PATH")]
    pub maintenance: Option<PathBuf>,
    /// The binary of the HTTP API [default: builds it]
    #[arg(long, value_name = "PATH")]
    pub api: Option<PathBuf>,
    /// Build the default binaries with the release profile
    #[arg(long)]
    pub release: bool,
    /// An environment variable for the functions; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    pub variables: Vec<(String, String)>,
    /// The most concurrent processes of each function, except the HTTP API
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub concurrency: u16,
    /// The timeout of an invocation, which is then killed
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=900))]
    pub timeout: u64,
    /// How often maintenance runs
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub schedule: u64,
    /// Do not freeze function processes between invocations; for debuggers
    #[arg(long)]
    pub no_freeze: bool,
}

pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

impl CloudArguments {
    /// The options of a cloud. Builds the functions that are not given.
    pub(crate) async fn options(&self, cosmos_port: u16) -> anyhow::Result<CloudOptions> {
        let store = self.store(cosmos_port)?;
        let variables = self.functions_variables();
        self.check_timeout(&variables)?;
        let mut options = CloudOptions::of(self.functions().await?);
        options.store = store;
        options.variables = variables;
        options.concurrency = self.concurrency.into();
        options.timeout = Duration::from_secs(self.timeout);
        // A wakeup must not be delivered again while it is served.
        options.visibility = options.timeout + Duration::from_secs(5);
        options.schedule = Duration::from_secs(self.schedule);
        options.freeze = !self.no_freeze;
        options.launcher = Some(std::env::current_exe().context("the path of this program is unknown")?);
        for (name, option) in [
            ("COSMOS_DATABASE", &mut options.database),
            ("COSMOS_CONTAINER", &mut options.container),
        ] {
            if let Some(value) = set(name) {
                *option = value;
            }
        }
        Ok(options)
    }

    /// Refuses a timeout in which the functions would start no step.
    fn check_timeout(&self, variables: &[(String, String)]) -> anyhow::Result<()> {
        let get = |name: &str| {
            let set = variables.iter().rev().find(|(set, _)| set == name);
            set.map(|(_, value)| value.clone())
        };
        // The functions report an invalid value when they start.
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
                // Unbounded, and `up` may run for weeks.
                keep_log: false,
                ..ServerOptions::default()
            };
            return Ok(Store::Embedded(options));
        };
        let Some(key) = set("COSMOS_KEY") else {
            bail!("--cosmos {endpoint} needs the key of the account: set COSMOS_KEY");
        };
        Ok(Store::Account {
            endpoint: endpoint.clone(),
            key,
        })
    }

    async fn functions(&self) -> anyhow::Result<Functions> {
        let given = [&self.orchestrator, &self.worker, &self.maintenance, &self.api];
        if let [Some(orchestrator), Some(worker), Some(maintenance), Some(api)] = given {
            return Ok(Functions {
                orchestrator: orchestrator.clone(),
                worker: worker.clone(),
                maintenance: maintenance.clone(),
                api: Some(api.clone()),
            });
        }
        let build = Build::like_this_program(self.release);
        let names = ["orchestrator", "worker", "maintenance", "api"];
        let [orchestrator, worker, maintenance, api] = build.binaries(names).await?;
        Ok(Functions {
            orchestrator: self.orchestrator.clone().unwrap_or(orchestrator),
            worker: self.worker.clone().unwrap_or(worker),
            maintenance: self.maintenance.clone().unwrap_or(maintenance),
            api: Some(self.api.clone().unwrap_or(api)),
        })
    }

    /// The variables for the functions: inherited ones, then those of the arguments.
    fn functions_variables(&self) -> Vec<(String, String)> {
        let names = duroxide_lambda::config::VARIABLES
            .iter()
            .map(|variable| variable.name)
            .filter(|name| is_inherited(name));
        let inherited = names.filter_map(|name| set(name).map(|value| (name.to_owned(), value)));
        inherited.chain(self.variables.iter().cloned()).collect()
    }
}

/// Whether functions inherit a variable from this process: those that change how a function works. The others belong to one
/// deployment, like its addresses, tags, metrics, and who may call its API.
fn is_inherited(name: &str) -> bool {
    let inherited = ["DUROXIDE_", "MAINTENANCE_", "RETENTION_"];
    let of_a_deployment = ["DUROXIDE_API_"];
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    name == "LOG_LEVEL" || begins(&inherited) && !begins(&of_a_deployment)
}

fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}
