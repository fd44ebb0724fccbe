//! What Lambda reports when one of our functions fails.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_invocations_of_the_real_functions_have_stable_error_types() -> Result<()> {
    let binaries = Binaries::built().await?;
    let up = Up::start(&binaries, &[]).await?;
    let http = reqwest::Client::builder().no_proxy().build()?;
    for (function, event, part) in [
        ("maintenance", json!({"passes": ["everything"]}), "passes[0]"),
        ("orchestrator", json!({"source": "somebody"}), "event source mapping"),
        ("worker", json!([]), "event source mapping"),
    ] {
        let url = format!("{}/2015-03-31/functions/{function}/invocations", up.endpoint);
        let request = http.post(url).header("authorization", SIGNED).body(event.to_string());
        let answer: Value = serde_json::from_slice(&request.send().await?.bytes().await?)?;
        ensure!(answer["errorType"] == "InvalidEvent", "{function}: {answer}");
        let message = answer["errorMessage"].as_str().context("a message")?;
        ensure!(message.contains(part), "{function}: {answer}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_cannot_start_reports_its_configuration() -> Result<()> {
    let binaries = Binaries::built().await?;
    let mut command = binaries.with_functions(&["up", "--port", "0", "--cosmos-port", "0"]);
    command.args(["--env", "DUROXIDE_CONCURRENCY=none"]);
    let said = refused(command).await?;
    ensure!(said.contains("Configuration: "), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_limits_for_an_activity_that_it_does_not_register_does_not_start() -> Result<()> {
    let binaries = Binaries::built().await?;
    let mut command = binaries.with_functions(&["up", "--port", "0", "--cosmos-port", "0"]);
    command.args(["--env", "DUROXIDE_ACTIVITY_ATTEMPTS=Chrage=3"]);
    let said = refused(command).await?;
    ensure!(said.contains("`Chrage`") && said.contains("registered: "), "{said}");
    Ok(())
}
