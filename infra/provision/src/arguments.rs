//! Arguments and environment variables.

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use provision::{Credential, Store, Throughput, throughput};

/// Creates or verifies the database and the container of a deployment.
///
/// Exit codes: 0: as expected; 1: store unreachable or another error; 2: wrong usage; 3: missing or different.
#[derive(Parser)]
#[command(name = "provision", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create what does not exist, and verify what does. Creating needs the account's key
    Ensure {
        #[command(flatten)]
        account: Account,
        /// The throughput of a new container: `serverless`, `autoscale:4000` or `manual:400`
        #[arg(long, default_value = "serverless", value_parser = throughput)]
        throughput: Throughput,
    },
    /// Verify, and create nothing. A token (COSMOS_TOKEN) is enough
    Verify {
        #[command(flatten)]
        account: Account,
    },
    /// Print the definition of the container, without a connection
    Container {
        /// The container's name
        #[arg(long, default_value = "workflows")]
        name: String,
    },
}

/// The account and container. The key or token comes from the environment only, because other users of a machine can see
/// arguments.
#[derive(Args)]
pub(crate) struct Account {
    /// The account's URI, which ends in .documents.azure.com
    #[arg(long, env = "COSMOS_ENDPOINT")]
    endpoint: String,
    /// The database's name
    #[arg(long, env = "COSMOS_DATABASE", default_value = "duroxide")]
    database: String,
    /// The container's name
    #[arg(long, env = "COSMOS_CONTAINER", default_value = "workflows")]
    container: String,
}

impl Account {
    pub(crate) fn connect(&self) -> Result<Store> {
        let credential = Credential::from_variables(|name| std::env::var(name).ok())?;
        Ok(Store::connect(
            &self.endpoint,
            &self.database,
            &self.container,
            credential,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
