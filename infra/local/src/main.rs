//! Starts the local cloud from the command line: `local cosmos --port 8081`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use local::{CosmosServer, ServerOptions};
use tracing_subscriber::EnvFilter;

/// The local cloud, for tests and development.
#[derive(Parser)]
#[command(name = "local", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a strict Cosmos DB account. Ctrl-C stops it; without a data directory the data is then gone.
    Cosmos {
        /// The port on 127.0.0.1; 0 takes any free one.
        #[arg(long, default_value_t = 8081)]
        port: u16,
        /// How many physical partitions a new container gets.
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
        partitions: u32,
        /// A directory in which what was committed survives a restart. It is made if it is not there.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .init();
    let done = match Arguments::parse().command {
        Command::Cosmos { port, partitions, data } => cosmos(port, partitions, data).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // A port in use is an everyday mistake: one line says it, a backtrace would hide it.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn cosmos(port: u16, partitions: u32, data: Option<PathBuf>) -> anyhow::Result<()> {
    let options = ServerOptions {
        port,
        partitions,
        data: data.clone(),
        ..ServerOptions::default()
    };
    let server = CosmosServer::start(options)
        .await
        .context("the local Cosmos did not start")?;
    let door = server.door();
    println!("Cosmos DB listens at {}", door.endpoint());
    if let (Some(data), Some(found)) = (&data, server.recovered()) {
        println!(
            "It keeps its data in {}: {} documents in {} containers.",
            data.display(),
            found.documents,
            found.containers
        );
        if found.cut_bytes > 0 {
            println!(
                "The last write there was cut short by a crash; {} bytes of it were dropped.",
                found.cut_bytes
            );
        }
    }
    println!();
    println!("  export COSMOS_ENDPOINT={}", door.endpoint());
    println!("  export COSMOS_KEY='{}'", door.key());
    println!("  export COSMOS_DATABASE=duroxide");
    println!("  export COSMOS_CONTAINER=workflows");
    println!();
    println!("Ctrl-C stops it.");
    tokio::signal::ctrl_c().await.context("cannot wait for Ctrl-C")?;
    server
        .shutdown()
        .await
        .context("the data was written, but not forced to the disk")
}
