//! Arguments and environment variables.

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use cosmos::{ClientConfig, CosmosClient, Key, StaticKey, Throughput};

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
    /// Create what does not exist, and verify what does
    Ensure {
        #[command(flatten)]
        account: Account,
        /// The throughput of a new container: `serverless`, `autoscale:4000` or `manual:400`
        #[arg(long, default_value = "serverless", value_parser = throughput)]
        throughput: Throughput,
    },
    /// Verify, and create nothing
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

/// The account and container. The key comes from the environment only, because other users of a machine can see arguments.
#[derive(Args)]
pub(crate) struct Account {
    /// The account's URI, which ends in .documents.azure.com
    #[arg(long, env = "COSMOS_ENDPOINT")]
    endpoint: String,
    /// The database's name
    #[arg(long, env = "COSMOS_DATABASE", default_value = "duroxide")]
    pub(crate) database: String,
    /// The container's name
    #[arg(long, env = "COSMOS_CONTAINER", default_value = "workflows")]
    pub(crate) container: String,
}

impl Account {
    pub(crate) fn client(&self) -> Result<CosmosClient> {
        let key = std::env::var("COSMOS_KEY")
            .ok()
            .filter(|key| !key.trim().is_empty())
            .context("COSMOS_KEY is not set: set it to the primary or secondary key of the account")?;
        let key = Key::from_base64(key.trim()).context("COSMOS_KEY cannot be used")?;
        let config =
            ClientConfig::new(&self.endpoint, StaticKey::new(key)).context("COSMOS_ENDPOINT cannot be used")?;
        Ok(CosmosClient::new(config))
    }
}

fn throughput(text: &str) -> Result<Throughput, String> {
    let units = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|units| *units > 0 && units.is_multiple_of(100))
    };
    let parsed = match text.split_once(':') {
        None if text == "serverless" => Some(Throughput::Serverless),
        Some(("autoscale", most)) => units(most)
            .filter(|most| *most >= 1000 && most.is_multiple_of(1000))
            .map(Throughput::Autoscale),
        Some(("manual", all)) => units(all).filter(|all| *all >= 400).map(Throughput::Manual),
        _ => None,
    };
    parsed.ok_or_else(|| {
        "use serverless, autoscale:N with N a multiple of 1000, or manual:N with N a multiple of 100 and at least 400"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_throughputs_that_the_service_accepts_are_parsed() {
        assert_eq!(throughput("serverless"), Ok(Throughput::Serverless));
        assert_eq!(throughput("autoscale:4000"), Ok(Throughput::Autoscale(4000)));
        assert_eq!(throughput("manual:400"), Ok(Throughput::Manual(400)));
        for wrong in [
            "",
            "auto",
            "autoscale:1500",
            "autoscale:0",
            "manual:300",
            "manual:450",
            "manual:-1",
        ] {
            assert!(throughput(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
