//! Arguments and environment variables.

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use cosmos::{ClientConfig, CosmosClient, Key, StaticKey, StaticToken, Throughput, Token};

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
    pub(crate) database: String,
    /// The container's name
    #[arg(long, env = "COSMOS_CONTAINER", default_value = "workflows")]
    pub(crate) container: String,
}

/// What the environment gives to authorize the requests.
enum Given {
    Key(Key),
    Token(Token),
}

impl Given {
    fn from_env() -> Result<Given> {
        let set = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text).filter(|text| !text.trim().is_empty())
        };
        match (set("COSMOS_KEY"), set("COSMOS_TOKEN")) {
            (Some(_), Some(_)) => bail!("COSMOS_KEY is set and COSMOS_TOKEN is set: keep one"),
            (Some(key), None) => Ok(Given::Key(Key::from_base64(&key).context("COSMOS_KEY cannot be used")?)),
            (None, Some(token)) => Ok(Given::Token(Token::new(&token).context("COSMOS_TOKEN cannot be used")?)),
            (None, None) => bail!(
                "COSMOS_KEY is not set and COSMOS_TOKEN is not set: to verify, set COSMOS_TOKEN to the output of \
                 `az account get-access-token --resource https://cosmos.azure.com --query accessToken --output tsv`; to \
                 create, set COSMOS_KEY to the primary or secondary key of the account"
            ),
        }
    }
}

/// A client, and whether it may create databases and containers.
pub(crate) struct Connected {
    pub(crate) client: CosmosClient,
    pub(crate) may_create: bool,
}

impl Account {
    pub(crate) fn connect(&self) -> Result<Connected> {
        let given = Given::from_env()?;
        let may_create = matches!(given, Given::Key(_));
        let config = match given {
            Given::Key(key) => ClientConfig::new(&self.endpoint, StaticKey::new(key)),
            Given::Token(token) => ClientConfig::new(&self.endpoint, StaticToken::new(token)),
        };
        Ok(Connected {
            client: CosmosClient::new(config.context("COSMOS_ENDPOINT cannot be used")?),
            may_create,
        })
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
