//! The store of a deployment: `provision ensure` makes database and container or verifies them, `provision verify` only looks,
//! `provision container` prints the definition that `infra/azure/cosmos.bicep` holds too.
//!
//! What exists is never altered: each difference is told, with what to do. The exit code is 0 when the store is as the
//! provider expects it, 1 when it could not be asked, 2 for wrong arguments, 3 when it is missing or differs.

mod arguments;

use std::process::ExitCode;

use anyhow::{Context, Result};
use arguments::{Account, Arguments, Command};
use clap::Parser;
use cosmos::{ContainerSpec, CosmosClient, Difference, Ensured, Throughput};
use duroxide_cosmos::container_spec;

/// The store is not as it must be.
const DIFFERS: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Ensure { account, throughput } => ensure(&account, throughput).await,
        Command::Verify { account } => verify(&account).await,
        Command::Container { name } => print(&name),
    };
    done.unwrap_or_else(|error| {
        // An operator's everyday mistake: one line says it, a backtrace would hide it.
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn ensure(account: &Account, throughput: Throughput) -> Result<ExitCode> {
    let client = account.client()?;
    let spec = container_spec(&account.container, throughput);
    // Read first: an account may refuse every change of a container by key, and what is there needs none.
    if client.read_container(&account.database, &spec.name).await?.is_none() {
        let database = client
            .ensure_database(&account.database, None)
            .await
            .context("the database was not made")?;
        println!("database {}: {}", account.database, told(database));
        let container = client
            .ensure_container(&account.database, &spec)
            .await
            .context("the container was not made")?;
        println!("container {}/{}: {}", account.database, spec.name, told(container));
    }
    compare(&client, account, &spec).await
}

async fn verify(account: &Account) -> Result<ExitCode> {
    let spec = container_spec(&account.container, Throughput::Serverless);
    compare(&account.client()?, account, &spec).await
}

async fn compare(client: &CosmosClient, account: &Account, spec: &ContainerSpec) -> Result<ExitCode> {
    let name = format!("{}/{}", account.database, spec.name);
    let found = client.read_container(&account.database, &spec.name).await?;
    let Some(found) = found else {
        println!("container {name}: missing. `provision ensure` makes it, and so does infra/azure/cosmos.bicep");
        return Ok(ExitCode::from(DIFFERS));
    };
    let differences = spec.differences(&found);
    if differences.is_empty() {
        println!("container {name}: as expected");
        return Ok(ExitCode::SUCCESS);
    }
    for difference in &differences {
        println!("container {name}: {difference}");
    }
    if !differences.iter().all(Difference::is_changeable) {
        println!(
            "A partition key and its version cannot be changed: choose another container name. Nothing was altered."
        );
    } else {
        println!(
            "Nothing was altered. If the differences are not meant, change the container (infra/azure/cosmos.bicep does), then \
             run this again."
        );
    }
    Ok(ExitCode::from(DIFFERS))
}

fn print(name: &str) -> Result<ExitCode> {
    let spec = container_spec(name, Throughput::Serverless);
    println!("{}", serde_json::to_string_pretty(&spec)?);
    Ok(ExitCode::SUCCESS)
}

fn told(ensured: Ensured) -> &'static str {
    match ensured {
        Ensured::Created => "created",
        Ensured::Existed => "exists",
    }
}
