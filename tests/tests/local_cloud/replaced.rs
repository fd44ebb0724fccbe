//! Functions that are replaced while they serve, as the development loop does after each build.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use duroxide_cosmos::InstanceStatus;
use duroxide_lambda::notifier::Sqs;
use duroxide_lambda::{Config, Connection};
use local_cloud::{Cloud, CloudOptions, Functions, ReplaceError};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const FUNCTION: &str = env!("CARGO_BIN_EXE_versions_function");
const INSTANCES: usize = 20;

/// A version of the functions: the same program, with the version's name at its end.
fn version(directory: &Path, name: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    // Another process writes it: see `script` of the tests of Lambda.
    let made = Command::new("sh")
        .args(["-c", "cp \"$0\" \"$1\" && printf %s \"VERSION:$2\" >> \"$1\""])
        .arg(FUNCTION)
        .arg(&path)
        .arg(name)
        .status()?;
    ensure!(made.success(), "{} cannot be made", path.display());
    Ok(path)
}

async fn connected(cloud: &Cloud) -> Result<Connection> {
    let get = |name: &str| cloud.variables().get(name).cloned();
    let config = Config::from_variables(get)?;
    let notifier = Arc::new(Sqs::from_variables(config.queues.clone(), get));
    Ok(Connection::new(config.cosmos_config(), notifier, config.limits.clone()).await?)
}

/// How often each step ran, by instance and step.
fn effects(directory: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(directory.join("effects")).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

fn processes(cloud: &Cloud, function: &str) -> Vec<u32> {
    let status = cloud.status();
    let environments = &status.functions[function].environments;
    environments.iter().map(|environment| environment.pid).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_are_replaced_while_twenty_instances_run_and_none_is_lost() -> Result<()> {
    let directory = fresh_directory("replaced")?;
    let (first, second) = (version(&directory, "first")?, version(&directory, "second")?);
    let mut options = CloudOptions::of(Functions {
        orchestrator: first.clone(),
        worker: first.clone(),
        maintenance: first.clone(),
        api: None,
    });
    let file = directory.join("effects").to_string_lossy().into_owned();
    options.variables.push(("EFFECTS".to_owned(), file));
    // No instance is past its second step when the functions are replaced.
    let hold = directory.join("effects.hold");
    std::fs::write(&hold, "")?;
    options.timeout = PATIENCE;
    let cloud = Cloud::start(options).await?;
    let connection = connected(&cloud).await?;
    for instance in 0..INSTANCES {
        let client = connection.client();
        client
            .start_orchestration(&format!("i-{instance}"), "Steps", "")
            .await?;
    }
    let is_second = |step: &String| step.ends_with(" 2");
    until("second steps run", || effects(&directory).keys().any(is_second)).await?;
    let old: Vec<u32> = ["worker", "orchestrator"]
        .iter()
        .flat_map(|name| processes(&cloud, name))
        .collect();
    cloud.replace("worker", &second).await?;
    cloud.replace("orchestrator", &second).await?;
    std::fs::remove_file(&hold)?;
    until_gone(&old).await?;

    until("the first three steps of all", || {
        effects(&directory).len() == INSTANCES * 3
    })
    .await?;
    for instance in 0..INSTANCES {
        let client = connection.client();
        client.enqueue_event(&format!("i-{instance}"), "go", "").await?;
    }
    let mut mixed = 0;
    for instance in 0..INSTANCES {
        let id = format!("i-{instance}");
        let mut summary = None;
        let begun = std::time::Instant::now();
        while summary.is_none() {
            let found = connection.store().instance_summary(&id).await?.context("it exists")?;
            ensure!(begun.elapsed() < PATIENCE, "it does not end: {found:#?}");
            summary = Some(found).filter(|found| found.status != InstanceStatus::Running);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let ended = connection.client().wait_for_orchestration(&id, PATIENCE).await?;
        let duroxide::OrchestrationStatus::Completed { output, .. } = ended else {
            anyhow::bail!("{id}: {ended:?}");
        };
        let versions: Vec<&str> = output.split(' ').collect();
        ensure!(versions.len() == 7, "{id}: {output}");
        ensure!(versions[3..] == ["second"; 4], "the new code is used: {id}: {output}");
        mixed += usize::from(versions.contains(&"first"));
    }
    ensure!(mixed > 0, "no instance went on across the replacement");
    let ran = effects(&directory);
    ensure!(
        ran.len() == INSTANCES * 6 && ran.values().all(|times| *times == 1),
        "each step once: {ran:?}"
    );
    for name in ["worker", "orchestrator"] {
        let counts = cloud.status().functions[name].counts;
        ensure!(counts.errors == 0, "{name}: {counts:?}");
    }
    cloud.shutdown().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invocation_under_way_ends_on_the_binary_on_which_it_began() -> Result<()> {
    let cloud = Arc::new(Cloud::start(CloudOptions::of(fake_functions())).await?);
    let [old] = processes(&cloud, "worker")[..] else {
        anyhow::bail!("one process is warm");
    };
    let invocation = tokio::spawn({
        let cloud = Arc::clone(&cloud);
        async move { invoke(&cloud, "worker", json!({"do": "sleep", "seconds": 2})).await }
    });
    until("it is under way", || {
        cloud.status().functions["worker"]
            .environments
            .iter()
            .any(|one| one.busy)
    })
    .await?;
    cloud.replace("worker", Path::new(FAKE_FUNCTION)).await?;
    let meanwhile = invoke(&cloud, "worker", json!({})).await?;
    ensure!(meanwhile["pid"] != old && meanwhile["served"] == 1, "{meanwhile}");
    let ended = invocation.await??;
    ensure!(ended["pid"] == old, "{ended}");
    until_gone(&[old]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binary_that_does_not_start_replaces_nothing() -> Result<()> {
    let cloud = Cloud::start(CloudOptions::of(fake_functions())).await?;
    let before = processes(&cloud, "worker");
    let missing = cloud.replace("worker", Path::new("/no/such/binary")).await;
    ensure!(matches!(missing, Err(ReplaceError::Binary { .. })), "{missing:?}");
    let ends = cloud.replace("worker", Path::new("/bin/true")).await;
    ensure!(matches!(ends, Err(ReplaceError::Start(_))), "{ends:?}");
    let unknown = cloud.replace("nobody", Path::new(FAKE_FUNCTION)).await;
    ensure!(matches!(unknown, Err(ReplaceError::Unknown(_))), "{unknown:?}");
    ensure!(processes(&cloud, "worker") == before, "the old process goes on");
    let answer = invoke(&cloud, "worker", json!({"text": "still here"})).await?;
    ensure!(answer["event"]["text"] == "still here", "{answer}");
    Ok(())
}
