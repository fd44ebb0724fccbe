//! `duroxide-lambda up`: the whole cloud, until Ctrl-C.
//!
//! | module | role |
//! |---|---|
//! | `log_lines` | the functions' log records as lines for people |
//! | `output` | stdout and stderr that never block the cloud |
//! | `rebuilt` | replaces functions whose binary was built again |

pub(crate) mod log_lines;
mod output;
mod rebuilt;

pub(crate) use output::Output;

use crate::arguments::CloudArguments;
use crate::stop_requested;
use crate::suggestions::{Workflows, workflows};
use crate::terminal::program;
use anyhow::{Context, anyhow};
use clap::Args;
use cosmos_emulator::{CosmosServer, StartError};
use local_cloud::{Cloud, CloudError, LogSink, Server, Store};
use rebuilt::Rebuilt;
use std::pin::pin;
use std::process::ExitCode;

/// The default port of SQS and Lambda; clients try the next one, of the HTTP API.
pub(crate) const PORT: u16 = 9400;
/// Start everything and stay up: Cosmos DB, SQS, the functions, the HTTP API, the schedule.
#[derive(Args, Debug)]
pub(crate) struct Up {
    #[command(flatten)]
    cloud: CloudArguments,
    /// The port of SQS and Lambda on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = PORT)]
    port: u16,
    /// The port of the HTTP API on 127.0.0.1 [default: the one after --port; 0 takes any free one]
    #[arg(long, value_name = "PORT")]
    api_port: Option<u16>,
    /// The port of the embedded Cosmos DB on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 8081)]
    cosmos_port: u16,
    /// Do not show the functions' logs, only their failed invocations
    #[arg(long)]
    quiet: bool,
}

impl Up {
    pub(crate) async fn run(self, stdout: &Output) -> anyhow::Result<ExitCode> {
        let mut options = self.cloud.options(self.cosmos_port).await?;
        options.port = self.port;
        options.api_port = self.api_port();
        let (shown, quiet) = (stdout.clone(), self.quiet);
        options.logs = LogSink::new(move |line| {
            if line.report || !quiet && !log_lines::is_idle(line) {
                shown.line(&log_lines::readable(line));
            }
        });
        let embedded = matches!(options.store, Store::Embedded(_));
        let rebuilt = Rebuilt::of(&options.functions);
        let (orchestrator, variables) = (options.functions.orchestrator.clone(), options.variables.clone());
        // One for the whole run: a second one would not see a signal that came before it.
        let mut stop = pin!(stop_requested());
        let cloud = tokio::select! {
            started = Cloud::start(options) => started.map_err(|error| with_advice(error, self.cosmos_port))?,
            stop = &mut stop => return stop.map(|()| ExitCode::SUCCESS),
        };
        let running = async {
            let workflows = workflows(&orchestrator, &variables).await;
            stdout.line(&self.welcome(&cloud, &workflows, embedded));
            rebuilt.follow(&cloud, stdout).await;
        };
        tokio::select! {
            stop = &mut stop => stop?,
            () = running => {}
        }
        stdout.line("stopping the functions ...");
        cloud
            .shutdown()
            .await
            .context("the data was written, but not forced to disk")?;
        stdout.line("stopped.");
        Ok(ExitCode::SUCCESS)
    }

    /// With any free port for SQS and Lambda, any free port.
    fn api_port(&self) -> u16 {
        let next = if self.port == 0 { 0 } else { self.port.saturating_add(1) };
        self.api_port.unwrap_or(next)
    }

    fn welcome(&self, cloud: &Cloud, workflows: &Workflows, embedded: bool) -> String {
        let mut text = "The local cloud is up.\n\n".to_owned();
        let kept = match (&self.cloud.data, embedded) {
            (Some(data), _) => format!("kept in {}", data.display()),
            (None, true) => "in memory, lost at the end; --data DIR keeps it".to_owned(),
            (None, false) => "--cosmos".to_owned(),
        };
        let endpoint = &cloud.variables()["COSMOS_ENDPOINT"];
        let api = cloud.api().unwrap_or_default();
        text += &format!("  Dashboard       {api}/\n");
        text += &format!("  HTTP API        {api}\n");
        text += &format!("  Cosmos DB       {endpoint}  ({kept})\n");
        text += &format!("  SQS and Lambda  {}\n\n", cloud.endpoint());
        if let (Some(data), Some(found)) = (&self.cloud.data, cloud.cosmos().and_then(CosmosServer::recovered)) {
            text += &format!("{}\n\n", found.describe(data));
        }
        text += &workflows.commands(&api, program(), self.api_port() != PORT + 1);
        if self.cloud.orchestrator.is_none() {
            text += &format!(
                "\n`{} demo --keep` is a local cloud of its own, with orders to look at.\n",
                program()
            );
        }
        text += "\n";
        text +=
            "Run your own functions with --orchestrator PATH --worker PATH. Another program needs these variables:\n";
        for (name, value) in cloud.variables() {
            if name == "COSMOS_KEY" && !embedded {
                text += "    # COSMOS_KEY: as you have set it\n";
            } else if name.starts_with("COSMOS_") || name.ends_with("_QUEUE_URL") || name.starts_with("AWS_") {
                text += &format!("    export {name}='{value}'\n");
            }
        }
        text += "\nCtrl-C stops it.";
        text
    }
}

/// The error of a cloud that did not start, with what to do about it.
pub(crate) fn with_advice(error: CloudError, cosmos_port: u16) -> anyhow::Error {
    with_advice_of(error, cosmos_port, "--api-port")
}

/// The same for a command whose option for the port of the HTTP API has this name.
pub(crate) fn with_advice_of(error: CloudError, cosmos_port: u16, api_port: &str) -> anyhow::Error {
    let advice = match &error {
        CloudError::Listen { what, port, source } if is_taken(source) => {
            let option = match what {
                Server::Aws => "--port",
                Server::Api => api_port,
                Server::Attached => "--port",
            };
            format!(
                "port {port} is taken: is another local cloud running? Stop it, or choose another port with {option}"
            )
        }
        CloudError::Cosmos(StartError::Listen { source, .. }) if is_taken(source) => format!(
            "port {cosmos_port} is taken: is another local cloud or emulator running? Stop it, or choose another port with \
             --cosmos-port"
        ),
        CloudError::Binary { .. } => "build the binary first, or correct the path".to_owned(),
        CloudError::Function { .. } => "fix the function and start again; nothing is left running".to_owned(),
        _ => return anyhow!(error),
    };
    anyhow!(error).context(advice)
}

fn is_taken(source: &std::io::Error) -> bool {
    source.kind() == std::io::ErrorKind::AddrInUse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_reported_with_an_option_that_the_command_has() {
        let taken = |what| CloudError::Listen {
            what,
            port: 9401,
            source: std::io::ErrorKind::AddrInUse.into(),
        };
        for (error, option) in [
            (with_advice(taken(Server::Api), 0), "with --api-port"),
            (with_advice_of(taken(Server::Api), 0, "--port"), "with --port"),
            (with_advice_of(taken(Server::Aws), 0, "--port"), "with --port"),
        ] {
            let said = error.to_string();
            assert!(said.contains("port 9401 is taken") && said.ends_with(option), "{said}");
        }
    }
}
