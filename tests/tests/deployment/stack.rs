//! What CloudFormation makes of the template, and that deleting it leaves nothing.

use crate::alarms::of_tags;
use crate::deploy::Stack;
use crate::template::{Template, parameters};
use anyhow::Result;
use serde_json::{Value, json};

/// How many there are of each kind.
fn counts(made: &Value) -> Vec<(&str, usize)> {
    let kinds = made.as_object().unwrap().iter();
    let count = |kind: &Value| {
        kind.as_array()
            .map_or_else(|| kind.as_object().unwrap().len(), Vec::len)
    };
    kinds.map(|(name, kind)| (name.as_str(), count(kind))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn the_stack_has_queues_mappings_schedule_logs_and_secret_and_leaves_nothing() -> Result<()> {
    let stack = Stack::create(&parameters(&[
        ("WorkerTimeout", "120"),
        ("OrchestratorConcurrency", "7"),
    ]))
    .await?;
    let key = parameters(&[])["CosmosKey"].clone();
    for (of, visibility) in [("Orchestrator", "180"), ("Worker", "720")] {
        let queue = stack.queue(&format!("{of}Queue"));
        assert_eq!(queue["VisibilityTimeout"], visibility, "{queue:#}");
        assert_eq!(queue["SqsManagedSseEnabled"], "true", "{queue:#}");
        let redrive: Value = serde_json::from_str(queue["RedrivePolicy"].as_str().unwrap())?;
        let dead = stack.queue_arn(&format!("{of}DeadLetters"));
        assert_eq!(redrive["deadLetterTargetArn"], dead);
        assert_eq!(crate::template::text(&redrive["maxReceiveCount"]), "15");
        assert_eq!(
            stack.queue(&format!("{of}DeadLetters"))["MessageRetentionPeriod"],
            "1209600"
        );
        for queue in [queue, stack.queue(&format!("{of}DeadLetters"))] {
            let policy: Value = serde_json::from_str(queue["Policy"].as_str().unwrap())?;
            let statement = &policy["Statement"][0];
            assert_eq!(
                (&statement["Effect"], &statement["Condition"]),
                (&json!("Deny"), &json!({"Bool": {"aws:SecureTransport": "false"}}))
            );
        }
    }
    let mappings = stack.made["mappings"].as_array().unwrap();
    for (of, function, most) in [("Orchestrator", "orchestrator", 7), ("Worker", "worker", 50)] {
        let arn = stack.queue_arn(&format!("{of}Queue"));
        let mapping = mappings
            .iter()
            .find(|mapping| mapping["EventSourceArn"] == arn)
            .unwrap();
        let named = mapping["FunctionArn"].as_str().unwrap();
        assert!(named.ends_with(&format!(":function:flow-{function}")), "{mapping:#}");
        assert_eq!(mapping["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
        assert_eq!(
            (&mapping["BatchSize"], &mapping["ScalingConfig"]["MaximumConcurrency"]),
            (&json!(10), &json!(most))
        );
        assert_eq!(mapping["State"], "Enabled");
    }
    scheduled(&stack);
    for log in stack.made["logGroups"].as_array().unwrap() {
        assert_eq!(log["retentionInDays"], 30, "{log}");
    }
    assert_eq!(
        stack.made["secrets"].as_object().unwrap().values().collect::<Vec<_>>(),
        [&json!(key)]
    );
    assert_eq!(
        counts(&stack.made),
        [
            ("alarms", 25),
            ("dashboards", 1),
            ("functions", 4),
            ("logGroups", 4),
            ("mappings", 2),
            ("outputs", 12),
            ("policies", 1),
            ("queues", 4),
            ("roles", 4),
            ("rules", 1),
            ("secrets", 1),
        ]
    );
    assert_eq!(
        of_tags(&stack.made["dashboards"]["flow-eu-central-1"]),
        Vec::<String>::new()
    );
    let guide = std::fs::read_to_string(crate::template::root().join("docs/deployment.md"))?;
    assert!(guide.contains("alarms: 25 at $0.10"), "the guide counts the alarms");

    let left = stack.delete()?;
    assert!(counts(&left).iter().all(|(_, count)| *count == 0), "{left:#}");
    Ok(())
}

/// Maintenance is invoked by the schedule, by nobody else, and once.
fn scheduled(stack: &Stack) {
    let rule = &stack.made["rules"][0];
    let maintenance = stack.function("maintenance");
    assert_eq!(
        (&rule["ScheduleExpression"], &rule["State"]),
        (&json!("rate(1 minute)"), &json!("ENABLED"))
    );
    assert_eq!(rule["Targets"].as_array().unwrap().len(), 1);
    assert_eq!(rule["Targets"][0]["Arn"], maintenance["FunctionArn"]);
    let permission = &maintenance["Policy"]["Statement"];
    assert_eq!(permission.as_array().unwrap().len(), 1);
    assert_eq!(permission[0]["Principal"], json!({"Service": "events.amazonaws.com"}));
    assert_eq!(permission[0]["Condition"]["ArnLike"]["AWS:SourceArn"], rule["Arn"]);
    assert_eq!(maintenance["EventInvokeConfig"]["MaximumRetryAttempts"], 0);
    for other in ["orchestrator", "worker"] {
        assert!(
            stack.function(other)["Policy"].is_null(),
            "{other} may be invoked by its mapping only"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn a_tag_gets_a_worker_and_a_queue_that_every_role_may_send_to() -> Result<()> {
    let topic = "arn:aws:sns:eu-central-1:123456789012:operators";
    let secret = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:mine-AbCdEf";
    let given = [
        ("WorkerTag", "gpu"),
        ("AlarmTopicArn", topic),
        ("CosmosKey", ""),
        ("CosmosKeySecretArn", secret),
    ];
    let stack = Stack::create(&parameters(&given)).await?;
    assert_eq!(stack.queue("TaggedWorkerQueue")["VisibilityTimeout"], "5400");
    let url = stack.made["outputs"]["TaggedWorkerQueueUrl"].as_str().unwrap();
    let expected = json!({"gpu": url}).to_string();
    for function in ["orchestrator", "worker", "worker-tagged", "maintenance", "api"] {
        let variables = stack.variables(function);
        let value = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.clone())
        };
        assert_eq!(value("WORKER_TAG_QUEUE_URLS"), Some(expected.clone()), "{function}");
        assert_eq!(value("COSMOS_KEY_SECRET_ARN").as_deref(), Some(secret), "{function}");
        let tags = match function {
            "worker" => Some("default"),
            "worker-tagged" => Some("gpu"),
            _ => None,
        };
        assert_eq!(value("WORKER_TAGS").as_deref(), tags, "{function}");
    }
    let arn = stack.queue_arn("TaggedWorkerQueue");
    let mappings = stack.made["mappings"].as_array().unwrap();
    let mapping = mappings
        .iter()
        .find(|mapping| mapping["EventSourceArn"] == arn)
        .unwrap();
    assert_eq!((&mapping["BatchSize"], mappings.len()), (&json!(1), 3));
    assert_eq!(stack.made["secrets"], json!({}), "the secret that exists is used");
    for alarm in stack.made["alarms"].as_array().unwrap() {
        assert_eq!(alarm["AlarmActions"], json!([topic]), "{alarm}");
        // Every new alarm goes to OK: that would be a message from each, at each creation.
        assert_eq!(alarm["OKActions"], json!([]), "{alarm}");
    }
    let left = stack.delete()?;
    assert!(counts(&left).iter().all(|(_, count)| *count == 0), "{left:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn the_api_has_a_url_for_signed_requests_or_a_public_one_for_tokens() -> Result<()> {
    let tokens = [
        ("ApiAuth", "jwt"),
        ("ApiJwtIssuer", "https://issuer.example"),
        ("ApiJwtAudience", "workflows"),
    ];
    for (given, auth, permissions) in [(&[][..], "AWS_IAM", 0), (&tokens, "NONE", 2)] {
        let stack = Stack::create(&parameters(given)).await?;
        let api = stack.function("api");
        assert_eq!(api["UrlConfig"]["AuthType"], auth, "{api:#}");
        let url = stack.made["outputs"]["ApiUrl"].as_str().unwrap();
        assert!(url.starts_with("https://") && url.contains(".lambda-url."), "{url}");
        let statements = api["Policy"]["Statement"].as_array().map_or(0, Vec::len);
        assert_eq!(statements, permissions, "{api:#}");
        for other in ["orchestrator", "worker", "maintenance"] {
            assert!(stack.function(other)["UrlConfig"].is_null(), "{other}");
        }
    }
    Ok(())
}

/// moto makes no API Gateway of a template: this reads what CloudFormation would make.
#[tokio::test]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn an_api_gateway_checks_signatures_unless_the_function_verifies_tokens() -> Result<()> {
    let template = Template::read(&parameters(&[])).await?;
    let resources = &template.transformed["Resources"];
    let route = &resources["ApiGatewayRoute"]["Properties"]["AuthorizationType"];
    for (auth, expected) in [("iam", "AWS_IAM"), ("jwt", "NONE")] {
        let all = template.complete(&parameters(&[("ApiAuth", auth)]));
        assert_eq!(template.resolve(route, &all), expected, "{auth}");
    }
    for (name, resource) in resources.as_object().unwrap() {
        if name.starts_with("ApiGateway") {
            assert_eq!(resource["Condition"], "HasGateway", "{name}");
        }
    }
    let integration = &resources["ApiGatewayIntegration"]["Properties"];
    assert_eq!(integration["PayloadFormatVersion"], "2.0");
    let source = &resources["ApiGatewayInvokes"]["Properties"]["SourceArn"];
    assert!(source.to_string().contains("${ApiGatewayApi}/*"), "{source}");
    Ok(())
}

/// What moto does not keep of a function is read in the template.
#[tokio::test]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn functions_run_on_the_chosen_architecture_and_may_call_each_other_for_long() -> Result<()> {
    let template = Template::read(&parameters(&[])).await?;
    assert_eq!(template.source["Parameters"]["Architecture"]["Default"], "arm64");
    let functions: Vec<_> = template.of_type("AWS::Lambda::Function").collect();
    assert_eq!(functions.len(), 5);
    for (name, function) in functions {
        let properties = &function["Properties"];
        assert_eq!(properties["Architectures"], json!([{"Ref": "Architecture"}]), "{name}");
        assert_eq!(properties["Runtime"], "provided.al2023", "{name}");
        assert_eq!(properties["RecursiveLoop"], "Allow", "{name}");
        let log = name.replace("Function", "Log");
        assert_eq!(properties["LoggingConfig"], json!({"LogGroup": {"Ref": log}}), "{name}");
        let code = template.source["Resources"][name]["Properties"]["CodeUri"]
            .as_str()
            .unwrap();
        let binary = ["orchestrator", "worker", "maintenance", "api"]
            .iter()
            .find(|binary| code == format!("../../target/lambda/{binary}/bootstrap.zip"));
        assert!(binary.is_some(), "{name} is {code}");
    }
    Ok(())
}
