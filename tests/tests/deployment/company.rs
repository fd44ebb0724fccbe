//! What companies require: a VPC, keys of their own, a permissions boundary, and a role that only reads.

use crate::deploy::Stack;
use crate::template::{Template, parameters, run, script};
use anyhow::Result;
use serde_json::{Value, json};
use std::process::Command;
use tests::real::Venv;

const KEY: &str = "arn:aws:kms:eu-central-1:123456789012:key/0f3b7f3e-1111-2222-3333-444444444444";
const BOUNDARY: &str = "arn:aws:iam::123456789012:policy/boundary";
const OPERATORS: &str = "arn:aws:sts::123456789012:assumed-role/ops/*";

fn given() -> crate::template::Parameters {
    parameters(&[
        ("WorkerTag", "gpu"),
        ("SubnetIds", "subnet-1,subnet-2"),
        ("SecurityGroupIds", "sg-1"),
        ("KmsKeyArn", KEY),
        ("PermissionsBoundaryArn", BOUNDARY),
        ("ReaderPrincipalArn", "arn:aws:iam::123456789012:role/people"),
        ("ApiOperatorArn", OPERATORS),
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn functions_are_in_the_vpc_queues_and_secret_have_the_key_and_a_reader_changes_nothing() -> Result<()> {
    let stack = Stack::create(&given()).await?;
    for function in ["orchestrator", "worker", "worker-tagged", "maintenance", "api"] {
        let vpc = &stack.function(function)["VpcConfig"];
        assert_eq!(vpc["SubnetIds"], json!(["subnet-1", "subnet-2"]), "{function}");
        assert_eq!(vpc["SecurityGroupIds"], json!(["sg-1"]), "{function}");
    }
    let queues = stack.made["queues"].as_object().unwrap();
    assert_eq!(queues.len(), 6);
    for (url, queue) in queues {
        assert_eq!(
            (&queue["KmsMasterKeyId"], &queue["SqsManagedSseEnabled"]),
            (&json!(KEY), &json!("false")),
            "{url}"
        );
    }
    for role in stack.made["roles"].as_object().unwrap().values() {
        assert_eq!(role["boundary"], BOUNDARY, "{role:#}");
    }
    reads_only(&stack);
    network(&stack).await
}

/// The role of readers has a policy with actions that read, and calls the API as reader.
fn reads_only(stack: &Stack) {
    let arn = stack.made["outputs"]["ReaderRoleArn"].as_str().unwrap();
    let roles = stack.made["roles"].as_object().unwrap();
    let (name, reader) = roles.iter().find(|(_, role)| role["arn"] == arn).unwrap();
    assert_eq!(
        reader["trust"]["Statement"][0]["Principal"],
        json!({"AWS": "arn:aws:iam::123456789012:role/people"})
    );
    let variables = stack.variables("api");
    let (_, api_roles) = variables
        .iter()
        .find(|(name, _)| name == "DUROXIDE_API_IAM_ROLES")
        .unwrap();
    let reader_arn = format!("arn:aws:sts::123456789012:assumed-role/{name}/*");
    let api_roles: Value = serde_json::from_str(api_roles).unwrap();
    assert_eq!(api_roles, json!({OPERATORS: "operator", reader_arn: "reader"}));

    let client = stack.made["outputs"]["ClientPolicyArn"].as_str().unwrap();
    let attached: Vec<&str> = reader["attached"].as_array().unwrap().iter().map(arn_of).collect();
    assert_eq!(attached.len(), 3, "{attached:?}");
    assert!(attached.contains(&client), "it may call the API: {attached:?}");
    let others = attached.iter().filter(|arn| **arn != client);
    let statements = others.flat_map(|other| stack.made["policies"][*other]["Statement"].as_array().unwrap());
    let reads = ["Describe", "Filter", "Get", "List", "StartQuery", "StopQuery"];
    for statement in statements {
        assert_eq!(statement["Effect"], "Allow");
        let actions = match &statement["Action"] {
            Value::Array(actions) => actions.clone(),
            one => vec![one.clone()],
        };
        for action in actions {
            let (service, verb) = action.as_str().unwrap().split_once(':').unwrap();
            assert!(reads.iter().any(|read| verb.starts_with(read)), "{action}");
            // Values of secrets and messages are no state.
            assert!(!["secretsmanager", "kms"].contains(&service), "{action}");
        }
    }
}

fn arn_of(policy: &Value) -> &str {
    policy["PolicyArn"].as_str().unwrap()
}

/// What network.yaml makes in a VPC of the same account, with these parameters.
async fn endpoints(stack: &Stack, given: &[&str]) -> Result<Value> {
    let venv = Venv::ready().await?;
    let mut python = Command::new(venv.python());
    python
        .arg(script("network.py"))
        .arg("infra/aws/network.yaml")
        .args(given)
        .envs(stack.moto.env());
    Ok(serde_json::from_slice(&run(&mut python, b"")?)?)
}

/// The endpoints of the VPC, which everything in it may use: their private names hold for all of it.
async fn network(stack: &Stack) -> Result<()> {
    let made = endpoints(stack, &[]).await?;
    assert_eq!(made["services"], json!(["logs", "secretsmanager", "sqs", "sts"]));
    assert_eq!(made["private"], json!([true, true, true, true]));
    assert_eq!(made["ingress"], json!([]), "nothing connects to functions");
    let rules = made["ofEndpoints"].as_array().unwrap();
    assert!(
        rules
            .iter()
            .all(|rule| rule["FromPort"] == 443 && rule["ToPort"] == 443)
    );
    let of = |field: &str| -> Vec<&Value> { rules.iter().flat_map(|rule| rule[field].as_array().unwrap()).collect() };
    let ranges: Vec<&Value> = of("IpRanges").into_iter().map(|range| &range["CidrIp"]).collect();
    let groups: Vec<&Value> = of("UserIdGroupPairs")
        .into_iter()
        .map(|group| &group["GroupId"])
        .collect();
    assert_eq!(ranges, ["10.0.0.0/16"], "{rules:#?}");
    assert_eq!(groups, [&made["outputs"]["SecurityGroupIds"]], "{rules:#?}");
    let subnets = made["subnets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap());
    let subnets = subnets.collect::<Vec<_>>().join(",");
    assert_eq!(made["outputs"]["SubnetIds"], subnets);

    // A VPC has at most one such endpoint for each service.
    let existing = ["WithSqs=false", "WithSts=false", "WithLogs=false"];
    let made = endpoints(stack, &existing).await?;
    assert_eq!(made["services"], json!(["secretsmanager"]));
    Ok(())
}

/// moto makes neither policies that roles name nor keys of logs: the template itself must have them.
#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn every_role_and_log_follows_the_parameters() -> Result<()> {
    let given = given();
    let template = Template::read(&given).await?;
    let with = template.complete(&given);
    let without = template.complete(&parameters(&[]));
    let nothing = json!({"Ref": "AWS::NoValue"});
    let mut logs = 0;
    for (name, log) in template.of_type("AWS::Logs::LogGroup") {
        let key = &log["Properties"]["KmsKeyId"];
        assert_eq!(template.resolve(key, &with), KEY, "{name}");
        assert_eq!(template.resolve(key, &without), nothing, "{name}");
        logs += 1;
    }
    assert_eq!(logs, 6);
    let mut roles = 0;
    for (name, role) in template.of_type("AWS::IAM::Role") {
        let properties = &role["Properties"];
        assert_eq!(
            template.resolve(&properties["PermissionsBoundary"], &with),
            BOUNDARY,
            "{name}"
        );
        assert_eq!(
            template.resolve(&properties["PermissionsBoundary"], &without),
            nothing,
            "{name}"
        );
        roles += 1;
        if name == "ReaderRole" {
            continue;
        }
        let policies = properties["ManagedPolicyArns"].as_array().unwrap();
        let resolved: Vec<Value> = policies.iter().map(|policy| template.resolve(policy, &with)).collect();
        let expected = [json!({"Ref": "NetworkPolicy"}), json!({"Ref": "EncryptionPolicy"})];
        assert_eq!(resolved, expected, "{name}");
        let resolved: Vec<Value> = policies
            .iter()
            .map(|policy| template.resolve(policy, &without))
            .collect();
        assert_eq!(resolved, [nothing.clone(), nothing.clone()], "{name}");
    }
    assert_eq!(roles, 6);
    for (name, function) in template.of_type("AWS::Lambda::Function") {
        assert_eq!(
            template.resolve(&function["Properties"]["KmsKeyArn"], &with),
            KEY,
            "{name}"
        );
    }
    Ok(())
}
