//! A function: a pool of environments behind one verb, `invoke`.
//!
//! An invocation takes a place below the concurrency limit, then the environment that was idle for the shortest time, or a
//! new one. Invariant: an environment serves one invocation at a time; one that has ended, was killed or overran its
//! timeout never serves again, and its successor starts with the next invocation.

use super::environment::Environment;
use super::logs::LogSink;
use super::process::{Launcher, Spawner};
use bytes::Bytes;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The limit for a start. Lambda's own is 10 s; here it is only for one that hangs, whatever else the machine does.
const INIT_LIMIT: Duration = Duration::from_secs(30);

/// What a function is.
#[derive(Clone, Debug)]
pub struct FunctionSettings {
    /// Its name.
    pub name: String,
    /// The binary, as it would be deployed.
    pub binary: PathBuf,
    /// Its environment variables, besides Lambda's own.
    pub variables: Vec<(String, String)>,
    /// An invocation that takes longer is killed, with its environment.
    pub timeout: Duration,
    /// The most environments at once.
    pub concurrency: usize,
    /// An environment that was idle for so long is ended.
    pub idle: Duration,
}

/// What all functions of a cloud share.
#[derive(Clone, Debug)]
pub(crate) struct Hands {
    pub(crate) spawner: Spawner,
    pub(crate) launcher: Launcher,
    pub(crate) logs: LogSink,
    /// Freeze environments between invocations.
    pub(crate) freeze: bool,
}

/// Why an invocation has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvokeError {
    /// The process cannot be started at all.
    #[error("the process does not start: {0}")]
    Spawn(String),
    /// The process ended, or hung, before it asked for work.
    #[error("it ended in its start: {how}{}", listed(tail))]
    Init {
        /// How it ended, or what it reported.
        how: String,
        /// Its last lines.
        tail: Vec<String>,
    },
    /// The function answered with an error.
    #[error("{kind}: {message}")]
    Failed {
        /// The kind of error, in the function's words.
        kind: String,
        /// The function's message.
        message: String,
    },
    /// The process ended in the middle.
    #[error("its process ended: {0}")]
    Crashed(String),
    /// It took too long, and was killed.
    #[error("it took longer than {0:?} and was killed")]
    TimedOut(Duration),
}

impl InvokeError {
    pub(super) fn failed(kind: &str, message: impl Into<String>) -> InvokeError {
        InvokeError::Failed {
            kind: kind.to_owned(),
            message: message.into(),
        }
    }
}

fn closed() -> InvokeError {
    InvokeError::Spawn("the local cloud is being shut down".to_owned())
}

fn listed(tail: &[String]) -> String {
    tail.iter().map(|line| format!("\n    {line}")).collect()
}

/// What a function has done since the cloud started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionCounts {
    /// Invocations that were begun.
    pub invocations: u64,
    /// Those that ended without an answer, for whatever reason.
    pub errors: u64,
    /// Environments that were started.
    pub cold_starts: u64,
    /// Invocations during which the process ended.
    pub crashes: u64,
    /// Invocations that took too long.
    pub timeouts: u64,
}

/// One environment, for people and tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentStatus {
    /// Its process.
    pub pid: u32,
    /// Whether it serves an invocation.
    pub busy: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Function {
    settings: FunctionSettings,
    hands: Hands,
    pool: Mutex<Pool>,
    places: Semaphore,
    started: AtomicU64,
    counts: Mutex<FunctionCounts>,
    /// Invocations to come whose process is killed so long after they begin.
    traps: Mutex<VecDeque<Duration>>,
    sprung: Arc<AtomicU64>,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<(Instant, Arc<Environment>)>,
    busy: BTreeMap<u64, Arc<Environment>>,
}

