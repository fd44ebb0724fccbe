//! `infra/aws/deploy.sh`, with programs in the place of `cargo`, `sam` and `aws` that write down how they were called.

use crate::parameters::refusals;
use crate::template::{CLIENT, Parameters, TENANT, Template, parameters, root, run, script};
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use tests::real::{Venv, target_dir};

const SECRET: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:key-AbCdEf";

/// As the AWS CLI: answers what is asked for of the stack in the file `stack`, as text. Other calls are written down.
const AWS: &str = "
import json, os, sys, jmespath
at = os.path.join(os.path.dirname(sys.argv[0]), 'stack')
if 'describe-stacks' not in sys.argv:
    print('aws', *sys.argv[1:], file=open(os.environ['CALLS'], 'a'))
    sys.exit(0)
if not os.path.exists(at):
    sys.exit('An error occurred (ValidationError) when calling the DescribeStacks operation: Stack with id flow does not exist')
for row in jmespath.search(sys.argv[sys.argv.index('--query') + 1], {'Stacks': [json.load(open(at))]}):
    print('\\t'.join(row))";

/// A directory of programs, and what they wrote.
struct Stage {
    directory: PathBuf,
    venv: Venv,
}

impl Stage {
    /// `store` is the exit code of `cargo run --package store`.
    async fn set(name: &str, store: u8) -> Result<Stage> {
        let directory = target_dir()?
            .join("tmp")
            .join(format!("deploy-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let venv = Venv::sam().await?;
        let stage = Stage { directory, venv };
        let shell = "/usr/bin/env bash";
        stage.program(
            "cargo",
            shell,
            &format!(
                "echo \"cargo $*\" >> \"$CALLS\"\n\
                 if [[ $1 == run ]]; then echo \"$COSMOS_DATABASE/$COSMOS_CONTAINER\" >> \"$CALLS\"; exit {store}; fi"
            ),
        )?;
        stage.program("cargo-lambda", shell, "exit 1")?;
        stage.program(
            "sam",
            shell,
            "echo \"sam $*\" >> \"$CALLS\"\nwhile [[ $1 != --config-file ]]; do shift; done\n\
             stat -c %a \"$(dirname \"$2\")\" >> \"$CALLS\"\ncp \"$2\" \"$(dirname \"$CALLS\")/settings.toml\"",
        )?;
        stage.program("aws", &stage.venv.python().display().to_string(), AWS)?;
        Ok(stage)
    }

    fn program(&self, name: &str, interpreter: &str, body: &str) -> Result<()> {
        let path = self.directory.join(name);
        fs::write(&path, format!("#!{interpreter}\n{body}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// A stack that was deployed with these parameters, or none.
    fn deployed(&self, with: Option<&[(&str, &str)]>) -> Result<()> {
        self.left("UPDATE_COMPLETE", with)
    }

    /// The same, in this state.
    fn left(&self, status: &str, with: Option<&[(&str, &str)]>) -> Result<()> {
        let at = self.directory.join("stack");
        let Some(with) = with else {
            // There may be none.
            fs::remove_file(at).ok();
            return Ok(());
        };
        let pair = |(name, value): &(&str, &str)| json!({"ParameterKey": name, "ParameterValue": value});
        let parameters: Vec<Value> = with.iter().map(pair).collect();
        let stack = json!({"StackName": "flow", "StackStatus": status, "Parameters": parameters});
        Ok(fs::write(at, serde_json::to_vec(&stack)?)?)
    }

    fn deploy(&self, arguments: &[&str], env: &[(&str, &str)]) -> Result<(Output, Vec<String>)> {
        let calls = self.directory.join("calls");
        fs::write(&calls, "")?;
        let output = Command::new(root().join("infra/aws/deploy.sh"))
            .args(arguments)
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.directory.display()))
            .env("CALLS", &calls)
            .envs(env.iter().copied())
            .output()?;
        let called = fs::read_to_string(&calls)?;
        Ok((output, called.lines().map(str::to_owned).collect()))
    }

    /// What the last deployment handed over, as sam reads it; parameters that keep their last value are left out.
    fn handed(&self) -> Result<Parameters> {
        let mut python = Command::new(self.venv.python());
        python
            .arg(script("handed.py"))
            .arg(self.directory.join("settings.toml"))
            .arg("infra/aws/template.yaml");
        let handed: BTreeMap<String, Value> = serde_json::from_slice(&run(&mut python, b"")?)?;
        let given = handed.into_iter().filter(|(_, value)| !value.is_null());
        Ok(given
            .map(|(name, value)| (name, crate::template::text(&value)))
            .collect())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // It lies below the target directory: what is left does no harm.
        fs::remove_dir_all(&self.directory).ok();
    }
}

/// A key of the right form.
fn key() -> String {
    parameters(&[])["CosmosKey"].clone()
}

fn account(key: &str) -> [(&str, &str); 2] {
    [
        ("COSMOS_ENDPOINT", "https://acct.documents.azure.com"),
        ("COSMOS_KEY", key),
    ]
}

#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn the_script_builds_verifies_the_container_and_deploys() -> Result<()> {
    let stage = Stage::set("all", 0).await?;
    let key = key();
    let (output, calls) = stage.deploy(&["flow", "WorkerTag=gpu", "Architecture=x86_64"], &account(&key))?;
    assert!(output.status.success(), "{output:?}");
    let [build, store, of, sam, mode] = calls.as_slice() else {
        panic!("{calls:?}");
    };
    assert!(
        build.starts_with(
            "cargo lambda build --release --locked --x86-64 --output-format zip --lambda-dir target/lambda "
        ),
        "{build}"
    );
    for function in ["orchestrator", "worker", "maintenance", "api"] {
        assert!(build.contains(&format!("--package {function}")), "{build}");
    }
    assert!(
        store.ends_with("--package provision -- ensure --throughput serverless"),
        "{store}"
    );
    assert_eq!(of, "duroxide/workflows");
    assert!(
        sam.starts_with("sam deploy ") && sam.contains("--stack-name flow --resolve-s3"),
        "{sam}"
    );
    assert!(!sam.contains(&key) && !store.contains(&key), "the key is no argument");
    assert_eq!(mode, "700");
    let expected = [
        ("Architecture", "x86_64"),
        ("CosmosContainer", "workflows"),
        ("CosmosDatabase", "duroxide"),
        ("CosmosEndpoint", "https://acct.documents.azure.com"),
        ("CosmosKey", &key),
        ("CosmosKeySecretArn", ""),
        ("CosmosTenantId", ""),
        ("CosmosClientId", ""),
        ("CosmosClientSecretArn", ""),
        ("WorkerTag", "gpu"),
    ];
    assert_eq!(stage.handed()?, parameters(&expected));
    Ok(())
}

/// sam repeats the last value of what is not given: what must agree with an archive or another parameter is given always.
#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn a_stack_is_deployed_again_as_it_was_and_its_key_can_move_both_ways() -> Result<()> {
    let stage = Stage::set("again", 0).await?;
    let template = Template::read(&parameters(&[])).await?;
    let key = key();
    let given = format!("CosmosKeySecretArn={SECRET}");
    let other = [
        ("Architecture", "x86_64"),
        ("CosmosDatabase", "db"),
        ("CosmosContainer", "flows"),
    ];
    let made = [("CosmosKey", "****"), ("CosmosKeySecretArn", "")];
    let own = [("CosmosKey", ""), ("CosmosKeySecretArn", SECRET)];
    for (deployed, arguments, expected) in [
        (None, &["flow"] as &[&str], ["arm64", &key, "", "duroxide/workflows"]),
        (None, &["flow", &given], ["arm64", "", SECRET, "duroxide/workflows"]),
        (Some(&other[..]), &["flow"], ["x86_64", &key, "", "db/flows"]),
        (
            Some(&other[..]),
            &["flow", "Architecture=arm64"],
            ["arm64", &key, "", "db/flows"],
        ),
        (Some(&made[..]), &["flow"], ["arm64", &key, "", "duroxide/workflows"]),
        (
            Some(&made[..]),
            &["flow", &given],
            ["arm64", "", SECRET, "duroxide/workflows"],
        ),
        (Some(&own[..]), &["flow"], ["arm64", "", SECRET, "duroxide/workflows"]),
        (
            Some(&own[..]),
            &["flow", "CosmosKeySecretArn="],
            ["arm64", &key, "", "duroxide/workflows"],
        ),
    ] {
        stage.deployed(deployed)?;
        let (output, calls) = stage.deploy(arguments, &account(&key))?;
        assert!(output.status.success(), "{deployed:?} {arguments:?}: {output:?}");
        let handed = stage.handed()?;
        let of = |name: &str| handed.get(name).map(String::as_str);
        let [architecture, key, secret, container] = expected;
        assert_eq!(
            [of("Architecture"), of("CosmosKey"), of("CosmosKeySecretArn")],
            [Some(architecture), Some(key), Some(secret)],
            "{deployed:?} {arguments:?}"
        );
        let flag = format!("--{} ", architecture.replace('_', "-"));
        assert!(calls[0].contains(&flag) && calls[2] == container, "{calls:?}");
        let named = [of("CosmosDatabase"), of("CosmosContainer")].map(Option::unwrap_or_default);
        assert_eq!(named.join("/"), container);
        assert_eq!(
            refusals(&template, &handed),
            Vec::<String>::new(),
            "{deployed:?} {arguments:?}"
        );
    }
    Ok(())
}

/// A person with a token verifies the container; the functions have an application, which stays until another way is given.
#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn a_stack_can_be_deployed_without_a_key_and_move_between_the_ways() -> Result<()> {
    let stage = Stage::set("keyless", 0).await?;
    let template = Template::read(&parameters(&[])).await?;
    let key = key();
    let with_key = account(&key);
    let token = [with_key[0], ("COSMOS_TOKEN", "a.b.c")];
    let (tenant, client) = (format!("CosmosTenantId={TENANT}"), format!("CosmosClientId={CLIENT}"));
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
            &["flow", &tenant, &client] as &[&str],
            &token,
            [TENANT, CLIENT, "", "", ""],
        ),
        (Some(&last[..]), &["flow"], &token, [TENANT, CLIENT, SECRET, "", ""]),
        (
            Some(&last[..]),
            &["flow", "CosmosClientSecretArn="],
            &token,
            [TENANT, CLIENT, "", "", ""],
        ),
        (Some(&last[..]), &["flow", &given], &token, ["", "", "", SECRET, ""]),
        (
            Some(&last[..]),
            &["flow", "CosmosClientId="],
            &with_key,
            ["", "", "", "", &key],
        ),
        (
            Some(&own[..]),
            &["flow", &tenant, &client],
            &with_key,
            [TENANT, CLIENT, "", "", ""],
        ),
        (Some(&own[..]), &["flow"], &token, ["", "", "", SECRET, ""]),
    ] {
        stage.deployed(deployed)?;
        let (output, calls) = stage.deploy(arguments, env)?;
        assert!(output.status.success(), "{deployed:?} {arguments:?}: {output:?}");
        let handed = stage.handed()?;
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
            refusals(&template, &handed),
            Vec::<String>::new(),
            "{deployed:?} {arguments:?}"
        );
        let verifies = calls[1].ends_with("--package provision -- verify");
        assert_eq!(
            verifies,
            env[1].0 == "COSMOS_TOKEN",
            "a token creates nothing: {}",
            calls[1]
        );
    }
    Ok(())
}

