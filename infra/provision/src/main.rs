//! The database and container of a deployment: `provision ensure` creates or verifies them, `provision verify` only verifies,
//! `provision container` prints the definition, which `infra/azure/cosmos.bicep` has too.
//!
//! It never changes what exists: it prints each difference, with what to do. With a token of Entra ID instead of the key it
//! can only verify: the service lets no token create databases or containers.
//!
//! Exit codes: 0: as expected; 1: store unreachable or another error; 2: wrong usage; 3: missing or different.

mod arguments;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use arguments::{Account, Arguments, Command, Connected};
use clap::Parser;
use cosmos::{ContainerSpec, CosmosClient, Difference, Ensured, Throughput};
use duroxide_cosmos::container_spec;

/// The exit code for a container that is missing or different.
const DIFFERENT: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Ensure { account, throughput } => ensure(&account, throughput).await,
        Command::Verify { account } => verify(&account).await,
        Command::Container { name } => print(&name),
    };
    outcome.unwrap_or_else(|error| {
        // One line: these are mistakes like a wrong key.
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn ensure(account: &Account, throughput: Throughput) -> Result<ExitCode> {
    let Connected { client, may_create } = account.connect()?;
    let spec = container_spec(&account.container, throughput);
    // Read first: an account may refuse changes of containers by key, and an existing container needs none.
    if client.read_container(&account.database, &spec.name).await?.is_none() {
        if !may_create {
            bail!(
                "container {}/{} is missing, and a token of Entra ID cannot create databases or containers: deploy \
                 infra/azure/cosmos.bicep, or set COSMOS_KEY instead of COSMOS_TOKEN",
                account.database,
                spec.name
            );
        }
        let database = client
            .ensure_database(&account.database, None)
            .await
            .context("the database was not created")?;
        println!("database {}: {}", account.database, described(database));
        let container = client
            .ensure_container(&account.database, &spec)
            .await
            .context("the container was not created")?;
        println!("container {}/{}: {}", account.database, spec.name, described(container));
    }
    compare(&client, account, &spec).await
}

async fn verify(account: &Account) -> Result<ExitCode> {
    let spec = container_spec(&account.container, Throughput::Serverless);
    compare(&account.connect()?.client, account, &spec).await
}

async fn compare(client: &CosmosClient, account: &Account, spec: &ContainerSpec) -> Result<ExitCode> {
    let name = format!("{}/{}", account.database, spec.name);
    let found = client.read_container(&account.database, &spec.name).await?;
    let Some(found) = found else {
        println!(
            "container {name}: missing. Create it with infra/azure/cosmos.bicep, or with `provision ensure` and the key"
        );
        return Ok(ExitCode::from(DIFFERENT));
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
            "Nothing was changed. A partition key and its version cannot be changed in place: choose another container name."
        );
    } else {
        println!(
            "Nothing was changed. If the differences are not intended, change the container (infra/azure/cosmos.bicep does), \
             then run this again."
        );
    }
    Ok(ExitCode::from(DIFFERENT))
}

fn print(name: &str) -> Result<ExitCode> {
    let spec = container_spec(name, Throughput::Serverless);
    println!("{}", serde_json::to_string_pretty(&spec)?);
    Ok(ExitCode::SUCCESS)
}

fn described(ensured: Ensured) -> &'static str {
    match ensured {
        Ensured::Created => "created",
        Ensured::Existed => "exists",
    }
}
