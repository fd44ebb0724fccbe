//! `duroxide-lambda deploy`, with programs in the place of `cargo-lambda`, `sam` and `aws` that write down how they were called.

use crate::parameters::refusals;
use crate::template::{CLIENT, Parameters, TENANT, Template, parameters, run, script, text};
use ::cosmos::{ClientConfig, CosmosClient, Key, StaticKey, Throughput};
use anyhow::Result;
use cosmos_emulator::{CosmosServer, ServerOptions};
use duroxide_cosmos::container_spec;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::real::{Deployed, Programs, Venv, stack};

const SECRET: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:key-AbCdEf";
const HOUR: Duration = Duration::from_secs(3600);

/// A project, the programs, and the account of the store.
pub struct Stage {
    pub programs: Programs,
    pub project: PathBuf,
    pub server: CosmosServer,
    pub key: String,
}

impl Stage {
    pub async fn set(name: &str) -> Result<Stage> {
        let programs = Programs::recorded(name)?;
        let project = programs.project("flow", "")?;
        let server = CosmosServer::start(ServerOptions::default()).await?;
        let key = server.listener().key();
        Ok(Stage {
            programs,
            project,
            server,
            key,
        })
    }

    /// The stack that was deployed with these parameters, or none.
    pub fn deployed(&self, with: Option<&[(&str, &str)]>) -> Result<()> {
        match with {
            Some(with) => self.programs.describe("UPDATE_COMPLETE", with, &[]),
            None => {
                // There may be none.
                fs::remove_file(self.programs.file("stack")).ok();
                Ok(())
            }
        }
    }

    /// With the account's key.
    pub async fn deploy(&self, arguments: &[&str]) -> Result<Deployed> {
        self.deploy_with(arguments, &[("COSMOS_KEY", &self.key)]).await
    }

    pub async fn deploy_with(&self, arguments: &[&str], env: &[(&str, &str)]) -> Result<Deployed> {
        let endpoint = self.server.listener().endpoint();
        let mut all = vec![("COSMOS_ENDPOINT", endpoint.as_str())];
        all.extend(env);
        self.programs.deploy(&self.project, arguments, &all).await
    }

    /// What the last deployment handed over, as sam reads it; parameters that keep their last value are left out.
    async fn handed(&self) -> Result<Parameters> {
        let venv = Venv::sam().await?;
        let mut python = Command::new(venv.python());
        python
            .arg(script("handed.py"))
            .arg(self.programs.file("settings.toml"))
            .arg(self.programs.file("template.json"));
        let handed: BTreeMap<String, Value> = serde_json::from_slice(&run(&mut python, b"")?)?;
        let given = handed.into_iter().filter(|(_, value)| !value.is_null());
        Ok(given.map(|(name, value)| (name, text(&value))).collect())
    }

