//! Each role allows what its function's code calls, and nothing else.

use crate::actions::{Deployed, On};
use crate::deploy::Stack;
use crate::template::parameters;
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Pairs of action and resource.
type Allowed = BTreeSet<(String, String)>;

/// What a policy allows, one by one.
fn allowed(document: &Value) -> Allowed {
    let mut allowed = Allowed::new();
    for statement in document["Statement"].as_array().unwrap() {
        assert_eq!(statement["Effect"], "Allow", "{statement}");
        assert!(statement.get("NotAction").is_none() && statement.get("NotResource").is_none());
        for action in several(&statement["Action"]) {
            for resource in several(&statement["Resource"]) {
                assert!(
                    !action.contains('*') && !resource.starts_with('*'),
                    "{action} on {resource}"
                );
                allowed.insert((action.clone(), resource.clone()));
            }
        }
    }
    allowed
}

fn several(value: &Value) -> Vec<String> {
    match value {
        Value::String(one) => vec![one.clone()],
        // moto leaves a null where CloudFormation leaves out AWS::NoValue.
        Value::Array(many) => many
            .iter()
            .filter(|one| !one.is_null())
            .map(|one| one.as_str().unwrap().to_owned())
            .collect(),
        other => panic!("neither a text nor a list: {other}"),
    }
}

/// What the code's own list says, with the resources of this stack.
fn needed(stack: &Stack, who: Deployed, queue: Option<&str>, log: &str, tagged: bool) -> Allowed {
    let mut notifiers = vec!["OrchestratorQueue", "WorkerQueue"];
    if tagged {
        notifiers.push("TaggedWorkerQueue");
    }
    let arn = |logical: &str| stack.queue_arn(logical).to_owned();
    let mut needed = Allowed::new();
    for permission in who.permissions() {
        let resources = match permission.on {
            On::WakeupQueues => notifiers.iter().map(|queue| arn(queue)).collect(),
            On::OwnQueue => vec![arn(queue.unwrap())],
            On::KeySecret => vec![stack.made["outputs"]["KeySecretArn"].as_str().unwrap().to_owned()],
            On::OwnLog => {
                let groups = stack.made["logGroups"].as_array().unwrap();
                let group = groups.iter().find(|group| group["logGroupName"] == log).unwrap();
                // CloudFormation answers the ARN of all streams, moto that of the group.
                vec![group["logGroupArn"].as_str().unwrap().to_owned()]
            }
        };
        needed.extend(
            resources
                .into_iter()
                .map(|resource| (permission.action.to_owned(), resource)),
        );
    }
    needed
}

async fn check(tag: &str) -> Result<()> {
    let stack = Stack::create(&parameters(&[("WorkerTag", tag)])).await?;
    let tagged = !tag.is_empty();
    let mut functions = vec![
        ("orchestrator", Deployed::Orchestrator, Some("OrchestratorQueue")),
        ("worker", Deployed::Worker, Some("WorkerQueue")),
        ("maintenance", Deployed::Maintenance, None),
    ];
    if tagged {
        functions.push(("tagged-worker", Deployed::Worker, Some("TaggedWorkerQueue")));
    }
    let roles = stack.made["roles"].as_object().unwrap();
    assert_eq!(roles.len(), functions.len(), "one role for each function");
    for (function, who, queue) in functions {
        let arn = &stack.function(function)["Role"];
        let role = roles.values().find(|role| role["arn"] == *arn).unwrap();
        assert_eq!(role["attached"], json!([]), "{function}");
        assert_eq!(
            role["trust"]["Statement"],
            json!([{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}])
        );
        let documents = role["documents"].as_array().unwrap();
        let is: Allowed = documents.iter().flat_map(allowed).collect();
        let log = format!("/aws/lambda/flow-{function}");
        assert_eq!(is, needed(&stack, who, queue, &log, tagged), "{function}");
    }
    let policies = stack.made["policies"].as_object().unwrap();
    let client = &policies[stack.made["outputs"]["ClientPolicyArn"].as_str().unwrap()];
    assert_eq!(allowed(client), needed(&stack, Deployed::Client, None, "", tagged));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn each_role_allows_what_its_code_calls_and_nothing_else() -> Result<()> {
    check("").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn with_a_tagged_worker_every_role_may_send_to_its_queue() -> Result<()> {
    check("gpu").await
}
