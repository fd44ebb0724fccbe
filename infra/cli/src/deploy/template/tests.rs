//! The template that is deployed.

use super::*;

fn rendered(functions: &Functions, overlay: &str) -> Result<Value, TemplateError> {
    let template = Template::render(functions, "flow", parse(overlay)?)?;
    Ok(serde_json::from_str(&template.text()).unwrap())
}

fn tagged(tags: &[(&str, &str)]) -> Functions {
    Functions {
        tagged: tags
            .iter()
            .map(|(tag, binary)| ((*tag).to_owned(), (*binary).to_owned()))
            .collect(),
        ..Functions::default()
    }
}

/// All that a template refers to must be there.
fn check_references(template: &Value) {
    let names: BTreeSet<&str> = ["Parameters", "Resources"]
        .iter()
        .flat_map(|section| template[section].as_object().unwrap().keys())
        .map(String::as_str)
        .collect();
    let conditions = template["Conditions"].as_object().unwrap();
    check(template, &names, conditions);
}

fn check(value: &Value, names: &BTreeSet<&str>, conditions: &Map<String, Value>) {
    let known = |name: &str| {
        let name = name.split('.').next().unwrap();
        assert!(name.starts_with("AWS::") || names.contains(name), "there is no {name}");
    };
    match yaml::function(value) {
        Some(("Ref", Value::String(name))) => known(name),
        Some(("Fn::GetAtt", Value::Array(path))) => known(path[0].as_str().unwrap()),
        Some(("Fn::If", Value::Array(parts))) => assert!(conditions.contains_key(parts[0].as_str().unwrap())),
        Some(("Fn::Sub", Value::String(text))) => {
            let each = text.split("${").skip(1).map(|rest| rest.split('}').next().unwrap());
            each.for_each(known);
        }
        _ => {}
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| check(item, names, conditions)),
        Value::Object(map) => map.values().for_each(|item| check(item, names, conditions)),
        _ => {}
    }
}

#[test]
fn each_function_has_the_archive_of_its_binary() {
    let functions = Functions {
        worker: "my-worker".to_owned(),
        ..Functions::default()
    };
    let template = rendered(&functions, "").unwrap();
    check_references(&template);
    let archive = |function: &str| template["Resources"][function]["Properties"]["CodeUri"].clone();
    assert_eq!(archive("OrchestratorFunction"), "orchestrator.zip");
    assert_eq!(archive("WorkerFunction"), "my-worker.zip");
    assert_eq!(archive("TaggedWorkerFunction"), "my-worker.zip");
    assert_eq!(archive("ApiFunction"), "api.zip");
    assert_eq!(
        template["Conditions"]["HasTaggedWorker"]["Fn::Not"][0]["Fn::Equals"][1],
        ""
    );
}