impl Function {
    pub(crate) fn new(settings: FunctionSettings, hands: Hands) -> Arc<Function> {
        let function = Arc::new(Function {
            places: Semaphore::new(settings.concurrency.max(1)),
            settings,
            hands,
            pool: Mutex::default(),
            started: AtomicU64::new(0),
            counts: Mutex::default(),
            traps: Mutex::default(),
            sprung: Arc::default(),
            closed: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&function);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(500)).await;
                let Some(function) = weak.upgrade() else { return };
                function.end_idle().await;
            }
        });
        function
    }

    pub(crate) fn settings(&self) -> &FunctionSettings {
        &self.settings
    }

    pub(crate) fn counts(&self) -> FunctionCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many processes the traps have killed.
    pub(crate) fn killed(&self) -> u64 {
        self.sprung.load(Ordering::SeqCst)
    }

    /// Starts an environment ahead of any invocation: what is wrong with the function is then known.
    pub(crate) async fn warm_up(&self) -> Result<(), InvokeError> {
        let environment = self.start().await?;
        environment.ready(INIT_LIMIT).await?;
        self.pool().idle.push((Instant::now(), environment));
        Ok(())
    }

    /// Has an environment serve this event.
    pub(crate) async fn invoke(&self, payload: Bytes) -> Result<Bytes, InvokeError> {
        let _place = self.places.acquire().await.expect("the places are never closed");
        self.count(|counts| counts.invocations += 1);
        let environment = match self.take_idle() {
            Some(environment) => Ok(environment),
            None => self.start().await,
        };
        let (number, answer) = match environment {
            Ok(environment) => (environment.number, self.serve(environment, payload).await),
            Err(error) => (self.started.load(Ordering::SeqCst), Err(error)),
        };
        if let Err(error) = &answer {
            self.failed(number, error);
        }
        answer
    }

    /// Counts an invocation without an answer, and tells it.
    fn failed(&self, environment: u64, error: &InvokeError) {
        self.count(|counts| {
            counts.errors += 1;
            counts.crashes += u64::from(matches!(error, InvokeError::Crashed(_)));
            counts.timeouts += u64::from(matches!(error, InvokeError::TimedOut(_)));
        });
        // What is under way when all is stopped does not fail by itself.
        if !self.closed.load(Ordering::SeqCst) {
            self.hands.logs.report(&self.settings.name, environment, error);
        }
    }

    async fn serve(&self, environment: Arc<Environment>, payload: Bytes) -> Result<Bytes, InvokeError> {
        self.pool().busy.insert(environment.number, Arc::clone(&environment));
        let answer = self.serve_with(&environment, payload).await;
        let mut pool = self.pool();
        pool.busy.remove(&environment.number);
        if environment.is_alive() {
            pool.idle.push((Instant::now(), environment));
        }
        answer
    }

    async fn serve_with(&self, environment: &Arc<Environment>, payload: Bytes) -> Result<Bytes, InvokeError> {
        // Asked now that it is in the pool: it may have been started while `take_all` emptied that.
        if self.closed.load(Ordering::SeqCst) {
            environment.kill().await;
            return Err(closed());
        }
        environment.ready(INIT_LIMIT).await?;
        let trap = self.traps.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(delay) = trap {
            let (doomed, sprung) = (Arc::clone(environment), Arc::clone(&self.sprung));
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                if doomed.is_alive() {
                    doomed.kill().await;
                    sprung.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        environment.invoke(payload, self.settings.timeout).await
    }

    /// The process of the next invocation is killed so long after the invocation began.
    pub(crate) fn set_trap(&self, delay: Duration) {
        self.traps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(delay);
    }

    /// Kills all environments, and waits until they are gone. No other is started from then on.
    pub(crate) async fn close(&self) {
        let all = self.take_all();
        futures::future::join_all(all.iter().map(|environment| environment.kill())).await;
    }

    /// The same without the wait.
    pub(crate) fn end(&self) {
        for environment in self.take_all() {
            environment.end();
        }
    }

    /// Empties the pool for good.
    fn take_all(&self) -> Vec<Arc<Environment>> {
        self.closed.store(true, Ordering::SeqCst);
        let mut pool = self.pool();
        let idle = std::mem::take(&mut pool.idle);
        let busy = std::mem::take(&mut pool.busy);
        let idle = idle.into_iter().map(|(_, environment)| environment);
        idle.chain(busy.into_values()).collect()
    }

    pub(crate) fn environments(&self) -> Vec<EnvironmentStatus> {
        let pool = self.pool();
        let idle = pool.idle.iter().map(|(_, environment)| (environment, false));
        let busy = pool.busy.values().map(|environment| (environment, true));
        idle.chain(busy)
            .filter(|(environment, _)| environment.is_alive())
            .map(|(environment, busy)| EnvironmentStatus {
                pid: environment.pid,
                busy,
            })
            .collect()
    }

    fn take_idle(&self) -> Option<Arc<Environment>> {
        let mut pool = self.pool();
        // Those that ended meanwhile are passed by.
        std::iter::from_fn(|| pool.idle.pop())
            .map(|(_, environment)| environment)
            .find(|environment| environment.is_alive())
    }

    async fn start(&self) -> Result<Arc<Environment>, InvokeError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(closed());
        }
        let number = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        self.count(|counts| counts.cold_starts += 1);
        let started = Environment::start(&self.settings, number, &self.hands).await;
        let environment = started.map_err(|error| {
            let binary = self.settings.binary.display();
            InvokeError::Spawn(format!("{binary}: {error}"))
        })?;
        Ok(Arc::new(environment))
    }

    async fn end_idle(&self) {
        let tired: Vec<Arc<Environment>> = {
            let mut pool = self.pool();
            let limit = self.settings.idle;
            let gone = pool.idle.extract_if(.., |(since, environment)| {
                since.elapsed() >= limit || !environment.is_alive()
            });
            gone.map(|(_, environment)| environment).collect()
        };
        futures::future::join_all(tired.iter().map(|environment| environment.kill())).await;
    }

    fn count(&self, work: impl FnOnce(&mut FunctionCounts)) {
        work(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
