//! The local cloud as a process, with the real function binaries, and its client commands.

use super::{Process, build};
use crate::PATIENCE;
use crate::workload::assert_sound;
use anyhow::{Context, Result, ensure};
use duroxide::{Event, EventKind};
use local_cloud::Functions;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tokio::sync::OnceCell;

/// The binaries, as the tests were built.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// The command line.
    pub local: PathBuf,
    /// Cosmos DB.
    pub emulator: PathBuf,
    /// The functions.
    pub functions: Functions,
}

impl Binaries {
    /// Builds them once per test process.
    pub async fn built() -> Result<Binaries> {
        static BUILT: OnceCell<Binaries> = OnceCell::const_new();
        let built = BUILT.get_or_try_init(async || {
            let names = [
                "duroxide-lambda",
                "cosmos-emulator",
                "orchestrator",
                "worker",
                "maintenance",
                "api",
            ];
            let [local, emulator, orchestrator, worker, maintenance, api] = build(names).await?;
            let functions = Functions {
                orchestrator,
                worker,
                maintenance,
                api: Some(api),
            };
            anyhow::Ok(Binaries {
                local,
                emulator,
                functions,
            })
        });
        Ok(built.await?.clone())
    }

    /// `duroxide-lambda` with these arguments, and without what the test's own environment may say.
    pub fn local(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.local);
        command.args(arguments);
        for name in [
            "COSMOS_KEY",
            "DUROXIDE_LAMBDA_PROFILE",
            "DUROXIDE_LAMBDA_TOKEN",
            "DUROXIDE_LAMBDA_URL",
            "RUST_LOG",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// The binary of the HTTP API.
    pub fn api(&self) -> &Path {
        self.functions.api.as_deref().expect("it was built")
    }

    /// The same, of `demo` or `up`, which then need not build anything.
    pub fn with_functions(&self, arguments: &[&str]) -> Command {
        let mut command = self.local(arguments);
        command
            .arg("--orchestrator")
            .arg(&self.functions.orchestrator)
            .arg("--worker")
            .arg(&self.functions.worker)
            .arg("--maintenance")
            .arg(&self.functions.maintenance)
            .arg("--api")
            .arg(self.api());
        command
    }

    /// The same command line, with other functions.
    pub fn and(&self, functions: Functions) -> Binaries {
        Binaries {
            functions,
            ..self.clone()
        }
    }
}

/// A running `duroxide-lambda up`.
pub struct Up {
    /// The process.
    pub process: Process,
    /// The address of SQS and Lambda.
    pub endpoint: String,
    /// The address of the HTTP API.
    pub api: String,
    binaries: Binaries,
}

impl Up {
    /// Starts it on free ports.
    pub async fn start(binaries: &Binaries, arguments: &[&str]) -> Result<Up> {
        let mut command = binaries.with_functions(&["up", "--port", "0", "--cosmos-port", "0", "--quiet"]);
        command.args(arguments);
        Up::of(command, binaries).await
    }

    /// Starts it by this command.
    pub async fn of(mut command: Command, binaries: &Binaries) -> Result<Up> {
        let mut process = Process::spawn("local up", &mut command)?;
        let named = |name: &'static str| {
            move |line: &str| {
                let address = line.trim().strip_prefix(name)?;
                Some(address.trim().to_owned())
            }
        };
        let api = process.wait_for(PATIENCE, named("HTTP API")).await?;
        let endpoint = process.wait_for(PATIENCE, named("SQS and Lambda")).await?;
        Ok(Up {
            process,
            endpoint,
            api,
            binaries: binaries.clone(),
        })
    }

    /// A client command, and what it answered.
    pub fn client(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = self.binaries.local(arguments);
        command.env("DUROXIDE_LAMBDA_URL", &self.api);
        let output = command.output()?;
        Ok(output)
    }

    /// A command line of a shell that finds `duroxide-lambda`, and what it answered.
    pub fn shell(&self, line: &str) -> Result<Output> {
        let program = &self.binaries.local;
        let directory = program.parent().context("the program is in a directory")?;
        let mut paths = vec![directory.to_owned()];
        paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut command = Command::new("bash");
        command.args(["-euc", line]);
        command.env("PATH", std::env::join_paths(paths)?);
        command.env("DUROXIDE_LAMBDA_URL", &self.api);
        Ok(command.output()?)
    }

    /// A client command that must succeed, and its JSON.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        let output = self.client(&[arguments, &["--json"]].concat())?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?}: {}\n{said}", output.status);
        serde_json::from_slice(&output.stdout).with_context(|| format!("{arguments:?} is no JSON"))
    }

    /// Starts an order.
    pub fn place(&self, id: &str, cooling_off_ms: u64) -> Result<()> {
        let input = format!(
            r#"{{"id": "{id}", "customer": "ada", "total_cents": 4200, "cooling_off_ms": {cooling_off_ms},
                "lines": [{{"sku": "teapot", "quantity": 1}}],
                "parcels": [{{"address": "12 Mill Lane"}}, {{"address": "flaky"}}], "retry_delay_ms": 300}}"#
        );
        self.json(&["start", "fulfil-order", "--id", id, "--input", &input])?;
        Ok(())
    }

    /// Waits until an order has shipped, and fails unless its history is sound: each activity with one result, one charge.
    pub fn expect_shipped(&self, id: &str) -> Result<()> {
        let output = self.client(&["wait", id, "--timeout", "120", "--json"])?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success() && said.contains("shipped"),
            "{id}: {}\n{said}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        let history = self.json(&["history", id])?;
        let events: Vec<Event> = serde_json::from_value(history["events"].clone())?;
        assert_sound(id, &events);
        let charges = events.iter().filter(
            |event| matches!(&event.kind, EventKind::ActivityScheduled { name, .. } if name == workflows::CHARGE_CARD),
        );
        let charges = charges.count();
        ensure!(charges == 1, "{id} was charged {charges} times: {history}");
        Ok(())
    }

    /// What `/cloud/status` says.
    pub async fn status(&self) -> Result<Value> {
        let url = format!("{}/cloud/status", self.endpoint);
        let client = reqwest::Client::builder().no_proxy().build()?;
        let body = client.get(url).send().await?.bytes().await?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// The processes of the functions.
    pub async fn children(&self) -> Result<Vec<u32>> {
        let status = self.status().await?;
        let functions = status["functions"].as_object().context("there are functions")?;
        let mut pids = Vec::new();
        for function in functions.values() {
            for environment in function["environments"].as_array().context("they have environments")? {
                let pid = environment["pid"].as_u64().context("an environment has a process")?;
                pids.push(u32::try_from(pid)?);
            }
        }
        Ok(pids)
    }
}