/// CloudFormation takes no change of a stack whose first creation failed.
#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn the_remains_of_a_failed_creation_are_deleted_before_the_next() -> Result<()> {
    let stage = Stage::set("failed", 0).await?;
    let with = [("Architecture", "x86_64"), ("CosmosKeySecretArn", SECRET)];
    for (status, deletes) in [("ROLLBACK_COMPLETE", true), ("REVIEW_IN_PROGRESS", false)] {
        stage.left(status, Some(&with))?;
        let (output, calls) = stage.deploy(&["flow"], &account(&key()))?;
        assert!(output.status.success(), "{output:?}");
        let expected = [
            "aws cloudformation delete-stack --stack-name flow",
            "aws cloudformation wait stack-delete-complete --stack-name flow",
        ];
        let before: Vec<&String> = calls
            .iter()
            .skip(3)
            .take_while(|call| !call.starts_with("sam"))
            .collect();
        assert_eq!(before, if deletes { &expected[..] } else { &[] }, "{status}");
        let handed = stage.handed()?;
        assert_eq!(
            (handed["Architecture"].as_str(), handed["CosmosKeySecretArn"].as_str()),
            ("arm64", "")
        );
    }
    stage.left("UPDATE_ROLLBACK_COMPLETE", Some(&with))?;
    let (_, calls) = stage.deploy(&["flow"], &account(&key()))?;
    assert!(!calls.iter().any(|call| call.contains("delete")), "{calls:?}");
    assert_eq!(stage.handed()?["Architecture"], "x86_64");
    Ok(())
}

