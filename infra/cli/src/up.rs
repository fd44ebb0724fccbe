//! `duroxide-lambda up`: the whole cloud, until Ctrl-C.

use super::arguments::CloudArguments;
use super::asked_to_stop;
use super::lines;
use super::screen::Screen;
use anyhow::{Context, anyhow};
use clap::Args;
use cosmos_emulator::{CosmosServer, StartError};
use local_cloud::cloud::{Cloud, CloudError, Store};
use local_cloud::lambda::LogSink;
use std::process::ExitCode;

/// Start everything and stay up: Cosmos DB, SQS, the functions, the schedule.
#[derive(Args, Debug)]
pub(crate) struct Up {
    #[command(flatten)]
    cloud: CloudArguments,
    /// The port of SQS and Lambda on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 9400)]
    port: u16,
    /// The port of the embedded Cosmos DB on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 8081)]
    cosmos_port: u16,
    /// Do not show what the functions log, only which of their invocations failed
    #[arg(long)]
    quiet: bool,
}

impl Up {
    pub(crate) async fn run(self, screen: &Screen) -> anyhow::Result<ExitCode> {
        let mut options = self.cloud.options(self.cosmos_port).await?;
        options.port = self.port;
        let (shown, quiet) = (screen.clone(), self.quiet);
        options.logs = LogSink::new(move |line| {
            if line.report || !quiet && !lines::is_idle(line) {
                shown.say(&lines::readable(line));
            }
        });
        let embedded = matches!(options.store, Store::Embedded(_));
        let cloud = tokio::select! {
            started = Cloud::start(options) => started.map_err(|error| advised(error, self.port, self.cosmos_port))?,
            asked = asked_to_stop() => {
                asked?;
                return Ok(ExitCode::SUCCESS);
            }
        };
        screen.say(&self.told(&cloud, embedded));
        asked_to_stop().await?;
        screen.say("stopping the functions ...");
        cloud
            .shutdown()
            .await
            .context("the data was written, but not forced to the disk")?;
        screen.say("stopped.");
        Ok(ExitCode::SUCCESS)
    }

    fn told(&self, cloud: &Cloud, embedded: bool) -> String {
        let mut text = "The local cloud is up.\n\n".to_owned();
        let where_kept = match (&self.cloud.data, embedded) {
            (Some(data), _) => format!("kept in {}", data.display()),
            (None, true) => "in memory: gone when this stops; keep it with --data DIR".to_owned(),
            (None, false) => "not ours".to_owned(),
        };
        let endpoint = &cloud.variables()["COSMOS_ENDPOINT"];
        text += &format!("  Cosmos DB       {endpoint}  ({where_kept})\n");
        text += &format!("  SQS and Lambda  {}\n\n", cloud.endpoint());
        if let (Some(data), Some(found)) = (&self.cloud.data, cloud.cosmos().and_then(CosmosServer::recovered)) {
            text += &format!("{}\n\n", found.describe(data));
        }
        let elsewhere = if self.port == 9400 {
            String::new()
        } else {
            format!("export LOCAL_CLOUD={}\n    ", cloud.endpoint())
        };
        text += &format!(
            "Start a workflow, in another terminal:\n    {elsewhere}cargo run -- start fulfil-order --id A-1 \
             --wait --input '{}'\n\n",
            r#"{"id":"A-1","customer":"ada","total_cents":4200,"lines":[{"sku":"teapot","quantity":1}],"parcels":[{"address":"12 Mill Lane"}]}"#
        );
        text += "Run your own functions: --orchestrator PATH --worker PATH. A program of your own needs:\n";
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

/// Everyday mistakes, with what to do.
pub(crate) fn advised(error: CloudError, port: u16, cosmos_port: u16) -> anyhow::Error {
    let advice = match &error {
        CloudError::Listen { source, .. } if is_taken(source) => {
            format!("port {port} is taken: is another local cloud running? Stop it, or choose another port with --port")
        }
        CloudError::Cosmos(StartError::Listen { source, .. }) if is_taken(source) => format!(
            "port {cosmos_port} is taken: is another local cloud or emulator running? Stop it, or choose another port with \
             --cosmos-port"
        ),
        CloudError::Binary { .. } => "build it first, or correct the path".to_owned(),
        CloudError::Function { .. } => "mend the function, and start again; nothing is left running".to_owned(),
        _ => return anyhow!(error),
    };
    Err::<(), _>(error).context(advice).expect_err("it is an error")
}

pub(crate) fn is_taken(source: &std::io::Error) -> bool {
    source.kind() == std::io::ErrorKind::AddrInUse
}
