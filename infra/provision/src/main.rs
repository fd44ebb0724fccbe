//! `provision ensure` creates or verifies the container of a deployment, `provision verify` only verifies, `provision container` prints
//! the definition, which `infra/azure/cosmos.bicep` has too. The library does the work.
//!
//! Exit codes: 0: as expected; 1: store unreachable or another error; 2: wrong usage; 3: missing or different.

mod arguments;

use std::process::ExitCode;

use anyhow::Result;
use arguments::{Arguments, Command};
use clap::Parser;
use cosmos::Throughput;
use duroxide_cosmos::container_spec;
use provision::Found;

/// The exit code for a container that is missing or different.
const DIFFERENT: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    run().await.unwrap_or_else(|error| {
        // One line: these are mistakes like a wrong key.
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn run() -> Result<ExitCode> {
    match Arguments::parse().command {
        Command::Ensure { account, throughput } => Ok(report(&account.connect()?.ensure(throughput).await?)),
        Command::Verify { account } => Ok(report(&account.connect()?.verify().await?)),
        Command::Container { name } => print(&name),
    }
}

fn report(found: &Found) -> ExitCode {
    for line in &found.lines {
        println!("{line}");
    }
    match found.as_expected {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(DIFFERENT),
    }
}

fn print(name: &str) -> Result<ExitCode> {
    let spec = container_spec(name, Throughput::Serverless);
    println!("{}", serde_json::to_string_pretty(&spec)?);
    Ok(ExitCode::SUCCESS)
}
