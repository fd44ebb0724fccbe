//! Clients that others wrote: the examples of the documentation, a generated client, and schemathesis.

use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tests::api::{Options, Paused, Served};
use tests::real::{Node, Venv, target_dir};
use tokio::process::Command;

async fn sample() -> Served {
    Served::with(Options {
        workflows: (workflows::orchestrations(), workflows::activities()),
        ..Options::default()
    })
    .await
}

/// The example of the documentation in this language.
fn example(language: &str) -> Result<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api.md"))?;
    let begin = format!("```{language}\n");
    let code = text.split(&begin).nth(1).context("there is an example")?;
    Ok(code.split("\n```").next().unwrap_or_default().to_owned())
}

/// A directory of its own.
fn directory(name: &str) -> Result<PathBuf> {
    let path = target_dir()?
        .join("api-clients")
        .join(format!("{name}-{}", std::process::id()));
    if path.exists() {
        fs::remove_dir_all(&path)?;
    }
    fs::create_dir_all(&path)?;
    Ok(path)
}

/// The output of a program, which must succeed.
async fn output(command: &mut Command, served: &Served) -> Result<String> {
    command
        .env("API", &served.url)
        .env("NO_PROXY", "127.0.0.1")
        .kill_on_drop(true);
    let output = command.output().await.context("the program does not start")?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(output.status.success(), "{}\n{out}{err}", output.status);
    Ok(out)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: curl"]
async fn the_example_with_curl_works() -> Result<()> {
    let served = sample().await;
    let out = output(Command::new("sh").args(["-e", "-c", &example("sh")?]), &served).await?;
    ensure!(
        out.contains("\"repeated\":false") && out.contains("\"status\":\"Completed\""),
        "{out}"
    );
    ensure!(out.contains("\"instances\":[{\"instance\":\"order-7\""), "{out}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: Python"]
async fn the_example_in_python_works() -> Result<()> {
    let served = sample().await;
    let out = output(Command::new("python3").args(["-c", &example("python")?]), &served).await?;
    ensure!(out.starts_with("Completed "), "{out}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: Node, and TypeScript from npm"]
async fn the_example_in_typescript_works() -> Result<()> {
    let served = sample().await;
    let directory = directory("typescript")?;
    fs::write(directory.join("package.json"), "{\"type\": \"module\"}")?;
    fs::write(directory.join("example.ts"), example("typescript")? + "\n")?;
    let node = Node::ready().await?;
    let mut compiler = Command::new(node.tsc());
    compiler.args([
        "--strict", "--target", "es2022", "--module", "nodenext", "--types", "node",
    ]);
    compiler
        .arg("--typeRoots")
        .arg(node.root().join("node_modules/@types"))
        .arg("example.ts");
    output(compiler.current_dir(&directory), &served).await?;
    let out = output(Command::new("node").arg("example.js").current_dir(&directory), &served).await?;
    ensure!(out.starts_with("Completed "), "{out}");
    fs::remove_dir_all(directory)?;
    Ok(())
}

const GENERATED: &str = r#"
import os, sys
sys.path.insert(0, sys.argv[1])
from duroxide_lambda_client import Client
from duroxide_lambda_client.api.instances import get_instance, start
from duroxide_lambda_client.models import StartRequest, StartRequestTags, Started, Status

client = Client(base_url=os.environ["API"], timeout=60, raise_on_unexpected_status=True)
order = {
    "id": "order-10", "customer": "ada", "total_cents": 4500, "cooling_off_ms": 100,
    "lines": [{"sku": "tea", "quantity": 3}], "parcels": [{"address": "1 Analytical Row"}],
}
tags = StartRequestTags.from_dict({"customer": "ada"})
started = start.sync("fulfil-order", client=client, body=StartRequest(input_=order, tags=tags), idempotency_key="generated")
assert isinstance(started, Started), started
while True:
    instance = get_instance.sync(started.instance, client=client, wait=25)
    if instance.status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED):
        break
print(instance.status, instance.tags.to_dict())
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: openapi-python-client from PyPI"]
async fn a_generated_client_starts_a_workflow_and_waits_for_its_end() -> Result<()> {
    let venv = Venv::openapi_python_client().await?;
    let served = sample().await;
    let directory = directory("generated")?;
    let mut generate = Command::new(venv.program("openapi-python-client"));
    let url = format!("{}/v1/openapi.json", served.url);
    generate.args(["generate", "--meta", "none", "--overwrite", "--url", &url]);
    // It formats what it generates with a program of the same environment.
    let path = std::env::join_paths(
        [venv.directory()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )?;
    generate
        .env("PATH", path)
        .arg("--output-path")
        .arg(directory.join("duroxide_lambda_client"));
    let warnings = output(&mut generate, &served).await?;
    ensure!(
        !warnings.contains("Warning") && !warnings.contains("WARNING"),
        "{warnings}"
    );
    let mut run = Command::new(venv.python());
    let out = output(run.args(["-c", GENERATED]).arg(&directory), &served).await?;
    ensure!(out.trim() == "Completed {'customer': 'ada'}", "{out}");
    fs::remove_dir_all(directory)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: schemathesis from PyPI"]
async fn schemathesis_finds_no_failure_and_no_answer_that_is_not_documented() -> Result<()> {
    let venv = Venv::schemathesis().await?;
    // Waits take no time: it sends thousands of requests.
    let served = Served::with(Options {
        timer: Arc::new(Paused::default()),
        ..Options::default()
    })
    .await;
    for id in ["a", "b/1"] {
        served.site.started("Event", id, serde_json::json!(null)).await;
    }
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                  response_schema_conformance,negative_data_rejection";
    let mut command = Command::new(venv.program("schemathesis"));
    command.args(["run", "--checks", checks, "--phases", "examples,coverage,fuzzing"]);
    command.args([
        "--max-examples",
        "40",
        "--seed",
        "7",
        "--suppress-health-check",
        "all",
        "--no-color",
    ]);
    command.args(["--request-timeout", "60", "--generation-database", "none"]);
    command
        .arg(format!("{}/v1/openapi.json", served.url))
        .current_dir(target_dir()?);
    let out = output(&mut command, &served).await?;
    println!("{out}");
    Ok(())
}
