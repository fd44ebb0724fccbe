//! Mistakes in parameters are refused before CloudFormation makes anything.
//!
//! moto takes any parameter, so this judges them as CloudFormation documents it: type, pattern (of the whole text),
//! allowed values, bounds, then rules.

use crate::template::{CLIENT, Parameters, TENANT, Template, keyless, parameters, text};
use ::cosmos::{ClientConfig, Key, StaticKey};
use anyhow::Result;
use regex_lite::Regex;
use serde_json::Value;

/// No id.
const CLIENT_AND_MORE: &str = "0f3b7f3e-1111-2222-3333-4444444444445";

/// Why CloudFormation would not begin to deploy.
pub fn refusals(template: &Template, given: &Parameters) -> Vec<String> {
    let declared = template.section("Parameters");
    let all = template.complete(given);
    let mut refusals: Vec<String> = all
        .keys()
        .filter(|name| !declared.contains_key(*name))
        .map(|name| format!("{name} is no parameter"))
        .collect();
    for (name, parameter) in declared {
        match all.get(name) {
            None => refusals.push(format!("{name} is missing")),
            Some(value) => refusals.extend(refused(parameter, value).map(|why| format!("{name}: {why}"))),
        }
    }
    for rule in template.section("Rules").values() {
        for assertion in rule["Assertions"].as_array().unwrap() {
            if !template.holds(&assertion["Assert"], &all) {
                refusals.push(text(&assertion["AssertDescription"]));
            }
        }
    }
    refusals
}

fn refused(parameter: &Value, value: &str) -> Option<&'static str> {
    if let Some(pattern) = parameter["AllowedPattern"].as_str() {
        let pattern = Regex::new(pattern).unwrap();
        // The pattern of a list is that of each value.
        let is_list = parameter["Type"] == "CommaDelimitedList";
        let mut values = value.split(|one| is_list && one == ',');
        if !values.all(|one| pattern.is_match(one)) {
            return Some("the pattern does not match");
        }
    }
    if let Some(allowed) = parameter["AllowedValues"].as_array()
        && !allowed.iter().any(|one| text(one) == value)
    {
        return Some("it is not among the allowed values");
    }
    if parameter["Type"] == "Number" {
        let Ok(number) = value.parse::<f64>() else {
            return Some("it is no number");
        };
        let bound = |name: &str| parameter[name].as_f64();
        if bound("MinValue").is_some_and(|least| number < least) || bound("MaxValue").is_some_and(|most| number > most)
        {
            return Some("it is out of bounds");
        }
    }
    None
}

