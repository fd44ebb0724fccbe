//! `local cosmos`: the strict Cosmos DB alone.

use super::asked_to_stop;
use super::up::is_taken;
use crate::cosmos::{CosmosServer, Recovered, ServerOptions, StartError};
use anyhow::{Context, anyhow};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Start only the strict Cosmos DB.
#[derive(Args, Debug)]
pub(super) struct Cosmos {
    /// The port on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 8081)]
    port: u16,
    /// How many physical partitions a new container gets
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    partitions: u32,
    /// Keep the data in this directory; without one they are gone when it stops
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Cosmos {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let options = ServerOptions {
            port: self.port,
            partitions: self.partitions,
            data: self.data.clone(),
            // It may stay up for weeks.
            keep_log: false,
            ..ServerOptions::default()
        };
        let server = CosmosServer::start(options).await.map_err(|error| match &error {
            StartError::Listen { source, .. } if is_taken(source) => anyhow!(error).context(format!(
                "port {} is taken: is another local cloud or emulator running? Stop it, or choose another port with --port",
                self.port
            )),
            _ => anyhow!(error).context("the local Cosmos did not start"),
        })?;
        let door = server.door();
        println!("Cosmos DB listens at {}", door.endpoint());
        if let (Some(data), Some(found)) = (&self.data, server.recovered()) {
            println!("{}", kept(data, &found));
        }
        println!();
        println!("  export COSMOS_ENDPOINT={}", door.endpoint());
        println!("  export COSMOS_KEY='{}'", door.key());
        println!("  export COSMOS_DATABASE=duroxide");
        println!("  export COSMOS_CONTAINER=workflows");
        println!();
        println!("Ctrl-C stops it.");
        asked_to_stop().await?;
        server
            .shutdown()
            .await
            .context("the data was written, but not forced to the disk")?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What was found in a data directory, for people.
pub(super) fn kept(data: &Path, found: &Recovered) -> String {
    let mut text = format!(
        "It keeps its data in {}: {} documents in {} containers.",
        data.display(),
        found.documents,
        found.containers
    );
    if found.cut_bytes > 0 {
        text += &format!(
            "\nThe last write there was cut short by a crash; {} bytes of it were dropped.",
            found.cut_bytes
        );
    }
    text
}
