//! The container of a deployment: created or verified, used by one stack only, and kept by it.

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

/// Refuses another container than that of the last deployment: a variable that is misspelt, or left from another project, would leave all
/// running instances unserved.
pub(super) fn refuse_move(last: &Stack, parameters: &Parameters) -> anyhow::Result<()> {
    let names = ["CosmosEndpoint", "CosmosDatabase", "CosmosContainer"];
    // An unknown last value is none to move from.
    let before = names.map(|name| last.parameter(name).filter(|value| !value.is_empty()));
    let now = names.map(|name| parameters.get(name));
    let is_same = |at: usize| match &before[at] {
        Some(before) if at == 0 => account(before) == account(now[at]),
        Some(before) => before == now[at],
        None => true,
    };
    if (0..names.len()).all(is_same) {
        return Ok(());
    }
    let [old_endpoint, old_database, old_container] = before.map(Option::unwrap_or_default);
    let [endpoint, database, container] = now;
    bail!(
        "the stack '{}' uses the container {old_database}/{old_container} of {old_endpoint}, and this deployment would move it to \
         {database}/{container} of {endpoint}. Its instances would stay in the old container, where no function serves them, and --rollback \
         does not move the stack back. Check COSMOS_ENDPOINT, COSMOS_DATABASE, COSMOS_CONTAINER and [deploy.parameters]; --move-store moves \
         the stack",
        last.stack_name
    )
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
    use serde_json::json;

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
    fn last(parameters: &[(&str, &str)]) -> Stack {
        let each = parameters.iter();
        let parameters: Vec<_> = each
            .map(|(name, value)| json!({"ParameterKey": name, "ParameterValue": value}))
            .collect();
        serde_json::from_value(json!({"StackName": "flow", "Parameters": parameters})).unwrap()
    }

    #[test]
    fn a_stack_is_not_moved_to_another_account_database_or_container() {
        const ENDPOINT: &str = "https://a.documents.azure.com";
        let now = |endpoint: &str, database: &str, container: &str| {
            let all = [
                ("CosmosEndpoint", endpoint),
                ("CosmosDatabase", database),
                ("CosmosContainer", container),
            ];
            Parameters::again(all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()).unwrap()
        };
        let before = last(&[
            ("CosmosEndpoint", "https://A.documents.azure.com:443/"),
            ("CosmosDatabase", "duroxide"),
            ("CosmosContainer", "workflows"),
        ]);
        refuse_move(&before, &now(ENDPOINT, "duroxide", "workflows")).unwrap();
        for (endpoint, database, container) in [
            ("https://b.documents.azure.com", "duroxide", "workflows"),
            (ENDPOINT, "durable", "workflows"),
            (ENDPOINT, "duroxide", "orders"),
        ] {
            let refused = refuse_move(&before, &now(endpoint, database, container))
                .unwrap_err()
                .to_string();
            let named = format!("{database}/{container} of {endpoint}");
            for said in [
                "duroxide/workflows of https://A.",
                &named,
                "no function serves",
                "--move-store",
            ] {
                assert!(refused.contains(said), "{refused}");
            }
        }
        refuse_move(&last(&[("CosmosContainer", "orders")]), &now(ENDPOINT, "any", "orders")).unwrap();
    }
}