#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn what_the_guide_says_can_be_deployed() -> Result<()> {
    let template = Template::read(&parameters(&[])).await?;
    let topic = "arn:aws:sns:eu-west-1:123456789012:operators";
    let secret = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:cosmos-key-AbCdEf";
    for more in [
        &[] as &[(&str, &str)],
        &[
            ("WorkerTag", "gpu"),
            ("TaggedWorkerTimeout", "900"),
            ("AlarmTopicArn", topic),
        ],
        &[("CosmosKey", ""), ("CosmosKeySecretArn", secret)],
        &[
            ("CosmosKey", ""),
            ("CosmosTenantId", TENANT),
            ("CosmosClientId", CLIENT),
        ],
        &[
            ("CosmosKey", ""),
            ("CosmosTenantId", TENANT),
            ("CosmosClientId", CLIENT),
            ("CosmosClientSecretArn", secret),
        ],
        &[
            ("SubnetIds", "subnet-1,subnet-2"),
            ("SecurityGroupIds", "sg-1"),
            ("KmsKeyArn", "arn:aws:kms:eu-west-1:123456789012:key/0f3b-1111"),
            (
                "PermissionsBoundaryArn",
                "arn:aws:iam::123456789012:policy/team/boundary",
            ),
            ("ReaderPrincipalArn", "arn:aws:iam::123456789012:root"),
        ],
        &[
            ("LogLevel", "info,duroxide_lambda=debug"),
            ("DeleteAfterDays", "30"),
            ("KeepExecutions", "5"),
        ],
        &[
            ("ActivityAttempts", "Charge=3, Ship parcel=5"),
            ("ActivityTimeouts", "Charge=2s,Ship parcel=500ms"),
            ("Build", "v1.2.3+abc"),
        ],
        &[
            ("ApiOperatorArn", "arn:aws:sts::123456789012:assumed-role/ops/*"),
            ("ApiIamDefaultRole", "reader"),
            ("ApiConcurrency", "20"),
            ("ApiGateway", "true"),
        ],
        &[
            ("ApiAuth", "jwt"),
            ("ApiJwtIssuer", "https://login.example.com/tenant/v2.0"),
            ("ApiJwtAudience", "api://workflows"),
            ("ApiJwtOperators", "workflow-admins"),
            ("ApiJwtClientId", "0oa1b2c3"),
            ("ApiJwtScope", "openid api://workflows/.default"),
            ("ApiCorsOrigin", "https://app.example.com:8443"),
        ],
        &[
            ("Architecture", "x86_64"),
            ("MaintenanceMinutes", "5"),
            ("WorkerConcurrency", "1000"),
        ],
    ] {
        assert_eq!(refusals(&template, &parameters(more)), Vec::<String>::new(), "{more:?}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn each_mistake_is_refused_and_named() -> Result<()> {
    let template = Template::read(&parameters(&[])).await?;
    for (name, wrong) in [
        (
            "CosmosEndpoint",
            &[
                "",
                "http://my-account.documents.azure.com",
                "my-account.documents.azure.com",
                "https://my-account.documents.azure.com/dbs",
                "https://documents.azure.com",
                "https://example.com",
                "https://x.documents.azure.com.example.com",
                "AccountEndpoint=https://my-account.documents.azure.com:443/;AccountKey=abc==;",
            ] as &[&str],
        ),
        ("CosmosTenantId", &["https://contoso.com", "a b", ".", "a/b"]),
        ("CosmosClientId", &["my-application", "0f3b7f3e", CLIENT_AND_MORE]),
        ("CosmosClientSecretArn", &["the-secret-itself", "arn:aws:s3:::bucket"]),
        ("CosmosKey", &["abc", "AccountKey=abc=="]),
        // Without its last six characters an ARN names no secret to a role.
        (
            "CosmosKeySecretArn",
            &[
                "cosmos-key",
                "arn:aws:s3:::bucket",
                "arn:aws:secretsmanager:eu-west-1:123456789012:secret:cosmos-key",
            ],
        ),
        ("CosmosDatabase", &["", "a/b", "a#b", "a?"]),
        ("CosmosContainer", &["", "a\\b"]),
        ("Architecture", &["arm", "x86"]),
        // Without a row in the table of timeouts, no visibility timeout follows: a timeout cannot be larger than it.
        ("OrchestratorTimeout", &["0", "3", "45", "900", "-1", ""]),
        ("WorkerTimeout", &["0", "10", "901", "3600"]),
        ("TaggedWorkerTimeout", &["1000"]),
        ("OrchestratorConcurrency", &["0", "1", "-5", "1001", "many", ""]),
        ("WorkerConcurrency", &["0", "1"]),
        ("TaggedWorkerConcurrency", &["0"]),
        ("OrchestratorBatchSize", &["0", "11"]),
        ("WorkerBatchSize", &["0", "10000"]),
        ("OrchestratorMemory", &["64", "20000"]),
        ("MaxAttempts", &["0", "7"]),
        ("ActivityAttempts", &["3", "Charge", "Charge=many", "Charge=3;Ship=5"]),
        ("ActivityTimeouts", &["2s", "Charge=2", "Charge=2h"]),
        ("OnActivityGivenUp", &["ignore"]),
        ("Build", &["a b", "{}"]),
        ("OnNondeterminism", &["ignore", ""]),
        ("OnPanic", &["Block"]),
        ("HistoryLimitBytes", &["0", "64k", "1000"]),
        ("MaintenanceMinutes", &["0", "60"]),
        ("WorkerTag", &["a,b", "\"", "with space"]),
        ("DeleteAfterDays", &["0", "-1", "a month"]),
        ("KeepExecutions", &["0"]),
        ("OutboxAttempts", &["0", "1001"]),
        ("DeadLetterDays", &["0", "3651", "a month"]),
        ("ApiMemory", &["64"]),
        ("ApiConcurrency", &["0", "many"]),
        ("ApiAuth", &["none", ""]),
        (
            "ApiOperatorArn",
            &["ops", "arn:aws:iam::1:role/ops", "arn:aws:sts::123456789012:*x"],
        ),
        ("ApiIamDefaultRole", &["admin", ""]),
        ("ApiJwtIssuer", &["http://issuer.example", "issuer.example"]),
        ("ApiJwtAudience", &["a b", "\""]),
        ("ApiJwtJwksUrl", &["http://issuer.example/keys"]),
        ("ApiJwtClientId", &["a b", "\""]),
        ("ApiJwtScope", &["", "openid  email", "a\"b"]),
        ("ApiJwtRoleClaim", &["", "a b"]),
        ("ApiJwtOperators", &["\"", "a\\b"]),
        (
            "ApiCorsOrigin",
            &["*", "http://app.example.com", "https://app.example.com/"],
        ),
        ("ApiGateway", &["yes"]),
        ("LogLevel", &["loud", "info;debug"]),
        ("LogRetentionDays", &["2", "0"]),
        ("MetricsNamespace", &["AWS/Lambda", "", "a b"]),
        ("AlarmTopicArn", &["me@example.com"]),
        ("SubnetIds", &["subnet-1, subnet-2", "vpc-1"]),
        ("SecurityGroupIds", &["default", "sg-1;sg-2"]),
        (
            "KmsKeyArn",
            &["alias/mine", "arn:aws:kms:eu-west-1:123456789012:alias/mine"],
        ),
        (
            "PermissionsBoundaryArn",
            &["boundary", "arn:aws:iam::123456789012:role/ops"],
        ),
        (
            "ReaderPrincipalArn",
            &["*", "arn:aws:sts::123456789012:assumed-role/ops/*"],
        ),
    ] {
        for wrong in wrong {
            let refusal = refusals(&template, &parameters(&[(name, wrong)])).join("\n");
            // A rule that names the parameter is not enough: it may speak of others.
            assert!(
                refusal.contains(&format!("{name}: ")),
                "{name} = {wrong:?}: {refusal:?}"
            );
        }
    }
    let secret = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:key-AbCdEf";
    for (more, refusal) in [
        (("CosmosKey", ""), "only one of these"),
        (("CosmosKeySecretArn", secret), "only one of these"),
        (("CosmosClientId", CLIENT), "only one of these"),
        (("CosmosTenantId", TENANT), "describe one application"),
        (("CosmosClientSecretArn", secret), "describe one application"),
        (("WorkerTag", "default"), "leave WorkerTag empty"),
        (("ApiAuth", "jwt"), "set ApiJwtIssuer and ApiJwtAudience"),
        (("SubnetIds", "subnet-1"), "set SubnetIds and SecurityGroupIds"),
        (("SecurityGroupIds", "sg-1"), "set SubnetIds and SecurityGroupIds"),
        (("Unknown", "1"), "Unknown is no parameter"),
    ] {
        let refusals = refusals(&template, &parameters(&[more])).join("\n");
        assert!(refusals.contains(refusal), "{more:?}: {refusals:?}");
    }
    for (more, refusal) in [
        (
            ("CosmosKey", parameters(&[])["CosmosKey"].as_str()),
            "only one of these",
        ),
        (("CosmosKeySecretArn", secret), "only one of these"),
        (("CosmosTenantId", ""), "describe one application"),
        (("CosmosClientId", ""), "describe one application"),
    ] {
        let refusals = refusals(&template, &keyless(&[more])).join("\n");
        assert!(refusals.contains(refusal), "{more:?}: {refusals:?}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn every_parameter_is_judged_explained_and_used() -> Result<()> {
    let template = Template::read(&parameters(&[])).await?;
    let mut rest = template.source.clone();
    let declared = rest["Parameters"].take();
    let interface = rest["Metadata"]["AWS::CloudFormation::Interface"].take().to_string();
    let rest = rest.to_string();
    for (name, parameter) in declared.as_object().unwrap() {
        let judged = ["AllowedPattern", "AllowedValues", "MinValue"]
            .iter()
            .any(|by| !parameter[by].is_null());
        assert!(judged && parameter["Description"].is_string(), "{name}: {parameter}");
        if let Some(pattern) = parameter["AllowedPattern"].as_str() {
            assert!(pattern.starts_with('^') && pattern.ends_with('$'), "{name}: {pattern}");
            assert!(
                parameter["ConstraintDescription"].is_string(),
                "{name} says what it wants"
            );
        }
        let used = [format!("{{\"Ref\":\"{name}\"}}"), format!("${{{name}}}")];
        assert!(used.iter().any(|one| rest.contains(one)), "{name} is used");
        assert!(interface.contains(&format!("\"{name}\"")), "{name} is in a group");
    }
    Ok(())
}

/// The code is the judge of what it can dial: the pattern lets through nothing that it refuses.
#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn the_client_accepts_every_endpoint_that_the_template_accepts() -> Result<()> {
    let template = Template::read(&parameters(&[])).await?;
    let key = StaticKey::new(Key::from_base64("YW55")?);
    for endpoint in [
        "https://my-account.documents.azure.com",
        "https://my-account.documents.azure.com/",
        "https://my-account.documents.azure.com:443/",
        "https://abc.documents.azure.us",
        "https://a1b.documents.azure.cn:443",
    ] {
        let given = parameters(&[("CosmosEndpoint", endpoint)]);
        assert_eq!(refusals(&template, &given), Vec::<String>::new(), "{endpoint}");
        ClientConfig::new(endpoint, key.clone())?;
    }
    Ok(())
}
