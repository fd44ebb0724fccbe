//! A local cloud as a process, its client commands, and the processes that it started.

use anyhow::{Result, bail, ensure};
use local_cloud::{Cloud, Functions};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tests::real::Process;
pub use tests::real::{Binaries, Up};

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// An `Authorization` as the AWS SDKs send it; the local cloud does not check whose.
pub const SIGNED: &str =
    "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/lambda/aws4_request, SignedHeaders=host, Signature=0";

/// What tests of the local cloud do with its binaries besides.
pub trait WithFake {
    /// `up` on free ports, with the fake function as orchestrator or worker.
    fn with_fake(&self, role: &str, behaviour: &str) -> Command;
}

impl WithFake for Binaries {
    fn with_fake(&self, role: &str, behaviour: &str) -> Command {
        let mut command = self.local(&["up", "--port", "0", "--cosmos-port", "0"]);
        command.args(["--env", &format!("BEHAVIOUR={behaviour}")]);
        for (name, binary) in [
            ("orchestrator", &self.functions.orchestrator),
            ("worker", &self.functions.worker),
            ("maintenance", &self.functions.maintenance),
        ] {
            let binary = if name == role { Path::new(FAKE_FUNCTION) } else { binary };
            command.arg(format!("--{name}")).arg(binary);
        }
        command.arg("--api").arg(self.api());
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

/// Sends a signal.
pub fn signal(pid: u32, name: &str) -> Result<()> {
    // The shell's own: not every machine has the program.
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status()?;
    ensure!(sent.success(), "{name} cannot be sent to {pid}");
    Ok(())
}

/// Whether a process is there, and no zombie.
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

/// Waits until none of these processes is left.
pub async fn until_gone(pids: &[u32]) -> Result<()> {
    until("all function processes are gone", || {
        !pids.iter().any(|pid| is_running(*pid))
    })
    .await
}

/// Runs a command that must fail, and answers what it said on standard error.
pub async fn refused(mut command: Command) -> Result<String> {
    let mut process = Process::spawn("a command that must fail", &mut command)?;
    until("it fails", || !process.is_running()).await?;
    let code = process.exit_code();
    // The last lines may still be on their way.
    until("it says why", || {
        process.stderr().iter().any(|line| line.starts_with("error:"))
    })
    .await?;
    let said = process.stderr().join("\n");
    ensure!(code == Some(1), "{code:?} instead of 1\n{said}");
    Ok(said)
}

/// The fake function, a binary of this package; its variable `BEHAVIOUR` says what it does.
pub const FAKE_FUNCTION: &str = env!("CARGO_BIN_EXE_fake_function");

/// The fake function in all places.
pub fn fake_functions() -> Functions {
    Functions {
        orchestrator: FAKE_FUNCTION.into(),
        worker: FAKE_FUNCTION.into(),
        maintenance: FAKE_FUNCTION.into(),
        api: Some(FAKE_FUNCTION.into()),
    }
}

/// Invokes a function of a cloud; answers its answer, or the error in Lambda's form.
pub async fn invoke(cloud: &Cloud, function: &str, event: Value) -> Result<Value> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let url = format!("{}/2015-03-31/functions/{function}/invocations", cloud.endpoint());
    let request = http.post(url).header("authorization", SIGNED);
    let answer = request.body(event.to_string()).send().await?;
    ensure!(answer.status().is_success(), "{}", answer.status());
    Ok(serde_json::from_slice(&answer.bytes().await?)?)
}