    /// What the template would refuse of it. The emulator's own address it would, of course.
    fn refused(&self, template: &Template, handed: &Parameters) -> Vec<String> {
        let mut handed = handed.clone();
        assert_eq!(handed["CosmosEndpoint"], self.server.listener().endpoint());
        handed.insert(
            "CosmosEndpoint".to_owned(),
            "https://acct.documents.azure.com".to_owned(),
        );
        refusals(template, &handed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam from PyPI"]
async fn the_command_builds_creates_the_container_and_deploys() -> Result<()> {
    let stage = Stage::set("all").await?;
    let done = stage.deploy(&["WorkerTag=gpu", "Architecture=x86_64"]).await?;
    assert!(done.is_done(), "{done:?}");
    let [build, sam, mode] = done.calls.as_slice() else {
        panic!("{done:?}");
    };
    assert!(
        build.starts_with("cargo lambda build --release --locked --x86-64 --output-format zip --lambda-dir "),
        "{build}"
    );
    assert!(build.contains("--package flow"), "{build}");
    for function in ["orchestrator", "worker", "maintenance", "api"] {
        assert!(build.contains(&format!("--bin {function}")), "{build}");
    }
    assert!(!build.contains("gpu-worker"), "only what is deployed is built: {build}");
    for said in ["database duroxide: created", "workflows: as expected"] {
        assert!(done.said().contains(said), "{done:?}");
    }
    assert!(sam.starts_with("sam deploy "), "{sam}");
    for argument in ["--stack-name flow", "--resolve-s3", "--capabilities CAPABILITY_IAM"] {
        assert!(sam.contains(argument), "{sam}");
    }
    assert!(!sam.contains("NAMED_IAM") && !sam.contains(&stage.key) && !build.contains(&stage.key));
    assert_eq!(mode, "700");
    let endpoint = stage.server.listener().endpoint();
    let expected = [
        ("Architecture", "x86_64"),
        ("CosmosContainer", "workflows"),
        ("CosmosDatabase", "duroxide"),
        ("CosmosEndpoint", &endpoint),
        ("CosmosKey", &stage.key),
        ("CosmosKeySecretArn", ""),
        ("CosmosTenantId", ""),
        ("CosmosClientId", ""),
        ("CosmosClientSecretArn", ""),
        ("WorkerTag", "gpu"),
    ];
    assert_eq!(stage.handed().await?, parameters(&expected));
    // Nothing that is kept holds the key.
    let record = stage.project.join(".duroxide/deploy/flow/1");
    assert!(record.join("orchestrator.zip").is_file() && record.join("template.json").is_file());
    assert!(!fs::read_to_string(record.join("deployment.json"))?.contains(&stage.key));
    Ok(())
}

/// sam repeats the last value of what is not given: what must agree with an archive or another parameter is given always.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam from PyPI"]
async fn a_stack_is_deployed_again_as_it_was_and_its_key_can_move_both_ways() -> Result<()> {
    let stage = Stage::set("again").await?;
    let template = Template::read(&parameters(&[])).await?;
    let given = format!("CosmosKeySecretArn={SECRET}");
    let other = [
        ("Architecture", "x86_64"),
        ("CosmosDatabase", "db"),
        ("CosmosContainer", "flows"),
    ];
    let made = [("CosmosKey", "****"), ("CosmosKeySecretArn", "")];
    let own = [("CosmosKey", ""), ("CosmosKeySecretArn", SECRET)];
    let key = stage.key.as_str();
    for (deployed, arguments, expected) in [
        (None, &[] as &[&str], ["arm64", key, "", "duroxide/workflows"]),
        (None, &[&given], ["arm64", "", SECRET, "duroxide/workflows"]),
        (Some(&other[..]), &[], ["x86_64", key, "", "db/flows"]),
        (
            Some(&other[..]),
            &["Architecture=arm64"],
            ["arm64", key, "", "db/flows"],
        ),
        (Some(&made[..]), &[], ["arm64", key, "", "duroxide/workflows"]),
        (Some(&made[..]), &[&given], ["arm64", "", SECRET, "duroxide/workflows"]),
        (Some(&own[..]), &[], ["arm64", "", SECRET, "duroxide/workflows"]),
        (
            Some(&own[..]),
            &["CosmosKeySecretArn="],
            ["arm64", key, "", "duroxide/workflows"],
        ),
    ] {
        stage.deployed(deployed)?;
        let done = stage.deploy(arguments).await?;
        assert!(done.is_done(), "{deployed:?} {arguments:?}: {done:?}");
        let handed = stage.handed().await?;
        let of = |name: &str| handed.get(name).map(String::as_str);
        let [architecture, key, secret, container] = expected;
        assert_eq!(
            [of("Architecture"), of("CosmosKey"), of("CosmosKeySecretArn")],
            [Some(architecture), Some(key), Some(secret)],
            "{deployed:?} {arguments:?}"
        );
        let flag = format!("--{} ", architecture.replace('_', "-"));
        assert!(done.calls[0].contains(&flag), "{done:?}");
        assert!(done.said().contains(&format!("container {container}: as expected")));
        let named = [of("CosmosDatabase"), of("CosmosContainer")].map(Option::unwrap_or_default);
        assert_eq!(named.join("/"), container);
        assert_eq!(
            stage.refused(&template, &handed),
            Vec::<String>::new(),
            "{deployed:?} {arguments:?}"
        );
    }
    Ok(())
}

/// A person with a token verifies the container; the functions have an application, which stays until another way is given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam from PyPI"]
async fn a_stack_can_be_deployed_without_a_key_and_move_between_the_ways() -> Result<()> {
    let stage = Stage::set("keyless").await?;
    let template = Template::read(&parameters(&[])).await?;
    let (tenant, client) = (format!("CosmosTenantId={TENANT}"), format!("CosmosClientId={CLIENT}"));
    let issued = stage.server.tokens().issue(HOUR);
    let missing = stage
        .deploy_with(&[&tenant, &client], &[("COSMOS_TOKEN", &issued)])
        .await?;
    assert_eq!(
        missing.output.status.code(),
        Some(3),
        "a token creates nothing: {missing:?}"
    );
    assert!(missing.calls.is_empty(), "nothing was built: {missing:?}");
    assert!(stage.deploy(&[]).await?.is_done());

    let with_key = [("COSMOS_KEY", stage.key.as_str())];
    let token = [("COSMOS_TOKEN", issued.as_str())];
    let given = format!("CosmosKeySecretArn={SECRET}");
    let last = [
        ("CosmosTenantId", TENANT),
        ("CosmosClientId", CLIENT),
        ("CosmosClientSecretArn", SECRET),
    ];
    let own = [("CosmosKey", ""), ("CosmosKeySecretArn", SECRET)];
    for (deployed, arguments, env, expected) in [
        (
            None,
            &[tenant.as_str(), &client] as &[&str],
            &token,
            [TENANT, CLIENT, "", "", ""],
        ),
        (Some(&last[..]), &[], &token, [TENANT, CLIENT, SECRET, "", ""]),
        (
            Some(&last[..]),
            &["CosmosClientSecretArn="],
            &token,
            [TENANT, CLIENT, "", "", ""],
        ),
        (Some(&last[..]), &[&given], &token, ["", "", "", SECRET, ""]),
        (
            Some(&last[..]),
            &["CosmosClientId="],
            &with_key,
            ["", "", "", "", &stage.key],
        ),
        (
            Some(&own[..]),
            &[&tenant, &client],
            &with_key,
            [TENANT, CLIENT, "", "", ""],
        ),
        (Some(&own[..]), &[], &token, ["", "", "", SECRET, ""]),
    ] {
        stage.deployed(deployed)?;
        let done = stage.deploy_with(arguments, env).await?;
        assert!(done.is_done(), "{deployed:?} {arguments:?}: {done:?}");
        let handed = stage.handed().await?;
        let names = [
            "CosmosTenantId",
            "CosmosClientId",
            "CosmosClientSecretArn",
            "CosmosKeySecretArn",
            "CosmosKey",
        ];
        let found = names.map(|name| handed.get(name).map(String::as_str));
        assert_eq!(found, expected.map(Some), "{deployed:?} {arguments:?}");
        assert_eq!(
            stage.refused(&template, &handed),
            Vec::<String>::new(),
            "{deployed:?} {arguments:?}"
        );
    }
    Ok(())
}

/// CloudFormation takes no change of a stack whose first creation failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam from PyPI"]
async fn the_remains_of_a_failed_creation_are_deleted_before_the_next() -> Result<()> {
    let stage = Stage::set("failed").await?;
    let with = [("Architecture", "x86_64"), ("CosmosKeySecretArn", SECRET)];
    for (status, deletes) in [("ROLLBACK_COMPLETE", true), ("REVIEW_IN_PROGRESS", false)] {
        stage.programs.describe(status, &with, &[])?;
        let done = stage.deploy(&[]).await?;
        assert!(done.is_done(), "{done:?}");
        let expected = [
            "aws cloudformation delete-stack --stack-name flow",
            "aws cloudformation wait stack-delete-complete --stack-name flow",
        ];
        let before = done.calls.iter().skip(1).take_while(|call| !call.starts_with("sam"));
        let before: Vec<&String> = before.collect();
        assert_eq!(before, if deletes { &expected[..] } else { &[] }, "{status}");
        let handed = stage.handed().await?;
        assert_eq!(
            (handed["Architecture"].as_str(), handed["CosmosKeySecretArn"].as_str()),
            ("arm64", "")
        );
    }
    stage.programs.describe("UPDATE_ROLLBACK_COMPLETE", &with, &[])?;
    let done = stage.deploy(&[]).await?;
    assert!(!done.calls.iter().any(|call| call.contains("delete")), "{done:?}");
    assert_eq!(stage.handed().await?["Architecture"], "x86_64");
    Ok(())
}

/// Without an answer it would deploy by guesses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the command line"]
async fn the_command_stops_when_the_stack_cannot_be_described() -> Result<()> {
    let stage = Stage::set("denied").await?;
    for why in [
        "AccessDenied: not you",
        "Error loading SSO Token: Token for flow does not exist",
    ] {
        let denied = format!("echo '{why}' >&2; exit 254");
        stage.programs.program("aws", "/usr/bin/env bash", &denied)?;
        let refused = stage.deploy(&[]).await?;
        assert!(!refused.is_done() && refused.said().contains(why), "{refused:?}");
        assert!(refused.calls.is_empty(), "{refused:?}");
    }
    Ok(())
}

/// It would replace all that the stack has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the command line"]
async fn a_stack_of_somebody_else_is_neither_deployed_nor_deleted() -> Result<()> {
    let stage = Stage::set("foreign").await?;
    let foreign = stack("flow", "CREATE_COMPLETE", &[("Stage", "production")], &[]);
    fs::write(stage.programs.file("stack"), foreign.to_string())?;
    for arguments in [&[] as &[&str], &["destroy", "--yes"]] {
        let refused = stage.deploy(arguments).await?;
        let said = refused.said();
        assert!(
            !refused.is_done() && said.contains("none of duroxide-lambda"),
            "{refused:?}"
        );
        assert!(refused.calls.is_empty(), "{refused:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the command line"]
async fn a_deployment_that_is_stopped_leaves_no_key_and_no_program_behind() -> Result<()> {
    let stage = Stage::set("stopped").await?;
    let sam = r#"grep -rqs CosmosKey= "$TMPDIR" && echo "the key was there" >> "$CALLS"
kill -TERM $PPID
exec sleep 600"#;
    stage.programs.program("sam", "/usr/bin/env bash", sam)?;
    let temporary = stage.programs.file("temporary");
    fs::create_dir(&temporary)?;
    let place = temporary.display().to_string();
    let env = [("COSMOS_KEY", stage.key.as_str()), ("TMPDIR", place.as_str())];
    let begun = Instant::now();
    let stopped = stage.deploy_with(&[], &env).await?;
    assert!(begun.elapsed() < HOUR / 12, "it waited for sam");
    assert_eq!(stopped.output.status.code(), Some(130), "{stopped:?}");
    assert!(stopped.said().contains("CloudFormation"), "{stopped:?}");
    assert_eq!(stopped.calls.last().map(String::as_str), Some("the key was there"));
    let left: Vec<_> = fs::read_dir(&temporary)?.collect();
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the command line"]
async fn the_command_stops_before_building_when_the_container_differs() -> Result<()> {
    let stage = Stage::set("differs").await?;
    let key = StaticKey::new(Key::from_base64(&stage.key)?);
    let client = CosmosClient::new(ClientConfig::new(&stage.server.listener().endpoint(), key)?);
    client.ensure_database("duroxide", None).await?;
    let mut spec = container_spec("workflows", Throughput::Serverless);
    spec.default_ttl = None;
    client.ensure_container("duroxide", &spec).await?;
    let refused = stage.deploy(&[]).await?;
    assert_eq!(refused.output.status.code(), Some(3), "{refused:?}");
    assert!(refused.said().contains("defaultTtl is not set"), "{refused:?}");
    assert!(refused.calls.is_empty(), "nothing was built: {refused:?}");
    Ok(())
}

/// Two stacks with one container would each serve the instances of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the command line"]
async fn a_container_of_another_stack_is_refused() -> Result<()> {
    let stage = Stage::set("shared").await?;
    let endpoint = format!("{}/", stage.server.listener().endpoint());
    let used = [
        ("CosmosEndpoint", endpoint.as_str()),
        ("CosmosDatabase", "duroxide"),
        ("CosmosContainer", "workflows"),
    ];
    let other = stack("invoices", "UPDATE_COMPLETE", &used, &[]);
    fs::write(stage.programs.file("stacks"), other.to_string())?;
    let refused = stage.deploy(&[]).await?;
    assert!(!refused.is_done() && refused.calls.is_empty(), "{refused:?}");
    assert!(
        refused.said().contains("the stack 'invoices' uses the container"),
        "{refused:?}"
    );
    let shared = stage.deploy(&["--share-container"]).await?;
    assert!(shared.is_done(), "{shared:?}");
    let env = [("COSMOS_KEY", stage.key.as_str()), ("COSMOS_CONTAINER", "orders")];
    stage.deployed(None)?;
    let own = stage.deploy_with(&[], &env).await?;
    assert!(own.is_done(), "{own:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the command line"]
async fn the_command_reports_mistakes_before_it_calls_anything() -> Result<()> {
    let stage = Stage::set("mistakes").await?;
    let key = [("COSMOS_KEY", stage.key.as_str())];
    let both = [key[0], ("COSMOS_TOKEN", "a.b.c")];
    let empty = [key[0], ("COSMOS_ENDPOINT", "")];
    let throughput = [key[0], ("COSMOS_THROUGHPUT", "lots")];
    let long = "long".repeat(13);
    for (arguments, env, message) in [
        (&["--stack", &long] as &[&str], &key[..], "at most 50 letters"),
        (&[], &[], "COSMOS_KEY is not set and COSMOS_TOKEN is not set"),
        (&[], &both, "keep one"),
        (&[], &empty, "COSMOS_ENDPOINT is not set"),
        (&[], &throughput, "COSMOS_THROUGHPUT cannot be used"),
        (&["--guided"], &key, "unexpected argument"),
        (&["flow"], &key, "not of the form"),
        (&["CosmosKey=abc"], &key, "is taken from the environment"),
        (&["Architecture=arm"], &key, "arm64 or x86_64"),
        (&["LogLevel=it's"], &key, "LogLevel contains a quote"),
        (&["WorkerTimout=60"], &key, "no parameter WorkerTimout"),
        (&["--rollback"], &key, "no deployment to go back from"),
        (&["destroy"], &key, "there is no stack 'flow'"),
        (&["outputs"], &key, "there is no stack 'flow'"),
    ] {
        let refused = stage.deploy_with(arguments, env).await?;
        assert!(
            !refused.is_done() && refused.said().contains(message),
            "{arguments:?}: {refused:?}"
        );
        assert!(refused.calls.is_empty(), "{refused:?}");
    }
    for (file, message) in [
        (
            "[functions]\nworker = \"wurker\"",
            "it has: api, gpu-worker, maintenance",
        ),
        ("[functions.tagged]\ndefault = \"worker\"", "activities without a tag"),
        ("[deploy]\noverlay = \"none.yaml\"", "none.yaml cannot be read"),
    ] {
        let project = stage.programs.project("wrong", file)?;
        let endpoint = stage.server.listener().endpoint();
        let env = [key[0], ("COSMOS_ENDPOINT", endpoint.as_str())];
        let refused = stage.programs.deploy(&project, &[], &env).await?;
        assert!(
            !refused.is_done() && refused.said().contains(message) && refused.calls.is_empty(),
            "{refused:?}"
        );
    }
    let outside = stage.programs.deploy(std::path::Path::new("/"), &[], &key).await?;
    assert!(outside.said().contains("duroxide-lambda.toml"), "{outside:?}");
    Ok(())
}
