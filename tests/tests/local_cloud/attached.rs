//! Functions whose process somebody else starts: in a debugger, for example.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use local_cloud::{Cloud, CloudError, CloudOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// A process of the test's own, killed on drop.
struct Debugged(Child);

impl Debugged {
    /// Starts the function with the variables that the cloud names.
    fn start(cloud: &Cloud) -> Result<Debugged> {
        let variables = cloud.attachment("worker").context("it is to be attached to")?;
        let mut command = Command::new(FAKE_FUNCTION);
        command.env_clear().envs(variables).stdout(Stdio::null());
        Ok(Debugged(command.spawn()?))
    }
}

impl Drop for Debugged {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

async fn cloud() -> Result<Arc<Cloud>> {
    let mut options = CloudOptions::of(fake_functions());
    options.attached.insert("worker".to_owned(), 0);
    options.timeout = Duration::from_millis(1500);
    Ok(Arc::new(Cloud::start(options).await?))
}

fn invoked(cloud: &Arc<Cloud>, event: Value) -> JoinHandle<Result<Value>> {
    let cloud = Arc::clone(cloud);
    tokio::spawn(async move { invoke(&cloud, "worker", event).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attached_process_serves_dies_and_another_one_goes_on() -> Result<()> {
    let cloud = cloud().await?;
    ensure!(cloud.attachment("orchestrator").is_none());
    let variables = cloud.attachment("worker").context("it is to be attached to")?;
    let lock = |variables: &BTreeMap<String, String>| variables["DUROXIDE_WORK_LOCK_SECONDS"].clone();
    ensure!(
        lock(&variables) == "600" && lock(cloud.variables()) == "15",
        "a breakpoint may be held longer than a lock of the others: {variables:?}"
    );
    let waiting = invoked(&cloud, json!({"text": "early"}));
    let status = cloud.status();
    ensure!(
        status.functions["worker"].environments.is_empty(),
        "no process was started"
    );
    let first = Debugged::start(&cloud)?;
    let answer = waiting.await??;
    ensure!(
        answer["event"]["text"] == "early" && answer["pid"] == first.0.id(),
        "{answer}"
    );

    let long = invoke(&cloud, "worker", json!({"do": "sleep", "seconds": 3})).await?;
    ensure!(
        long["pid"] == first.0.id(),
        "longer than the timeout, and not killed: {long}"
    );
    let left = long["left"].as_f64().context("a deadline")?;
    ensure!(left > 3_600_000.0, "there is time to look at a breakpoint: {left}");

    let lost = invoked(&cloud, json!({"do": "crash"}));
    let mut first = first;
    until("it dies", || matches!(first.0.try_wait(), Ok(Some(_)))).await?;
    let next = invoked(&cloud, json!({"text": "next"}));
    ensure!(!lost.is_finished() && !next.is_finished(), "nothing is attached");
    let second = Debugged::start(&cloud)?;
    let lost = lost.await??;
    ensure!(lost["errorType"] == "Runtime.NoAnswer", "{lost}");
    let next = next.await??;
    ensure!(
        next["event"]["text"] == "next" && next["pid"] == second.0.id(),
        "{next}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_attaches_takes_the_place_of_the_one_that_waits() -> Result<()> {
    let cloud = cloud().await?;
    let mut first = Debugged::start(&cloud)?;
    let answer = invoke(&cloud, "worker", json!({})).await?;
    ensure!(answer["pid"] == first.0.id(), "{answer}");
    let second = Debugged::start(&cloud)?;
    until("the first one ends", || matches!(first.0.try_wait(), Ok(Some(_)))).await?;
    for _ in 0..3 {
        let answer = invoke(&cloud, "worker", json!({})).await?;
        ensure!(answer["pid"] == second.0.id(), "{answer}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_functions_that_exist_can_be_attached_to() -> Result<()> {
    let mut options = CloudOptions::of(fake_functions());
    options.attached.insert("wroker".to_owned(), 0);
    let Err(error) = Cloud::start(options).await else {
        anyhow::bail!("there is no such function");
    };
    ensure!(matches!(error, CloudError::Unknown { .. }), "{error:?}");
    ensure!(error.to_string().contains("maintenance, api"), "{error}");
    Ok(())
}
