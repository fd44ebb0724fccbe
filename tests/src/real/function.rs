//! One execution environment: a function's binary as a process, with the variables that Lambda would give it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::lambda_api::LambdaApi;
use super::process::Process;

/// A running function; killed on drop.
#[derive(Debug)]
pub struct Function {
    process: Process,
}

impl Function {
    /// Starts `binary` as an environment of the function `name`. It sees the variables of Lambda and of `env`, and none
    /// of the test's own.
    pub fn start<K, V>(
        api: &LambdaApi,
        name: &str,
        binary: &Path,
        env: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Function>
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        let mut command = Command::new(binary);
        command
            .env_clear()
            .env("AWS_LAMBDA_RUNTIME_API", api.runtime_api(name))
            .env("AWS_LAMBDA_FUNCTION_NAME", name)
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
            .env("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}"))
            .env("AWS_LAMBDA_LOG_STREAM_NAME", log_stream())
            .envs(env);
        let process = Process::spawn(name, &mut command)?;
        Ok(Function { process })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The lines of standard output so far.
    pub fn stdout(&self) -> Vec<String> {
        self.process.stdout()
    }

    /// The lines of standard error so far.
    pub fn stderr(&self) -> Vec<String> {
        self.process.stderr()
    }

    /// The lines so far, of both streams, that are JSON objects: logs and metrics.
    pub fn records(&self) -> Vec<Value> {
        let (stdout, stderr) = (self.stdout(), self.stderr());
        let parse = |line: &String| serde_json::from_str(line).ok().filter(Value::is_object);
        stdout.iter().chain(&stderr).filter_map(parse).collect()
    }

    /// Waits for a line, of either stream, of which `find` makes something. Output may come after the answer of the
    /// invocation that caused it.
    pub async fn wait_for<T>(&mut self, limit: Duration, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        self.process.wait_for(limit, find).await
    }

    /// Whether the process has not ended.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Kills the process as a crash would, in the middle of what it does.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// A name that no other environment has: on Lambda each has a log stream of its own, and is known by it.
fn log_stream() -> String {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    format!("2026/01/01/[$LATEST]{:016x}{number:016x}", std::process::id())
}
