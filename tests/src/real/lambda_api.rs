//! `cargo lambda`'s local Lambda: functions fetch their invocations from it, tests invoke them through it.
//!
//! Several processes of one function serve that many invocations at once; one process serves one after the other. An
//! invocation of a function that is not running waits for it.
//!
//! It differs from Lambda in the deadline: the header always holds 600000, ten minutes as a duration, where Lambda sends
//! a point in time.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::build::target_dir;
use super::process::Process;
use super::venv::Venv;

const START: Duration = Duration::from_secs(60);
/// The longest that an invocation may take, waiting included; a function that was killed is noticed only by this.
const INVOKE: Duration = Duration::from_secs(60);
/// The most processes of one function that serve at once.
const CONCURRENCY: &str = "16";
const ATTEMPTS: u32 = 5;

/// A running local Lambda.
#[derive(Debug)]
pub struct LambdaApi {
    port: u16,
    http: reqwest::Client,
    _process: Process,
}

impl LambdaApi {
    /// Starts it for functions of these names; others do not exist for it.
    pub async fn start(venv: &Venv, functions: &[&str]) -> Result<LambdaApi> {
        let mut attempt = 1;
        loop {
            match LambdaApi::start_once(venv, functions).await {
                // Between choosing a free port and listening on it, another process may take it.
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                result => return result.with_context(|| format!("the Lambda API does not start, attempt {attempt}")),
            }
        }
    }

    async fn start_once(venv: &Venv, functions: &[&str]) -> Result<LambdaApi> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let project = target_dir()?.join("real-parts").join(format!("project-{port}"));
        write_project(&project, functions)?;
        let mut command = Command::new(venv.cargo_lambda());
        command
            .current_dir(&project)
            .args(["lambda", "watch", "--only-lambda-apis", "--invoke-address", "127.0.0.1"])
            .args(["--invoke-port", &port.to_string(), "--concurrency", CONCURRENCY])
            .args(["--timeout", &INVOKE.as_secs().to_string()])
            .env_remove("RUST_LOG");
        let mut process = Process::spawn("cargo lambda watch", &mut command)?;
        let started = |line: &str| line.contains("starting Runtime server").then_some(());
        process.wait_for(START, started).await?;
        let limit = Instant::now() + START;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > limit {
                bail!("cargo lambda watch does not listen\n{}", process.stderr().join("\n"));
            }
            if !process.is_running() {
                bail!("cargo lambda watch ended early\n{}", process.stderr().join("\n"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        fs::remove_dir_all(&project)?;
        let http = reqwest::Client::builder().no_proxy().timeout(INVOKE * 2).build()?;
        Ok(LambdaApi {
            port,
            http,
            _process: process,
        })
    }

    /// What `AWS_LAMBDA_RUNTIME_API` holds for a process of `function`: on Lambda it is only a host and port.
    pub fn runtime_api(&self, function: &str) -> String {
        format!("http://127.0.0.1:{}/.rt/{function}", self.port)
    }

    /// Invokes `function` and waits for its answer; an error that the function reports is an error here.
    pub async fn invoke(&self, function: &str, event: &Value) -> Result<Value> {
        let url = format!(
            "http://127.0.0.1:{}/2015-03-31/functions/{function}/invocations",
            self.port
        );
        let request = self.http.post(url).body(serde_json::to_vec(event)?);
        let response = request
            .send()
            .await
            .with_context(|| format!("{function} is not invoked"))?;
        let status = response.status();
        let body = response.bytes().await?;
        if !status.is_success() {
            bail!("{function} failed ({status}): {}", String::from_utf8_lossy(&body));
        }
        serde_json::from_slice(&body).with_context(|| format!("the answer of {function} is not JSON"))
    }
}

/// `cargo lambda watch` serves only the binaries of the Cargo project that it is started in: this one has their names.
fn write_project(project: &Path, functions: &[&str]) -> Result<()> {
    let mut manifest =
        "[workspace]\n[package]\nname = \"functions\"\nversion = \"0.0.0\"\nedition = \"2024\"\n".to_owned();
    for function in functions {
        manifest += &format!("[[bin]]\nname = \"{function}\"\npath = \"main.rs\"\n");
    }
    fs::create_dir_all(project)?;
    fs::write(project.join("Cargo.toml"), manifest)?;
    fs::write(project.join("main.rs"), "fn main() {}\n")?;
    Ok(())
}
