//! The container of the templates is the one that the provider expects, and both templates are the same.
//!
//! There is no Bicep compiler to be had offline. Both files are parsed and evaluated for given parameters
//! (`cosmos_eval.py`), and what they come to is compared.

use crate::template::{root, run, script};
use ::cosmos::{ContainerSpec, Throughput};
use anyhow::Result;
use duroxide_cosmos::container_spec;
use serde_json::{Value, json};
use std::process::Command;
use tests::real::Venv;

/// The account, database and container that the templates make, which are the same in both.
async fn resources(given: &Value) -> Result<[Value; 3]> {
    Ok(serde_json::from_value(all_resources(given).await?)?)
}

/// The same, with the role assignments.
async fn all_resources(given: &Value) -> Result<Value> {
    let venv = Venv::checkov().await?;
    let mut python = Command::new(venv.python());
    python.arg(script("cosmos_eval.py")).arg("infra/azure");
    let both: Value = serde_json::from_slice(&run(&mut python, given.to_string().as_bytes())?)?;
    assert_eq!(both["bicep"], both["arm"], "cosmos.bicep and cosmos.json, for {given}");
    Ok(both["arm"].clone())
}

fn expected(name: &str) -> ContainerSpec {
    container_spec(name, Throughput::Serverless)
}

#[tokio::test]
#[ignore = "exhaustive: checkov's Bicep parser from PyPI"]
async fn the_container_of_the_templates_is_the_one_that_the_code_makes() -> Result<()> {
    let [account, database, container] = resources(&json!({"accountName": "acct", "containerName": "mine"})).await?;
    assert_eq!(
        container["properties"]["resource"],
        serde_json::to_value(expected("mine"))?
    );
    assert_eq!(
        [&account["name"], &database["name"], &container["name"]],
        ["acct", "acct/duroxide", "acct/duroxide/mine"]
    );
    let made = serde_json::from_value(container["properties"]["resource"].clone())?;
    assert_eq!(expected("mine").differences(&made), []);
    Ok(())
}

#[test]
fn the_definition_in_the_repository_is_what_the_code_prints() {
    let file = std::fs::read_to_string(root().join("infra/azure/container.json")).unwrap();
    let code = serde_json::to_string_pretty(&expected("workflows")).unwrap();
    assert_eq!(
        file.trim_end(),
        code,
        "cargo run -p provision -- container > infra/azure/container.json"
    );
}

#[tokio::test]
#[ignore = "exhaustive: checkov's Bicep parser from PyPI"]
async fn the_account_is_what_the_guide_says_and_follows_its_parameters() -> Result<()> {
    let [account, _, container] = resources(&json!({"accountName": "acct"})).await?;
    let properties = &account["properties"];
    assert_eq!(
        properties["consistencyPolicy"],
        json!({"defaultConsistencyLevel": "Session"})
    );
    assert_eq!(properties["backupPolicy"]["type"], "Continuous");
    assert_eq!(properties["minimalTlsVersion"], "Tls12");
    assert_eq!(properties["disableKeyBasedMetadataWriteAccess"], true);
    assert_eq!(properties["capabilities"], json!([{"name": "EnableServerless"}]));
    assert_eq!(
        (&properties["ipRules"], &container["properties"]["options"]),
        (&json!([]), &json!({}))
    );

    let given = json!({
        "accountName": "acct",
        "location": "northeurope",
        "capacity": "autoscale",
        "autoscaleMaxThroughput": 10_000,
        "publicNetworkAccess": "Disabled",
        "allowedIpAddresses": ["192.0.2.1", "198.51.100.0/24"],
        "backupTier": "Continuous7Days",
    });
    let [account, _, container] = resources(&given).await?;
    let properties = &account["properties"];
    assert_eq!(properties["capabilities"], json!([]));
    assert_eq!(properties["locations"][0]["locationName"], "northeurope");
    assert_eq!(properties["publicNetworkAccess"], "Disabled");
    assert_eq!(
        properties["ipRules"],
        json!([{"ipAddressOrRange": "192.0.2.1"}, {"ipAddressOrRange": "198.51.100.0/24"}])
    );
    assert_eq!(
        properties["backupPolicy"]["continuousModeProperties"]["tier"],
        "Continuous7Days"
    );
    assert_eq!(
        container["properties"]["options"],
        json!({"autoscaleSettings": {"maxThroughput": 10_000}})
    );
    Ok(())
}

