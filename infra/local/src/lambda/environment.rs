//! One execution environment: a process of the function's binary, from its start to its end.
//!
//! A task of its own waits for the process, so that its end is always noticed and no zombie is left.

use super::error::InvokeError;
use super::function::{FunctionSettings, ProcessOptions};
use super::logs::Lines;
use super::process::Group;
use super::runtime_api::{Answer, Invocation, Phase, RuntimeApi};
use crate::net;
use bytes::Bytes;
use cosmos_emulator::http_server::HttpServer;
use duroxide_cosmos::{Ids, RandomIds};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// How long to read what a process left in its pipes when it ended.
const LAST_LINES: Duration = Duration::from_secs(3);

/// Which of a function's environments it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    /// Counts the environments of the function.
    pub(super) number: u64,
    /// Counts the binaries of the function.
    pub(super) generation: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Environment {
    pub(super) number: u64,
    pub(super) generation: u64,
    pub(super) pid: u32,
    work: mpsc::Sender<Invocation>,
    phase: watch::Receiver<Phase>,
    kill: Arc<Notify>,
    api: Arc<RuntimeApi>,
    lines: Lines,
    _server: HttpServer,
}

impl Environment {
    /// Starts this binary of the function.
    pub(super) async fn start(
        settings: &FunctionSettings,
        binary: &Path,
        Identity { number, generation }: Identity,
        processes: &ProcessOptions,
    ) -> std::io::Result<Environment> {
        let bound = HttpServer::bind(0).await?;
        let (work, queue) = mpsc::channel(1);
        let (phase_sender, phase) = watch::channel(Phase::Starting);
        let api = Arc::new(RuntimeApi::new(
            &settings.name,
            settings.timeout,
            queue,
            phase_sender.clone(),
        ));
        let mut command = processes.launcher.command(binary);
        command
            .env_clear()
            .envs(of_lambda(&settings.name, number, &bound.address().to_string()))
            .envs(of_the_machine(binary))
            .envs(settings.variables.iter().map(|(name, value)| (name, value)));
        let server = net::serve(bound, Arc::clone(&api));
        let mut group = processes.spawner.spawn(command).await?;
        let id = group.id();
        if processes.freeze {
            api.freeze(id);
        }
        let lines = Lines::new(&settings.name, number, processes.logs.clone());
        let (out, err) = group.output();
        let reading = [
            out.map(|stream| tokio::spawn(lines.clone().read(stream))),
            err.map(|stream| tokio::spawn(lines.clone().read(stream))),
        ];
        let kill = Arc::new(Notify::new());
        tokio::spawn(attend(group, Arc::clone(&kill), phase_sender, reading));
        Ok(Environment {
            number,
            generation,
            pid: id.as_raw_nonzero().get().unsigned_abs(),
            work,
            phase,
            kill,
            api,
            lines,
            _server: server,
        })
    }

    /// Waits until the process asks for an invocation.
    pub(super) async fn ready(&self, limit: Duration) -> Result<(), InvokeError> {
        let mut phase = self.phase.clone();
        let reached = tokio::time::timeout(limit, phase.wait_for(|phase| *phase != Phase::Starting)).await;
        match reached.map(|phase| phase.map(|phase| phase.clone())) {
            Ok(Ok(Phase::Ended(how))) => Err(self.not_started(how)),
            Ok(_) => Ok(()),
            Err(_) => {
                self.kill().await;
                Err(self.not_started(format!("it did not ask for an invocation within {limit:?}")))
            }
        }
    }

    fn not_started(&self, how: String) -> InvokeError {
        InvokeError::Init {
            how: self.api.init_error().unwrap_or(how),
            tail: self.lines.tail(),
        }
    }

    /// Passes an invocation to the process and waits for the answer, its end, or the timeout, at which it is killed.
    pub(super) async fn invoke(&self, payload: Bytes, timeout: Duration) -> Answer {
        let (answer, answered) = oneshot::channel();
        let id = RandomIds.unique();
        let invocation = Invocation { id, payload, answer };
        if self.work.send(invocation).await.is_err() {
            return Err(InvokeError::Crashed("it had ended before".to_owned()));
        }
        tokio::select! {
            biased;
            answer = answered => answer.unwrap_or_else(|_| {
                Err(InvokeError::failed("Runtime.NoAnswer", "the function asked for the next invocation without an answer"))
            }),
            how = self.ended() => Err(InvokeError::Crashed(how)),
            () = tokio::time::sleep(timeout) => {
                self.kill().await;
                Err(InvokeError::TimedOut(timeout))
            }
        }
    }

    /// Kills the process and waits until it is gone.
    pub(super) async fn kill(&self) {
        self.end();
        self.ended().await;
    }

    /// Kills the process without waiting.
    pub(super) fn end(&self) {
        self.kill.notify_one();
    }

    /// Waits for the end of the process; returns how it ended.
    async fn ended(&self) -> String {
        let mut phase = self.phase.clone();
        let ended = phase.wait_for(|phase| matches!(phase, Phase::Ended(_))).await;
        match ended.as_deref() {
            Ok(Phase::Ended(how)) => how.clone(),
            _ => "for an unknown reason".to_owned(),
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        !matches!(*self.phase.borrow(), Phase::Ended(_))
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // Its task owns the process and would wait for its end for ever.
        self.end();
    }
}

/// Waits for the process to end, or ends it; the processes that it started end with it.
async fn attend(
    mut group: Group,
    kill: Arc<Notify>,
    phase: watch::Sender<Phase>,
    reading: [Option<JoinHandle<()>>; 2],
) {
    let ended = tokio::select! {
        status = group.ended() => Some(status),
        () = kill.notified() => None,
    };
    let status = match ended {
        Some(status) => status,
        None => {
            group.kill();
            group.ended().await
        }
    };
    let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
    // Its last lines explain its end. A process that left the group and keeps the pipes open must not delay us: whatever
    // it still writes is dropped.
    let all = futures::future::join_all(reading.into_iter().flatten());
    tokio::time::timeout(LAST_LINES, all)
        .await
        .map(drop)
        .unwrap_or_default();
    phase.send_replace(Phase::Ended(how));
}

/// The variables that Lambda sets for the runtime.
pub(super) fn of_lambda(name: &str, number: u64, api: &str) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_LAMBDA_RUNTIME_API", api.to_owned()),
        ("AWS_LAMBDA_FUNCTION_NAME", name.to_owned()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256".to_owned()),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand".to_owned()),
        ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}")),
        // The log stream identifies an environment: its name must be unique, also across restarts.
        (
            "AWS_LAMBDA_LOG_STREAM_NAME",
            format!("[$LATEST]{}-{number}", RandomIds.unique()),
        ),
        ("_HANDLER", "bootstrap".to_owned()),
    ]
}

/// The variables that describe the machine of an environment.
fn of_the_machine(binary: &Path) -> Vec<(&'static str, String)> {
    // On Lambda, the folder into which the archive was unpacked.
    let root = binary.parent().unwrap_or_else(|| Path::new("/"));
    vec![
        ("LAMBDA_TASK_ROOT", root.display().to_string()),
        ("LANG", "en_US.UTF-8".to_owned()),
        ("PATH", "/usr/local/bin:/usr/bin/:/bin:/opt/bin".to_owned()),
        ("TZ", ":UTC".to_owned()),
    ]
}
