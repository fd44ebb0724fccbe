//! The new orchestrator binary as a child process.
//!
//! It gets a history as a line on stdin, and answers with a line on stdout that begins with a word which it was given: its code may print
//! lines of its own. A binary that dies or hangs is replaced for the next history.
//!
//! Its environment has what a program needs to start and nothing else, so that no address or key of a store reaches it.

use crate::ambient;
use crate::client::answer::Failure;
use duroxide_lambda::replay::{Cause, Fault, Ready, Recording, Replayed, VARIABLE};
use serde::de::DeserializeOwned;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What the binary inherits.
const INHERITED: [&str; 9] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "RUST_BACKTRACE",
];
/// How many bytes of its stderr are kept, and how many lines are shown.
const KEPT: usize = 4096;
const SHOWN: usize = 5;
/// How long its stderr may take to end after it has ended itself.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Binary {
    path: PathBuf,
    variables: Vec<(String, String)>,
    limit: Duration,
    running: Option<Running>,
}

struct Running {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    stderr: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    word: String,
}

impl Binary {
    pub(super) fn new(path: &Path, variables: Vec<(String, String)>, limit: Duration) -> Result<Binary, Failure> {
        // Also so that a name without a slash is not searched for elsewhere.
        let path = path
            .canonicalize()
            .map_err(|error| Failure::error(format!("'{}' cannot be used: {error}", path.display())))?;
        Ok(Binary {
            path,
            variables,
            limit,
            running: None,
        })
    }

    /// Starts the binary, and waits until it can replay.
    pub(super) async fn start(&mut self) -> Result<Ready, Failure> {
        let mut running = self.spawn()?;
        match timeout(self.limit, running.answer::<Ready>()).await {
            Ok(Ok(ready)) => {
                self.running = Some(running);
                Ok(ready)
            }
            Ok(Err(lost)) => {
                let how = running.ended(lost).await;
                Err(self.no_orchestrator(&how))
            }
            Err(_) => {
                running.kill().await;
                let how = format!("it did not answer within {} s", self.limit.as_secs());
                Err(self.no_orchestrator(&how))
            }
        }
    }

    fn no_orchestrator(&self, how: &str) -> Failure {
        Failure::error(format!(
            "'{}' cannot replay: {how}. It must call duroxide_lambda::orchestrator, of this release or a newer one; a binary of several \
             functions may need --env to choose the orchestrator",
            self.path.display()
        ))
    }

    fn spawn(&self) -> Result<Running, Failure> {
        let word = ambient::unique();
        let inherited = INHERITED.iter().filter_map(|name| Some((name, env::var_os(name)?)));
        let mut process = Command::new(&self.path)
            .env_clear()
            .envs(inherited)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env(VARIABLE, &word)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                let path = self.path.display();
                Failure::error(format!(
                    "'{path}' cannot be started: {error}. The binary must be built for this machine"
                ))
            })?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take())
        else {
            return Err(Failure::error("the binary has no pipes"));
        };
        let kept = Arc::default();
        let reader = tokio::spawn(keep_last(stderr, Arc::clone(&kept)));
        Ok(Running {
            process,
            stdin,
            stdout: BufReader::new(stdout),
            stderr: kept,
            reader,
            word,
        })
    }

    /// Replays a history. A fault of the history is an answer; a failure means that the binary cannot be used.
    pub(super) async fn replay(&mut self, recording: &Recording) -> Result<Replayed, Failure> {
        if self.running.is_none() {
            self.start().await?;
        }
        let Some(mut running) = self.running.take() else {
            return Err(Failure::error("the binary is not running"));
        };
        let line = line(recording)?;
        match timeout(self.limit, running.ask(&line)).await {
            Ok(Ok(replayed)) if is_of(&replayed, recording) => {
                self.running = Some(running);
                Ok(replayed)
            }
            Ok(Ok(_)) => {
                running.kill().await;
                Err(self.no_orchestrator("it answered for another history"))
            }
            Ok(Err(lost)) => {
                let how = running.ended(lost).await;
                let fault = Fault::new(Cause::Crash, format!("the new build kills its process: {how}"));
                Ok(failed(recording, fault))
            }
            Err(_) => {
                running.kill().await;
                let reason = format!(
                    "the new build does not end its turn within {} s: its code loops or blocks its thread",
                    self.limit.as_secs()
                );
                Ok(failed(recording, Fault::new(Cause::Timeout, reason)))
            }
        }
    }

    /// Lets the binary end.
    pub(super) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill().await;
        }
    }
}