#[tokio::test]
#[ignore = "exhaustive: checkov's Bicep parser from PyPI"]
async fn principals_may_use_the_documents_of_the_container_only_and_the_key_can_be_disabled() -> Result<()> {
    let given = json!({"accountName": "acct", "dataContributors": ["one", "two"], "disableLocalAuth": true});
    let all = all_resources(&given).await?;
    let [account, _, container, one, two] = all.as_array().unwrap().as_slice() else {
        panic!("{all:#}");
    };
    assert_eq!(account["properties"]["disableLocalAuth"], true);
    let id = "Microsoft.DocumentDB/databaseAccounts:acct";
    for (assignment, principal) in [(one, "one"), (two, "two")] {
        assert_eq!(
            assignment["type"],
            "Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments"
        );
        assert_eq!(
            assignment["properties"],
            json!({
                "principalId": principal,
                "roleDefinitionId": format!("{id}/sqlRoleDefinitions/00000000-0000-0000-0000-000000000002"),
                "scope": format!("{id}/dbs/duroxide/colls/workflows"),
            })
        );
        assert_eq!(assignment["batchSize"], 1, "the account takes one change at a time");
        let name = assignment["name"].as_str().unwrap();
        let of = container["name"].as_str().unwrap();
        assert!(
            name.starts_with("acct/guid of ") && name.contains(of) && name.ends_with(principal),
            "{name}"
        );
    }
    let [account, ..] = resources(&json!({"accountName": "acct"})).await?;
    assert_eq!(account["properties"]["disableLocalAuth"], false);
    Ok(())
}

/// Parameters are declared alike: name, type, default, bounds and words.
#[tokio::test]
#[ignore = "exhaustive: checkov's Bicep parser from PyPI"]
async fn both_templates_take_the_same_parameters() -> Result<()> {
    let venv = Venv::checkov().await?;
    let parse = "import json, sys, pycep; json.dump(pycep.BicepParser().parse(text=sys.stdin.read()), sys.stdout)";
    let text = std::fs::read(root().join("infra/azure/cosmos.bicep"))?;
    let bicep: Value = serde_json::from_slice(&run(Command::new(venv.python()).args(["-c", parse]), &text)?)?;
    let arm: Value = serde_json::from_slice(&std::fs::read(root().join("infra/azure/cosmos.json"))?)?;
    for section in ["parameters", "outputs"] {
        let names = |of: &Value| -> Vec<String> { of[section].as_object().unwrap().keys().cloned().collect() };
        assert_eq!(names(&bicep), names(&arm), "{section}");
        for (name, arm) in arm[section].as_object().unwrap() {
            let bicep = &bicep[section][name];
            assert_eq!(bicep["type"], arm["type"], "{name}");
            if !bicep["default"].is_object() {
                assert_eq!(bicep["default"], arm["defaultValue"], "{name}");
            }
            for decorator in bicep["decorators"].as_array().unwrap() {
                let same = match decorator["type"].as_str().unwrap() {
                    "description" => &arm["metadata"]["description"],
                    "allowed" => &arm["allowedValues"],
                    "min_length" => &arm["minLength"],
                    "max_length" => &arm["maxLength"],
                    "min_value" => &arm["minValue"],
                    "max_value" => &arm["maxValue"],
                    other => panic!("{other} is not known here"),
                };
                assert_eq!(&decorator["argument"], same, "{name}");
            }
            let more = arm.as_object().unwrap().len() - 1 - usize::from(!arm["value"].is_null());
            let defaulted = usize::from(!arm["defaultValue"].is_null());
            assert_eq!(
                bicep["decorators"].as_array().unwrap().len() + defaulted,
                more,
                "{name}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
#[ignore = "exhaustive: checkov's Bicep parser from PyPI"]
async fn the_account_has_a_private_endpoint_if_a_subnet_is_given() -> Result<()> {
    let (subnet, zone) = ("/subscriptions/s/subnets/functions", "/subscriptions/s/zones/documents");
    let given = json!({"accountName": "acct", "privateEndpointSubnetId": subnet});
    let all = all_resources(&given).await?;
    let [_, _, _, endpoint] = all.as_array().unwrap().as_slice() else {
        panic!("{all:#}");
    };
    assert_eq!(endpoint["properties"]["subnet"]["id"], subnet);
    let container = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers:acct/duroxide/workflows";
    assert_eq!(endpoint["after"], json!([container, "contributors"]));
    let connection = &endpoint["properties"]["privateLinkServiceConnections"][0]["properties"];
    let account = "Microsoft.DocumentDB/databaseAccounts:acct";
    assert_eq!(
        *connection,
        json!({"privateLinkServiceId": account, "groupIds": ["Sql"]})
    );
    let given = json!({"accountName": "acct", "privateEndpointSubnetId": subnet, "privateDnsZoneId": zone});
    let all = all_resources(&given).await?;
    let name = &all[4];
    assert_eq!(name["name"], "acct-cosmos/default");
    let configs = &name["properties"]["privateDnsZoneConfigs"];
    assert_eq!(configs[0]["properties"]["privateDnsZoneId"], zone);
    // A name without an endpoint would lead nowhere.
    let given = json!({"accountName": "acct", "privateDnsZoneId": zone});
    assert_eq!(all_resources(&given).await?.as_array().map(Vec::len), Some(3));
    Ok(())
}