#[test]
fn each_tag_has_its_worker_queue_alarms_and_parameters() {
    let plain = rendered(&Functions::default(), "").unwrap();
    let template = rendered(&tagged(&[("gpu", "gpu-worker"), ("high.mem", "worker")]), "").unwrap();
    check_references(&template);
    assert!(!template.to_string().contains("TaggedWorker"));
    assert!(!template.to_string().contains("HasTagged"));
    let count = |template: &Value, section: &str| template[section].as_object().unwrap().len();
    let of_tag = plain["Resources"].as_object().unwrap().values();
    let of_tag = of_tag.filter(|it| it["Condition"] == "HasTaggedWorker").count();
    assert!(of_tag >= 11, "{of_tag}");
    assert_eq!(count(&template, "Resources"), count(&plain, "Resources") + of_tag);
    assert_eq!(count(&template, "Parameters"), count(&plain, "Parameters") - 5 + 2 * 4);
    assert_eq!(count(&template, "Outputs"), count(&plain, "Outputs") + 1);

    let resources = &template["Resources"];
    let function = &resources["GpuWorkerFunction"]["Properties"];
    assert_eq!(function["CodeUri"], "gpu-worker.zip");
    assert_eq!(function["FunctionName"]["Fn::Sub"], "${AWS::StackName}-worker-gpu");
    assert_eq!(function["Environment"]["Variables"]["WORKER_TAGS"], "gpu");
    assert_eq!(function["MemorySize"], json!({"Ref": "GpuWorkerMemory"}));
    let other = &resources["HighMemWorkerFunction"]["Properties"];
    assert_eq!(other["FunctionName"]["Fn::Sub"], "${AWS::StackName}-worker-high-mem");
    assert_eq!(other["Environment"]["Variables"]["WORKER_TAGS"], "high.mem");
    let log = &resources["HighMemWorkerLog"]["Properties"]["LogGroupName"]["Fn::Sub"];
    assert_eq!(log, "/aws/lambda/${AWS::StackName}-worker-high-mem");
    assert_eq!(
        template["Globals"]["Function"]["Environment"]["Variables"]["WORKER_TAG_QUEUE_URLS"]["Fn::Sub"],
        "{\"gpu\":\"${GpuWorkerQueue}\",\"high.mem\":\"${HighMemWorkerQueue}\"}"
    );

    let queue = |name: &str| json!({"Fn::GetAtt": [name, "Arn"]});
    let all = json!([
        queue("OrchestratorQueue"),
        queue("WorkerQueue"),
        queue("GpuWorkerQueue"),
        queue("HighMemWorkerQueue")
    ]);
    for role in ["OrchestratorRole", "ApiRole", "GpuWorkerRole", "HighMemWorkerRole"] {
        let statements = resources[role].pointer("/Properties/Policies/0/PolicyDocument/Statement");
        let statements = statements.unwrap().as_array().unwrap();
        assert_eq!(statements[0]["Resource"], all, "{role}");
        let polls = statements
            .iter()
            .find(|it| it["Sid"] == "Poll")
            .map(|it| &it["Resource"]);
        match role {
            "GpuWorkerRole" => assert_eq!(polls, Some(&queue("GpuWorkerQueue"))),
            "HighMemWorkerRole" => assert_eq!(polls, Some(&queue("HighMemWorkerQueue"))),
            _ => {}
        }
    }
    assert_eq!(
        resources["GpuWorkerNotifierPolicy"]["Properties"]["Queues"],
        json!([{"Ref": "GpuWorkerQueue"}, {"Ref": "GpuWorkerDeadLetters"}])
    );
    let roles = &template["Outputs"]["RoleArns"]["Value"]["Fn::Join"][1];
    assert_eq!(roles.as_array().unwrap().len(), 6, "{roles}");
    let widgets = resources["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"][1]["OfTag"]["Fn::Join"][1].clone();
    let rows: Vec<bool> = [(0, "\"y\": 24"), (1, "\"y\": 30")]
        .iter()
        .map(|(n, row)| widgets[n]["Fn::Sub"].as_str().unwrap().contains(row))
        .collect();
    assert_eq!(rows, [true, true], "{widgets}");
}