fn is_of(replayed: &Replayed, recording: &Recording) -> bool {
    replayed.instance == recording.instance && replayed.execution == recording.execution
}

fn failed(recording: &Recording, fault: Fault) -> Replayed {
    Replayed {
        instance: recording.instance.clone(),
        execution: recording.execution,
        events: recording.events.len() as u64,
        fault: Some(fault),
    }
}

/// A history as one line. Line ends within JSON are white space: those of its strings are escaped.
fn line(recording: &Recording) -> Result<String, Failure> {
    let json = serde_json::to_string(recording).map_err(|error| {
        Failure::error(format!(
            "the history of '{}' cannot be sent: {error}",
            recording.instance
        ))
    })?;
    Ok(json.replace(['\n', '\r'], " ") + "\n")
}

/// Why there is no answer.
enum Lost {
    /// The process has closed its output.
    Closed,
    /// It answers something else.
    Answer(String),
}

impl Running {
    async fn ask(&mut self, line: &str) -> Result<Replayed, Lost> {
        let Running {
            stdin, stdout, word, ..
        } = self;
        // Both at once: a binary may print more than a pipe holds before it reads. If it is gone, its output has ended.
        let write = async {
            let written = stdin.write_all(line.as_bytes()).await;
            written.and(stdin.flush().await).ok()
        };
        let (_, answer) = tokio::join!(write, read(stdout, word));
        answer
    }

    async fn answer<T: DeserializeOwned>(&mut self) -> Result<T, Lost> {
        read(&mut self.stdout, &self.word).await
    }

    async fn kill(mut self) {
        // It may have ended by itself.
        self.process.kill().await.unwrap_or_default();
        self.reader.abort();
    }

    /// How the process has ended, with what it wrote last.
    async fn ended(mut self, lost: Lost) -> String {
        let how = match lost {
            Lost::Answer(why) => {
                self.process.kill().await.unwrap_or_default();
                return why;
            }
            // It may have closed its output only.
            Lost::Closed => match timeout(LAST_WORDS, self.process.wait()).await {
                Ok(status) => described(status),
                Err(_) => {
                    self.process.kill().await.unwrap_or_default();
                    "it closed its output".to_owned()
                }
            },
        };
        // A process that it has started may keep it open.
        let reader = self.reader.abort_handle();
        if timeout(LAST_WORDS, self.reader).await.is_err() {
            reader.abort();
        }
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        match last_lines(&kept) {
            text if text.is_empty() => how,
            text => format!("{how}; it wrote: {text}"),
        }
    }
}

fn described(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => format!("it ended ({status})"),
        Err(error) => format!("it ended ({error})"),
    }
}

/// The next answer. Other lines are the binary's own.
async fn read<T: DeserializeOwned>(stdout: &mut BufReader<ChildStdout>, word: &str) -> Result<T, Lost> {
    let mut line = Vec::new();
    loop {
        line.clear();
        match stdout.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return Err(Lost::Closed),
            Ok(_) => {}
        }
        if let Some(answer) = line.strip_prefix(word.as_bytes()) {
            return serde_json::from_slice(answer).map_err(|error| {
                Lost::Answer(format!(
                    "its answer cannot be read ({error}): is this command line older than the binary?"
                ))
            });
        }
    }
}

async fn keep_last(mut stderr: ChildStderr, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 1024];
    // An error is the end as well.
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&buffer[..length]);
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    }
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(SHOWN)..].join(" | ")
}
