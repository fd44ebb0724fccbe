//! The container of a deployment: created or verified, and used by one stack only.

use super::parameters::Parameters;
use super::stack::Stack;
use super::tools::Tools;
use anyhow::{Context as _, bail};
use provision::{Credential, Store, Throughput};

/// Creates or verifies the container, and says whether it is as the functions need it.
pub(super) async fn ensure(
    parameters: &Parameters,
    credential: Credential,
    throughput: Throughput,
) -> anyhow::Result<bool> {
    let may_create = credential.may_create();
    let [endpoint, database, container] =
        ["CosmosEndpoint", "CosmosDatabase", "CosmosContainer"].map(|name| parameters.get(name));
    let store = Store::connect(endpoint, database, container, credential)?;
    let found = match may_create {
        true => store.ensure(throughput).await,
        // A token cannot create a container: infra/azure/cosmos.bicep does.
        false => store.verify().await,
    };
    let found = found.context("the container is not known")?;
    for line in &found.lines {
        println!("{line}");
    }
    Ok(found.as_expected)
}

/// Refuses a container that another stack of this account and region uses.
///
/// Each stack would wake, and take turns of, the instances of both. Those whose orchestration it does not know it would block.
pub(super) async fn refuse_shared(tools: &Tools, stack: &str, parameters: &Parameters) -> anyhow::Result<()> {
    let stacks = match Stack::all(tools).await? {
        Ok(stacks) => stacks,
        Err(why) => {
            eprintln!("warning: whether another stack uses the container is not known: {why}");
            return Ok(());
        }
    };
    let other = stacks.iter().find(|other| {
        let name = |name: &str| other.parameter(name).unwrap_or_default();
        other.stack_name != stack
            && other.is_deployed()
            && account(&name("CosmosEndpoint")) == account(parameters.get("CosmosEndpoint"))
            && ["CosmosDatabase", "CosmosContainer"]
                .iter()
                .all(|of| name(of) == parameters.get(of))
    });
    let Some(other) = other else {
        return Ok(());
    };
    bail!(
        "the stack '{}' uses the container {}/{} of this account, and each stack would serve the instances of both: set COSMOS_CONTAINER to \
         another name. --share-container allows it, for two stacks of the same code",
        other.stack_name,
        parameters.get("CosmosDatabase"),
        parameters.get("CosmosContainer")
    )
}

/// The account of an address, however that is written.
fn account(endpoint: &str) -> String {
    let text = endpoint.trim_end_matches('/').trim_end_matches(":443");
    text.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_can_be_written_in_several_ways() {
        for same in [
            "https://a.documents.azure.com",
            "https://a.documents.azure.com/",
            "https://A.documents.azure.com:443/",
        ] {
            assert_eq!(account(same), "https://a.documents.azure.com");
        }
    }
}
