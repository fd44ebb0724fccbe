//! The variables of the template are exactly those that the configuration reads.

use crate::deploy::Stack;
use crate::template::{CLIENT, TENANT, Template, keyless, parameters};
use anyhow::{Context, Result};
use duroxide_lambda::config::{Config, CredentialSetting, ProofSetting, VARIABLES};
use std::collections::{BTreeMap, BTreeSet};

/// For development and for people: a deployment has an application or a secret, in the public cloud.
const NOT_DEPLOYED: [&str; 3] = ["COSMOS_AUTHORITY", "COSMOS_KEY", "COSMOS_TOKEN"];

#[tokio::test]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn the_template_sets_what_the_code_reads_and_the_code_reads_what_it_sets() -> Result<()> {
    let template = Template::read(&parameters(&[])).await?;
    let known: BTreeSet<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
    let mut set = BTreeSet::new();
    for (name, function) in template.of_type("AWS::Lambda::Function") {
        let variables = function["Properties"]["Environment"]["Variables"].as_object().unwrap();
        let here: BTreeSet<&str> = variables.keys().map(String::as_str).collect();
        let unread: Vec<_> = here.difference(&known).collect();
        assert!(unread.is_empty(), "{name} sets what nobody reads: {unread:?}");
        for variable in VARIABLES.iter().filter(|variable| variable.required) {
            assert!(here.contains(variable.name), "{name} needs {}", variable.name);
        }
        set.extend(here);
    }
    set.extend(NOT_DEPLOYED);
    assert_eq!(set, known);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn each_function_can_read_what_it_is_given() -> Result<()> {
    let given = [
        ("WorkerTag", "gpu"),
        ("DeleteAfterDays", "30"),
        ("WorkerBatchSize", "4"),
        ("MaxAttempts", "5"),
        ("OutboxAttempts", "7"),
        ("DeadLetterDays", "9"),
    ];
    let stack = Stack::create(&parameters(&given)).await?;
    for function in ["orchestrator", "worker", "worker-tagged", "maintenance", "api"] {
        let variables: BTreeMap<String, String> = stack.variables(function).into_iter().collect();
        let config = Config::from_variables(|name| variables.get(name).cloned())
            .with_context(|| format!("{function}: {variables:?}"))?;
        let arn = stack.made["outputs"]["KeySecretArn"].as_str();
        assert!(
            matches!(&config.cosmos.credential, CredentialSetting::KeySecret { arn: is } if Some(is.as_str()) == arn)
        );
        assert_eq!(
            Some(config.queues.worker.as_str()),
            stack.made["outputs"]["WorkerQueueUrl"].as_str()
        );
        assert_eq!(config.limits.max_attempts, 5, "{function}");
        let kept = config.limits.dead_letters_kept.as_secs();
        assert_eq!((config.limits.outbox_attempts, kept), (7, 9 * 86_400), "{function}");
        match function {
            "worker" => assert_eq!(config.limits.concurrency, 4),
            "worker-tagged" => assert_eq!(config.limits.concurrency, 1),
            "maintenance" | "api" => assert_eq!(
                config.maintenance.retention.delete_after.map(|age| age.as_secs()),
                Some(2_592_000)
            ),
            _ => assert_eq!(config.limits.concurrency, 10),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn without_a_key_each_function_gets_the_application_and_no_secret() -> Result<()> {
    let secret = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:mine-AbCdEf";
    for (given, expected) in [
        ("", ProofSetting::WebIdentity),
        (secret, ProofSetting::Secret { arn: secret.to_owned() }),
    ] {
        let stack = Stack::create(&keyless(&[("WorkerTag", "gpu"), ("CosmosClientSecretArn", given)])).await?;
        for function in ["orchestrator", "worker", "worker-tagged", "maintenance", "api"] {
            let variables: BTreeMap<String, String> = stack.variables(function).into_iter().collect();
            let config = Config::from_variables(|name| variables.get(name).cloned())
                .with_context(|| format!("{function}: {variables:?}"))?;
            let CredentialSetting::Entra { settings, proof } = config.cosmos.credential else {
                anyhow::bail!("{function}: {variables:?}");
            };
            assert_eq!((settings.tenant.as_str(), settings.client.as_str()), (TENANT, CLIENT));
            assert_eq!(proof, expected, "{function}");
        }
        assert_eq!(stack.made["secrets"], serde_json::json!({}));
        assert!(stack.made["outputs"]["KeySecretArn"].is_null());
        let subjects = stack.made["outputs"]["RoleArns"].as_str();
        assert_eq!(subjects.is_some(), given.is_empty());
        if let Some(subjects) = subjects {
            let roles = stack.made["roles"].as_object().unwrap().values();
            let roles: BTreeSet<&str> = roles.map(|role| role["arn"].as_str().unwrap()).collect();
            assert_eq!(subjects.split(' ').collect::<BTreeSet<_>>(), roles);
        }
    }
    Ok(())
}
