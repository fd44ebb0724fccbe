//! `infra/deploy.sh`, with programs in the place of `cargo` and `sam` that write down how they were called.

use crate::template::root;
use anyhow::Result;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use tests::real::target_dir;

const KEY: &str = "c2VjcmV0LXNlY3JldA==";

/// A directory of programs, and what they wrote.
struct Stage {
    directory: PathBuf,
}

impl Stage {
    /// `store` is the exit code of `cargo run --package store`.
    fn set(name: &str, store: u8) -> Result<Stage> {
        let directory = target_dir()?
            .join("tmp")
            .join(format!("deploy-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let stage = Stage { directory };
        stage.program(
            "cargo",
            &format!("echo \"cargo $*\" >> \"$CALLS\"\nif [[ $1 == run ]]; then exit {store}; fi"),
        )?;
        stage.program("cargo-lambda", "exit 1")?;
        stage.program(
            "sam",
            "echo \"sam $*\" >> \"$CALLS\"\nwhile [[ $1 != --config-file ]]; do shift; done\n\
             stat -c %a \"$(dirname \"$2\")\" >> \"$CALLS\"\ncat \"$2\" >> \"$CALLS\"",
        )?;
        Ok(stage)
    }

    fn program(&self, name: &str, body: &str) -> Result<()> {
        let path = self.directory.join(name);
        fs::write(&path, format!("#!/usr/bin/env bash\n{body}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    fn deploy(&self, arguments: &[&str], env: &[(&str, &str)]) -> Result<(Output, Vec<String>)> {
        let calls = self.directory.join("calls");
        fs::write(&calls, "")?;
        let output = Command::new(root().join("infra/deploy.sh"))
            .args(arguments)
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.directory.display()))
            .env("CALLS", &calls)
            .envs(env.iter().copied())
            .output()?;
        let called = fs::read_to_string(&calls)?;
        Ok((output, called.lines().map(str::to_owned).collect()))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // It lies below the target directory: what is left does no harm.
        fs::remove_dir_all(&self.directory).ok();
    }
}

fn account() -> [(&'static str, &'static str); 2] {
    [
        ("COSMOS_ENDPOINT", "https://acct.documents.azure.com"),
        ("COSMOS_KEY", KEY),
    ]
}

#[test]
fn it_builds_then_verifies_the_store_then_deploys() -> Result<()> {
    let stage = Stage::set("all", 0)?;
    let (output, calls) = stage.deploy(&["flow", "WorkerTag=gpu", "Architecture=x86_64"], &account())?;
    assert!(output.status.success(), "{output:?}");
    let [build, store, sam, mode, rest @ ..] = calls.as_slice() else {
        panic!("{calls:?}");
    };
    assert!(
        build.starts_with("cargo lambda build --release --locked --x86-64 --output-format zip"),
        "{build}"
    );
    for function in ["orchestrator", "worker", "maintenance"] {
        assert!(build.contains(&format!("--package {function}")), "{build}");
    }
    assert!(
        store.ends_with("--package store -- ensure --throughput serverless"),
        "{store}"
    );
    assert!(
        sam.starts_with("sam deploy ") && sam.contains("--stack-name flow --resolve-s3"),
        "{sam}"
    );
    assert!(!sam.contains(KEY) && !store.contains(KEY), "the key is no argument");
    assert_eq!(mode, "700");
    let settings = rest.join("\n");
    for part in [
        "CosmosEndpoint=\"https://acct.documents.azure.com\"",
        "CosmosDatabase=\"duroxide\"",
        "WorkerTag=\"gpu\"",
        &format!("CosmosKey=\"{KEY}\""),
    ] {
        assert!(settings.contains(part), "{settings}");
    }
    Ok(())
}

#[test]
fn a_store_that_differs_stops_it_before_anything_is_deployed() -> Result<()> {
    let stage = Stage::set("differs", 3)?;
    let (output, calls) = stage.deploy(&["flow"], &account())?;
    assert_eq!(output.status.code(), Some(3));
    assert!(calls.len() == 2 && calls[0].contains("--arm64"), "{calls:?}");
    Ok(())
}

#[test]
fn a_secret_that_exists_is_used_and_mistakes_are_told() -> Result<()> {
    let stage = Stage::set("mistakes", 0)?;
    let secret = "CosmosKeySecretArn=arn:aws:secretsmanager:eu-west-1:123456789012:secret:key-AbCdEf";
    let (output, calls) = stage.deploy(&["flow", secret], &account())?;
    let calls = calls.join("\n");
    assert!(
        output.status.success() && calls.contains("secret:key-AbCdEf") && !calls.contains(KEY),
        "{calls}"
    );
    for (arguments, env, told) in [
        (&[] as &[&str], &account()[..], "say the stack's name"),
        (&["WorkerTag=gpu"], &account()[..], "say the stack's name"),
        (&[&"long".repeat(13)], &account()[..], "more than 50 characters"),
        (&["flow"], &account()[..1], "COSMOS_KEY is not set"),
        (&["flow"], &account()[1..], "COSMOS_ENDPOINT is not set"),
        (&["flow", "--guided"], &account()[..], "not of the form"),
        (&["flow", "CosmosKey=abc"], &account()[..], "comes from the environment"),
        (&["flow", "Architecture=arm"], &account()[..], "arm64 or x86_64"),
        (&["flow", "LogLevel=it's"], &account()[..], "LogLevel has a quote"),
    ] {
        let (output, calls) = stage.deploy(arguments, env)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(told), "{arguments:?}: {said}");
        assert!(calls.is_empty(), "{calls:?}");
    }
    Ok(())
}
