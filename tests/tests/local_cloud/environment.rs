//! Functions run as they would be deployed: the same bytes, and variables that are known.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use duroxide_lambda::config::VARIABLES;
use std::collections::BTreeSet;

/// What Lambda sets besides `AWS_*`.
const LAMBDAS: [&str; 5] = ["LAMBDA_TASK_ROOT", "LANG", "PATH", "TZ", "_HANDLER"];
/// What the local cloud and its client read besides the functions' variables.
const OURS: [&str; 5] = [
    "DUROXIDE_LAMBDA_CONFIG",
    "DUROXIDE_LAMBDA_PROFILE",
    "DUROXIDE_LAMBDA_TOKEN",
    "DUROXIDE_LAMBDA_URL",
    "RUST_LOG",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_runs_the_deployable_binary_with_known_variables_only() -> Result<()> {
    let binaries = Binaries::built().await?;
    let mut command = binaries.with_functions(&["up", "--port", "0", "--cosmos-port", "0", "--quiet"]);
    command.args(["--env", "MY_OWN=yes"]);
    // As a deployment's file of variables sets them: how functions work is handed on, what they are there is not.
    command.env("DUROXIDE_MAX_ATTEMPTS", "7").env("WORKER_TAGS", "gpu");
    command.env("METRICS_NAMESPACE", "theirs");
    let up = Up::of(command, &binaries).await?;
    let deployed = [
        std::fs::read(&binaries.functions.orchestrator)?,
        std::fs::read(&binaries.functions.worker)?,
        std::fs::read(&binaries.functions.maintenance)?,
        std::fs::read(binaries.api())?,
    ];
    let children = up.children().await?;
    ensure!(children.len() >= 3, "{children:?}");
    for pid in children {
        let bytes = std::fs::read(format!("/proc/{pid}/exe"))?;
        ensure!(deployed.contains(&bytes), "{pid} is another program");
        let arguments = std::fs::read_to_string(format!("/proc/{pid}/cmdline"))?;
        ensure!(arguments.matches('\0').count() == 1, "no arguments: {arguments:?}");
        let environ = format!("\0{}", std::fs::read_to_string(format!("/proc/{pid}/environ"))?);
        ensure!(environ.contains("DUROXIDE_MAX_ATTEMPTS=7\0"), "{environ:?}");
        ensure!(!environ.contains("gpu") && !environ.contains("theirs"), "{environ:?}");
        for name in LAMBDAS.iter().chain(&["AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"]) {
            ensure!(environ.contains(&format!("\0{name}=")), "{name}: {environ:?}");
        }
        for variable in environ.split('\0').filter(|text| !text.is_empty()) {
            let (name, _) = variable.split_once('=').context("a variable has a value")?;
            let known = name.starts_with("AWS_")
                || LAMBDAS.contains(&name)
                || name == "MY_OWN"
                || VARIABLES.iter().any(|variable| variable.name == name);
            ensure!(
                known,
                "{name} is not among Lambda's, the configuration's or the user's variables"
            );
        }
    }
    Ok(())
}

#[test]
fn the_example_of_an_environment_file_lists_every_variable_and_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../.env.example");
    let text = std::fs::read_to_string(path).expect("there is an example");
    let mut listed = BTreeSet::new();
    for line in text.lines().filter(|line| line.contains('=')) {
        let line = line.trim_start_matches(['#', ' ']);
        if let Some((name, _)) = line.split_once('=')
            && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        {
            assert!(listed.insert(name.to_owned()), "{name} is listed twice");
        }
    }
    let read: BTreeSet<String> = VARIABLES
        .iter()
        .map(|variable| variable.name)
        .chain(OURS)
        .map(str::to_owned)
        .collect();
    assert_eq!(listed, read);
    for variable in VARIABLES {
        if let Some(default) = variable.default.filter(|default| !default.is_empty()) {
            let line = format!("{}={default}", variable.name);
            assert!(text.contains(&line), "the default of {}: {default}", variable.name);
        }
    }
}