/// Without an answer it would deploy by guesses.
#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn the_script_stops_when_the_stack_cannot_be_described() -> Result<()> {
    let stage = Stage::set("denied", 0).await?;
    stage.program("aws", "/usr/bin/env bash", "echo 'AccessDenied: not you' >&2; exit 254")?;
    let (output, calls) = stage.deploy(&["flow"], &account(&key()))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("AccessDenied: not you"),
        "{said}"
    );
    assert!(calls.is_empty(), "{calls:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn the_script_stops_before_deploying_when_the_container_differs() -> Result<()> {
    let stage = Stage::set("differs", 3).await?;
    let (output, calls) = stage.deploy(&["flow"], &account(&key()))?;
    assert_eq!(output.status.code(), Some(3));
    assert!(calls.len() == 3 && calls[0].contains("--arm64"), "{calls:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn the_script_reports_mistakes_before_it_calls_anything() -> Result<()> {
    let stage = Stage::set("mistakes", 0).await?;
    let key = key();
    let account = account(&key);
    let both = [account[0], account[1], ("COSMOS_TOKEN", "a.b.c")];
    for (arguments, env, message) in [
        (&[] as &[&str], &account[..], "the stack's name is missing"),
        (&["WorkerTag=gpu"], &account[..], "the stack's name is missing"),
        (&[&"long".repeat(13)], &account[..], "more than 50 characters"),
        (
            &["flow"],
            &account[..1],
            "COSMOS_KEY is not set and COSMOS_TOKEN is not set",
        ),
        (&["flow"], &both, "keep one"),
        (&["flow"], &account[1..], "COSMOS_ENDPOINT is not set"),
        (&["flow", "--guided"], &account[..], "not of the form"),
        (
            &["flow", "CosmosKey=abc"],
            &account[..],
            "is taken from the environment",
        ),
        (&["flow", "Architecture=arm"], &account[..], "arm64 or x86_64"),
        (&["flow", "LogLevel=it's"], &account[..], "LogLevel contains a quote"),
    ] {
        let (output, calls) = stage.deploy(arguments, env)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(message),
            "{arguments:?}: {said}"
        );
        assert!(calls.is_empty(), "{calls:?}");
    }
    Ok(())
}
