//! Parameters of the first and of later deployments.

use super::parameters::*;
use super::stack::Stack;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const KNOWN: [&str; 11] = [
    "Architecture",
    "CosmosClientId",
    "CosmosClientSecretArn",
    "CosmosContainer",
    "CosmosDatabase",
    "CosmosEndpoint",
    "CosmosKey",
    "CosmosKeySecretArn",
    "CosmosTenantId",
    "LogLevel",
    "WorkerTimeout",
];

fn stack(parameters: &[(&str, &str)]) -> Stack {
    let each = parameters.iter();
    let parameters: Vec<_> = each
        .map(|(name, value)| json!({"ParameterKey": name, "ParameterValue": value}))
        .collect();
    serde_json::from_value(json!({"StackName": "flow", "StackStatus": "UPDATE_COMPLETE", "Parameters": parameters}))
        .unwrap()
}

fn decided(
    arguments: &[&str],
    project: &[(&str, &str)],
    key: Option<&str>,
    last: Option<&Stack>,
) -> Result<Parameters, ParameterError> {
    let arguments = arguments.iter().map(|it| pair(it)).collect::<Result<Vec<_>, _>>()?;
    let project: BTreeMap<String, String> = project
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let variables = Variables {
        endpoint: Some("https://a.documents.azure.com".to_owned()),
        key: key.map(str::to_owned),
        ..Variables::default()
    };
    let known = BTreeSet::from(KNOWN);
    let asked = Asked {
        arguments: &arguments,
        project: &project,
        variables: &variables,
        known: &known,
    };
    asked.check()?;
    asked.decide(last)
}

#[test]
fn the_command_line_is_before_the_project_and_both_are_before_the_last_value() {
    let last = stack(&[
        ("Architecture", "x86_64"),
        ("CosmosContainer", "flows"),
        ("CosmosKeySecretArn", "arn:s"),
    ]);
    let project = [("WorkerTimeout", "300"), ("LogLevel", "debug")];
    let all = decided(&["WorkerTimeout=60"], &project, None, Some(&last)).unwrap();
    assert_eq!(all.get("WorkerTimeout"), "60");
    assert_eq!(all.get("LogLevel"), "debug");
    assert_eq!(all.get("Architecture"), "x86_64");
    assert_eq!(
        (all.get("CosmosDatabase"), all.get("CosmosContainer")),
        ("duroxide", "flows")
    );
    assert_eq!((all.get("CosmosKeySecretArn"), all.get("CosmosKey")), ("arn:s", ""));
}

#[test]
fn a_way_to_the_store_that_is_given_replaces_the_last_one() {
    let last = stack(&[
        ("CosmosTenantId", "t"),
        ("CosmosClientId", "c"),
        ("CosmosClientSecretArn", "arn:c"),
    ]);
    let secret = decided(&["CosmosKeySecretArn=arn:s"], &[], None, Some(&last)).unwrap();
    let names = [
        "CosmosTenantId",
        "CosmosClientId",
        "CosmosClientSecretArn",
        "CosmosKeySecretArn",
    ];
    assert_eq!(names.map(|name| secret.get(name)), ["", "", "", "arn:s"]);
    let same = decided(&[], &[], Some("key"), Some(&last)).unwrap();
    assert_eq!(names.map(|name| same.get(name)), ["t", "c", "arn:c", ""]);
    assert_eq!(same.get("CosmosKey"), "");
    let reset = decided(&["CosmosClientId="], &[], Some("key"), Some(&last)).unwrap();
    assert_eq!(names.map(|name| reset.get(name)), ["", "", "", ""]);
    assert_eq!(reset.get("CosmosKey"), "key");
    assert_eq!(
        decided(&["CosmosClientId="], &[], None, Some(&last)),
        Err(ParameterError::NoAccess)
    );
}

#[test]
fn mistakes_are_named() {
    for (arguments, error) in [
        (&["--guided"] as &[&str], "not of the form"),
        (&["workerTimeout=1"], "not of the form"),
        (&["CosmosKey=abc"], "set COSMOS_KEY"),
        (&["WorkerTimout=60"], "no parameter WorkerTimout"),
        (&["WorkerTag=gpu"], "[functions.tagged]"),
        (&["Architecture=arm"], "arm64 or x86_64"),
        (&["LogLevel=it's"], "LogLevel contains a quote"),
    ] {
        let said = decided(arguments, &[], Some("key"), None).unwrap_err().to_string();
        assert!(said.contains(error), "{said}");
    }
}

#[test]
fn the_key_is_not_shown() {
    let all = decided(&[], &[], Some("the-key"), None).unwrap();
    assert_eq!(all.get("CosmosKey"), "the-key");
    assert!(!format!("{all:?}").contains("the-key"));
}
