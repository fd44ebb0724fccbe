//! Starts the local cloud from the command line: `local cosmos --port 8081`.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use local::{CosmosServer, ServerOptions, client};
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
    /// Start an empty, strict Cosmos DB account in memory. Ctrl-C stops it, and the data is gone.
    Cosmos {
        /// The port on 127.0.0.1; 0 takes any free one.
        #[arg(long, default_value_t = 8081)]
        port: u16,
        /// How many physical partitions a new container gets.
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
        partitions: u32,
    },
    #[command(flatten)]
    Client(client::Command),
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        // What a command answers stands on stdout, alone.
        .with_writer(std::io::stderr)
        .init();
    let done = match Arguments::parse().command {
        Command::Cosmos { port, partitions } => cosmos(port, partitions).await,
        Command::Client(command) => return client::run(command).await,
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

async fn cosmos(port: u16, partitions: u32) -> anyhow::Result<()> {
    let options = ServerOptions {
        port,
        partitions,
        ..ServerOptions::default()
    };
    let server = CosmosServer::start(options)
        .await
        .context("the local Cosmos did not start")?;
    let door = server.door();
    println!("Cosmos DB listens at {}", door.endpoint());
    println!();
    println!("  export COSMOS_ENDPOINT={}", door.endpoint());
    println!("  export COSMOS_KEY='{}'", door.key());
    println!("  export COSMOS_DATABASE=duroxide");
    println!("  export COSMOS_CONTAINER=workflows");
    println!();
    println!("Ctrl-C stops it.");
    tokio::signal::ctrl_c().await.context("cannot wait for Ctrl-C")?;
    Ok(())
}