#[test]
fn tags_that_cannot_be_names_are_refused() {
    let long = "a".repeat(63);
    for (tags, said) in [
        (&[("default", "worker")] as &[_], "activities without a tag"),
        (&[("a b", "worker")], "letters, digits"),
        (&[("-a", "worker")], "letters, digits"),
        (&[("a.b", "worker"), ("a-b", "worker")], "punctuation"),
        (&[(&long, "worker")], "more than 64"),
    ] {
        let error = rendered(&tagged(tags), "").unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn an_overlay_changes_the_worker_and_its_tags() {
    let overlay = "
Resources:
  WorkerFunction:
    Properties:
      Layers: [!Sub 'arn:${AWS::Partition}:lambda:eu-west-1:123456789012:layer:fonts:3']
      Environment: { Variables: { TABLE: !Ref Table } }
  GpuWorkerFunction:
    Properties: { EphemeralStorage: { Size: 4096 } }
  WorkerRole:
    Properties:
      Policies:
        - PolicyName: table
          PolicyDocument:
            Version: '2012-10-17'
            Statement: [{ Effect: Allow, Action: dynamodb:GetItem, Resource: !GetAtt Table.Arn }]
  Table: { Type: AWS::DynamoDB::Table }
";
    let template = rendered(&tagged(&[("gpu", "gpu-worker")]), overlay).unwrap();
    check_references(&template);
    let resources = &template["Resources"];
    let variables = &resources["WorkerFunction"]["Properties"]["Environment"]["Variables"];
    assert_eq!(variables["TABLE"], json!({"Ref": "Table"}));
    assert_eq!(variables["WORKER_TAGS"], "default");
    assert_eq!(
        resources["GpuWorkerFunction"]["Properties"]["EphemeralStorage"]["Size"],
        4096
    );
    let policies = resources["WorkerRole"]["Properties"]["Policies"].as_array().unwrap();
    assert_eq!(policies.len(), 2);
    assert_eq!(
        policies[1]["PolicyDocument"]["Statement"][0]["Resource"],
        json!({"Fn::GetAtt": ["Table", "Arn"]})
    );
    let error = rendered(&Functions::default(), overlay).unwrap_err().to_string();
    assert!(error.contains("no resource GpuWorkerFunction"), "{error}");
}

#[test]
fn rules_use_only_what_cloudformation_allows_there() {
    for text in [TEMPLATE, include_str!("../../../templates/linked/network.yaml")] {
        let template = parse(text).unwrap();
        assert_eq!(rules::check(template.as_object().unwrap()), Ok(()));
    }
    let rule = |check: &str| format!("Rules: {{ Mine: {{ Assertions: [{{ Assert: {check} }}] }} }}");
    for allowed in [
        "!Contains [[a, b], !Ref LogLevel]",
        "!EachMemberIn [!Ref SubnetIds, !RefAll 'AWS::EC2::Subnet::Id']",
    ] {
        rendered(&Functions::default(), &rule(allowed)).unwrap();
    }
    let refused = rendered(
        &Functions::default(),
        &rule("!Not [!Equals [!Join ['', !Ref SubnetIds], '']]"),
    );
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("the rule Mine uses Fn::Join;"), "{refused}");
}

/// A value of a policy as CloudFormation makes it, as long as it can become.
fn longest(value: &Value) -> Value {
    let text = |text: &str| {
        text.replace("${AWS::Partition}", "aws-us-gov")
            .replace("${AWS::Region}", "ap-southeast-2")
            .replace("${AWS::AccountId}", "123456789012")
            .replace("${AWS::StackName}", &"s".repeat(50))
    };
    match (yaml::function(value), value) {
        (Some(("Fn::Sub", Value::String(of))), _) => json!(text(of)),
        (Some(("Fn::GetAtt", _)), _) => {
            json!(text("arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:") + &"q".repeat(80))
        }
        (Some(("Ref", _)), _) => {
            let stack =
                "arn:${AWS::Partition}:cloudformation:${AWS::Region}:${AWS::AccountId}:stack/${AWS::StackName}/";
            json!(text(stack) + &"i".repeat(36))
        }
        (_, Value::Array(items)) => items.iter().map(longest).collect(),
        (_, Value::Object(map)) => map.iter().map(|(name, it)| (name.clone(), longest(it))).collect(),
        (_, other) => other.clone(),
    }
}

#[test]
fn the_policies_of_readers_have_room_for_as_many_tags_as_an_application_can_trust() {
    // An application has twenty federated credentials, and four roles need one anyway.
    let tags: Vec<String> = (0..16).map(|n| format!("t{n}")).collect();
    let tags: Vec<(&str, &str)> = tags.iter().map(|tag| (tag.as_str(), "worker")).collect();
    let template = rendered(&tagged(&tags), "").unwrap();
    for name in ["ReaderPolicy", "ReaderQueuesPolicy"] {
        let policy = &template["Resources"][name]["Properties"]["PolicyDocument"];
        let size = longest(policy).to_string().len();
        assert!(size <= 6144, "IAM allows 6,144 characters, and {name} has {size}");
    }
}

#[test]
fn an_overlay_refers_to_no_file_of_this_machine() {
    let layer = |content: &str| {
        format!(
            "Resources: {{ Fonts: {{ Type: AWS::Serverless::LayerVersion, Properties: {{ ContentUri: {content} }} }} }}"
        )
    };
    for allowed in [
        "s3://bucket/fonts.zip",
        "{ Bucket: bucket, Key: fonts.zip }",
        "!Ref Fonts",
    ] {
        rendered(&Functions::default(), &layer(allowed)).unwrap();
    }
    for file in ["./fonts", "fonts.zip", "/srv/fonts.zip"] {
        let refused = rendered(&Functions::default(), &layer(file)).unwrap_err().to_string();
        let said = format!("ContentUri of Fonts is the file {file} of this machine");
        assert!(
            refused.contains(&said) && refused.contains("s3://bucket/key"),
            "{refused}"
        );
    }
    let code = "Resources: { WorkerFunction: { Properties: { CodeUri: mine.zip } } }";
    let refused = rendered(&Functions::default(), code).unwrap_err().to_string();
    assert!(refused.contains("[functions]"), "{refused}");
}
