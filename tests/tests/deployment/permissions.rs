//! Each role allows what its function's code calls, and nothing else.

use crate::actions::{Deployed, On};
use crate::deploy::Stack;
use crate::template::{keyless, parameters};
use anyhow::Result;
use duroxide_lambda::internals::web_identity;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const CLIENT_SECRET: &str = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:mine-AbCdEf";

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
                if action == "sts:GetWebIdentityToken" {
                    // It has no resource, so its conditions must leave only what the code requests.
                    assert_eq!((resource.as_str(), &statement["Condition"]), ("*", &restricted()));
                    allowed.insert((action.clone(), OWN_ROLE.to_owned()));
                    continue;
                }
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

/// Stands for the role that has the permission.
const OWN_ROLE: &str = "the role itself";

/// What the code requests of STS.
fn restricted() -> Value {
    json!({
        "ForAllValues:StringEquals": {"sts:IdentityTokenAudience": web_identity::AUDIENCE},
        "StringEquals": {"sts:SigningAlgorithm": web_identity::SIGNING_ALGORITHM},
        "NumericLessThanEquals": {"sts:DurationSeconds": web_identity::DURATION_SECONDS.to_string()},
    })
}

/// How the functions of a stack are authorized by the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Key,
    ClientSecret,
    Role,
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

/// A stack, and what decides its permissions.
struct Checked {
    stack: Stack,
    tagged: bool,
    way: Way,
}

/// What the code's own list says, with the resources of this stack.
fn needed(checked: &Checked, who: Deployed, queue: Option<&str>, log: &str) -> Allowed {
    let stack = &checked.stack;
    let mut notifiers = vec!["OrchestratorQueue", "WorkerQueue"];
    if checked.tagged {
        notifiers.push("TaggedWorkerQueue");
    }
    let arn = |logical: &str| stack.queue_arn(logical).to_owned();
    let mut needed = Allowed::new();
    for permission in who.permissions() {
        let resources = match permission.on {
            On::WakeupQueues => notifiers.iter().map(|queue| arn(queue)).collect(),
            On::OwnQueue => vec![arn(queue.unwrap())],
            On::Secret => match checked.way {
                Way::Key => vec![stack.made["outputs"]["KeySecretArn"].as_str().unwrap().to_owned()],
                Way::ClientSecret => vec![CLIENT_SECRET.to_owned()],
                Way::Role => Vec::new(),
            },
            On::OwnRole if checked.way == Way::Role => vec![OWN_ROLE.to_owned()],
            On::OwnRole => Vec::new(),
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

async fn check(tag: &str, way: Way) -> Result<()> {
    let given = match way {
        Way::Key => parameters(&[("WorkerTag", tag)]),
        Way::ClientSecret => keyless(&[("WorkerTag", tag), ("CosmosClientSecretArn", CLIENT_SECRET)]),
        Way::Role => keyless(&[("WorkerTag", tag)]),
    };
    let tagged = !tag.is_empty();
    let checked = Checked {
        stack: Stack::create(&given).await?,
        tagged,
        way,
    };
    let stack = &checked.stack;
    let mut functions = vec![
        ("orchestrator", Deployed::Orchestrator, Some("OrchestratorQueue")),
        ("worker", Deployed::Worker, Some("WorkerQueue")),
        ("maintenance", Deployed::Maintenance, None),
        ("api", Deployed::Api, None),
    ];
    if tagged {
        functions.push(("worker-tagged", Deployed::Worker, Some("TaggedWorkerQueue")));
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
        assert_eq!(is, needed(&checked, who, queue, &log), "{function}");
    }
    may_call_the_api(stack);
    Ok(())
}

/// The policy of clients allows calls by the function URL, and nothing else.
fn may_call_the_api(stack: &Stack) {
    let policies = stack.made["policies"].as_object().unwrap();
    let client = &policies[stack.made["outputs"]["ClientPolicyArn"].as_str().unwrap()];
    let api = &stack.function("api")["FunctionArn"];
    let expected = json!([
        {"Sid": "CallUrl", "Effect": "Allow", "Action": "lambda:InvokeFunctionUrl", "Resource": api,
         "Condition": {"StringEquals": {"lambda:FunctionUrlAuthType": "AWS_IAM"}}},
        {"Sid": "InvokeByUrl", "Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": api,
         "Condition": {"Bool": {"lambda:InvokedViaFunctionUrl": "true"}}},
    ]);
    assert_eq!(client["Statement"], expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn each_role_allows_what_its_code_calls_and_nothing_else() -> Result<()> {
    check("", Way::Key).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn with_a_tagged_worker_every_role_may_send_to_its_queue() -> Result<()> {
    check("gpu", Way::Key).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn without_a_key_every_role_may_prove_itself_to_entra_id_and_read_no_secret() -> Result<()> {
    check("gpu", Way::Role).await?;
    check("", Way::ClientSecret).await
}
