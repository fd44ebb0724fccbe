//! A child process whose output is kept line by line, and that does not outlive its owner.
//!
//! The child stays in the process group of the test, so that an interrupt from the terminal reaches it too. None of the
//! programs started here forks: killing the child is enough.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const POLL: Duration = Duration::from_millis(10);
/// How long the last lines of a child that has ended may be on their way.
const LAST_LINES: Duration = Duration::from_secs(10);

/// A running child.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

impl Process {
    /// Starts `command`; `name` is what errors call it.
    pub fn spawn(name: &str, command: &mut Command) -> Result<Process> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("{name} does not start"))?;
        let stdout = Lines::of(child.stdout.take().expect("stdout was piped"));
        let stderr = Lines::of(child.stderr.take().expect("stderr was piped"));
        Ok(Process {
            name: name.to_owned(),
            child,
            stdout,
            stderr,
        })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The lines of standard output so far.
    pub fn stdout(&self) -> Vec<String> {
        self.stdout.get().clone()
    }

    /// The lines of standard error so far.
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.get().clone()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The code with which it ended by itself.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten()?.code()
    }

    /// The first line, of either stream, of which `find` makes something; an error when the child ends or `limit`
    /// passes without one.
    pub async fn wait_for<T>(&mut self, limit: Duration, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let end = Instant::now() + limit;
        loop {
            let running = self.is_running();
            if !running {
                self.read_to_the_end().await;
            }
            let found = |lines: &Lines| lines.get().iter().find_map(|line| find(line));
            if let Some(found) = found(&self.stdout).or_else(|| found(&self.stderr)) {
                return Ok(found);
            }
            if !running {
                bail!("{} ended early\n{}", self.name, self.tail());
            }
            if Instant::now() >= end {
                bail!(
                    "{} did not write in {limit:?} what was awaited\n{}",
                    self.name,
                    self.tail()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits for the last lines of a child that has ended.
    async fn read_to_the_end(&self) {
        let end = Instant::now() + LAST_LINES;
        while !(self.stdout.ended() && self.stderr.ended()) && Instant::now() < end {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Kills the child, as a crash would, and waits until it is gone.
    pub fn kill(&mut self) {
        // A child that ended by itself cannot be killed, and needs not be.
        self.child.kill().ok();
        self.child.wait().ok();
    }

    fn tail(&self) -> String {
        let mut lines = self.stdout();
        lines.extend(self.stderr());
        lines.split_off(lines.len().saturating_sub(20)).join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The lines of one stream, collected by a thread that ends with the stream.
#[derive(Debug, Clone, Default)]
struct Lines {
    so_far: Arc<Mutex<Vec<String>>>,
    ended: Arc<AtomicBool>,
}

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Lines {
        let lines = Lines::default();
        let sink = lines.clone();
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while matches!(stream.read_until(b'\n', &mut line), Ok(read) if read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                sink.get().push(text);
                line.clear();
            }
            sink.ended.store(true, Ordering::Release);
        });
        lines
    }

    fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn get(&self) -> MutexGuard<'_, Vec<String>> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
