//! `cosmos-emulator`: the strict Cosmos DB as a server of its own.

use anyhow::{Context, anyhow};
use clap::Parser;
use cosmos_emulator::{CosmosServer, ServerOptions, StartError};
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// A strict Azure Cosmos DB on this machine: it refuses what the service refuses.
#[derive(Parser, Debug)]
#[command(name = "cosmos-emulator", version)]
struct Arguments {
    /// The port on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 8081)]
    port: u16,
    /// How many physical partitions a new container gets
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    partitions: u32,
    /// Keep the data in this directory; without it, data lives in memory until the server stops
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Answer queries over several partitions that no index serves; without it, they are refused
    #[arg(long)]
    allow_scans: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that cannot be written (a full disk) must not end the server.
        .log_internal_errors(false)
        .init();
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        // A port in use is a common mistake: one line is enough, a backtrace would hide it.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let options = ServerOptions {
        port: arguments.port,
        partitions: arguments.partitions,
        data: arguments.data.clone(),
        // The server may run for weeks.
        keep_log: false,
        allow_scans: arguments.allow_scans,
        ..ServerOptions::default()
    };
    let server = CosmosServer::start(options).await.map_err(|error| match &error {
        StartError::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            anyhow!(error).context(format!(
                "port {} is taken: is another local cloud or emulator running? Stop it, or choose another port with --port",
                arguments.port
            ))
        }
        _ => anyhow!(error).context("the Cosmos DB emulator did not start"),
    })?;
    let listener = server.listener();
    println!("Cosmos DB listens at {}", listener.endpoint());
    if let (Some(data), Some(found)) = (&arguments.data, server.recovered()) {
        println!("{}", found.describe(data));
    }
    println!();
    println!("  export COSMOS_ENDPOINT={}", listener.endpoint());
    println!("  export COSMOS_KEY='{}'", listener.key());
    println!("  export COSMOS_DATABASE=duroxide");
    println!("  export COSMOS_CONTAINER=workflows");
    println!();
    println!("Ctrl-C stops it.");
    stop_requested().await?;
    server
        .shutdown()
        .await
        .context("the data was written, but could not be forced to the disk")
}

/// Waits for Ctrl-C or a termination signal.
async fn stop_requested() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}
