//! A local cloud in a process, its client commands, and its function processes.

use anyhow::{Context, Result, bail, ensure};
use duroxide::{Event, EventKind};
use local_cloud::Functions;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tests::real::{Process, build};
use tests::workload::assert_sound;

/// How long a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The binaries, built with the profile of the tests.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// The command line.
    pub cli: PathBuf,
    pub emulator: PathBuf,
    pub functions: Functions,
}

impl Binaries {
    pub async fn built() -> Result<Binaries> {
        let names = [
            "duroxide-lambda",
            "cosmos-emulator",
            "orchestrator",
            "worker",
            "maintenance",
        ];
        let [cli, emulator, orchestrator, worker, maintenance] = build(names).await?;
        Ok(Binaries {
            cli,
            emulator,
            functions: Functions {
                orchestrator,
                worker,
                maintenance,
            },
        })
    }

    /// `duroxide-lambda` with these arguments, without variables of the test's own environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.cli);
        command.args(arguments);
        for name in ["COSMOS_ENDPOINT", "COSMOS_KEY", "LOCAL_CLOUD", "RUST_LOG"] {
            command.env_remove(name);
        }
        command
    }

    /// The same for `demo` or `up`, with the function binaries.
    pub fn with_functions(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command
            .arg("--orchestrator")
            .arg(&self.functions.orchestrator)
            .arg("--worker")
            .arg(&self.functions.worker)
            .arg("--maintenance")
            .arg(&self.functions.maintenance);
        command
    }
}

/// A directory of this test's own, empty.
pub fn fresh_directory(name: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("local-cloud-{}-{name}", std::process::id()));
    if path.exists() {
        std::fs::remove_dir_all(&path)?;
    }
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

/// A running `duroxide-lambda up`.
pub struct Up {
    pub process: Process,
    pub endpoint: String,
    /// COSMOS_KEY for client commands.
    pub key: Option<String>,
    binaries: Binaries,
}

impl Up {
    /// Starts it on free ports.
    pub async fn start(binaries: &Binaries, arguments: &[&str]) -> Result<Up> {
        let mut command = binaries.with_functions(&["up", "--port", "0", "--cosmos-port", "0", "--quiet"]);
        command.args(arguments);
        Up::of(command, binaries).await
    }

    /// Starts it with this command.
    pub async fn of(mut command: Command, binaries: &Binaries) -> Result<Up> {
        let mut process = Process::spawn("duroxide-lambda up", &mut command)?;
        let endpoint = process
            .wait_for(PATIENCE, |line| {
                let address = line.trim().strip_prefix("SQS and Lambda")?;
                Some(address.trim().to_owned())
            })
            .await?;
        Ok(Up {
            process,
            endpoint,
            key: None,
            binaries: binaries.clone(),
        })
    }

    /// Runs a client command.
    pub fn client(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = self.binaries.command(arguments);
        command.env("LOCAL_CLOUD", &self.endpoint);
        command.envs(self.key.iter().map(|key| ("COSMOS_KEY", key)));
        let output = command.output()?;
        Ok(output)
    }

    /// Runs a client command that must succeed; returns its JSON.
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

    /// Waits until an order has shipped; its history must have one result of each activity and one charge.
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

    /// Reads `/cloud/status`.
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

/// Sends a signal.
pub fn signal(pid: u32, name: &str) -> Result<()> {
    // The builtin of the shell: not every machine has a `kill` program.
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status()?;
    ensure!(sent.success(), "{name} cannot be sent to {pid}");
    Ok(())
}

/// Whether a process exists and is not a zombie.
pub fn is_running(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

/// The state of a process in `/proc`: `T` is stopped.
pub fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Waits for a condition.
pub async fn until(what: &str, mut met: impl FnMut() -> bool) -> Result<()> {
    let limit = Instant::now() + PATIENCE;
    while !met() {
        if Instant::now() >= limit {
            bail!("not in time: {what}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Waits until these processes have ended.
pub async fn until_gone(pids: &[u32]) -> Result<()> {
    until("all function processes are gone", || {
        !pids.iter().any(|pid| is_running(*pid))
    })
    .await
}

/// Runs a command that must fail; returns its standard error.
pub async fn refused(mut command: Command) -> Result<String> {
    let mut process = Process::spawn("a command that must fail", &mut command)?;
    until("it fails", || !process.is_running()).await?;
    let code = process.exit_code();
    // The last lines may still be in the pipe.
    until("it says why", || {
        process.stderr().iter().any(|line| line.starts_with("error:"))
    })
    .await?;
    let said = process.stderr().join("\n");
    ensure!(code == Some(1), "{code:?} instead of 1\n{said}");
    Ok(said)
}

/// Writes an executable script.
///
/// Another process writes it: a file that is open for writing cannot be executed, and a child that another test forks
/// meanwhile would keep a file open that we opened here.
pub fn script(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    use std::io::Write as _;
    let path = directory.join(name);
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()?;
    let mut input = writer.stdin.take().context("its input is piped")?;
    input.write_all(text.as_bytes())?;
    drop(input);
    ensure!(writer.wait()?.success(), "{} cannot be written", path.display());
    Ok(path)
}
