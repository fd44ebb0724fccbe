//! A function: a pool of environments behind one verb, `invoke`.
//!
//! An invocation waits for a place below the concurrency limit (or is refused, if its caller does not wait), then takes the
//! environment that became idle last, or starts one. Invariant: an environment serves one invocation at a time. One that has ended, was killed or overran its timeout
//! never serves again.

use super::environment::Environment;
use super::error::InvokeError;
use super::logs::LogSink;
use super::process::{Launcher, Spawner};
use bytes::Bytes;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// The limit for a start. Lambda's own is 10 s; this one only catches processes that hang, also on a busy machine.
const INIT_LIMIT: Duration = Duration::from_secs(30);

/// The settings of a function.
#[derive(Clone, Debug)]
pub(crate) struct FunctionSettings {
    pub(crate) name: String,
    /// The binary, as it would be deployed.
    pub(crate) binary: PathBuf,
    /// Environment variables, besides Lambda's own.
    pub(crate) variables: Vec<(String, String)>,
    /// The environment of an invocation that takes longer is killed.
    pub(crate) timeout: Duration,
    /// The most environments at once.
    pub(crate) concurrency: usize,
    /// An environment that is idle for this long is ended.
    pub(crate) idle: Duration,
}

/// How the processes of all functions are started and logged.
#[derive(Clone, Debug)]
pub(crate) struct ProcessOptions {
    pub(crate) spawner: Spawner,
    pub(crate) launcher: Launcher,
    pub(crate) logs: LogSink,
    /// Freeze environments between invocations.
    pub(crate) freeze: bool,
}

/// Counts of one function since the cloud started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionCounts {
    /// Invocations, whatever became of them.
    pub invocations: u64,
    /// Invocations without an answer, for whatever reason.
    pub errors: u64,
    /// Environments started.
    pub cold_starts: u64,
    /// Invocations during which the process ended.
    pub crashes: u64,
    /// Invocations killed at the timeout.
    pub timeouts: u64,
    /// Requests that were refused because all environments were busy. They are no invocations.
    pub throttles: u64,
}

/// One environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentStatus {
    /// The id of its process.
    pub pid: u32,
    /// Whether it is serving an invocation.
    pub busy: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Function {
    settings: FunctionSettings,
    processes: ProcessOptions,
    pool: Mutex<Pool>,
    places: Semaphore,
    started: AtomicU64,
    counts: Mutex<FunctionCounts>,
    /// For coming invocations: kill the process this long after the invocation began.
    planned_kills: Mutex<VecDeque<Duration>>,
    kills: Arc<AtomicU64>,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<(Instant, Arc<Environment>)>,
    busy: BTreeMap<u64, Arc<Environment>>,
}

impl Function {
    pub(crate) fn new(settings: FunctionSettings, processes: ProcessOptions) -> Arc<Function> {
        let function = Arc::new(Function {
            places: Semaphore::new(settings.concurrency.max(1)),
            settings,
            processes,
            pool: Mutex::default(),
            started: AtomicU64::new(0),
            counts: Mutex::default(),
            planned_kills: Mutex::default(),
            kills: Arc::default(),
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

    /// How many processes [`Function::kill_next`] has killed.
    pub(crate) fn killed(&self) -> u64 {
        self.kills.load(Ordering::SeqCst)
    }

    /// Starts an environment before any invocation, so that a broken function is known at once.
    pub(crate) async fn warm_up(&self) -> Result<(), InvokeError> {
        let environment = self.start().await?;
        environment.ready(INIT_LIMIT).await?;
        self.pool().idle.push((Instant::now(), environment));
        Ok(())
    }

    /// Serves an event in an environment and returns the function's answer. Waits while all environments are busy.
    pub(crate) async fn invoke(&self, payload: Bytes) -> Result<Bytes, InvokeError> {
        let place = self.places.acquire().await.expect("the places are never closed");
        self.invoke_in(place, payload).await
    }

    /// The same for a caller that does not wait: `Throttled` while all environments are busy.
    pub(crate) async fn invoke_now(&self, payload: Bytes) -> Result<Bytes, InvokeError> {
        let Ok(place) = self.places.try_acquire() else {
            self.count(|counts| counts.throttles += 1);
            return Err(InvokeError::Throttled(self.settings.concurrency.max(1)));
        };
        self.invoke_in(place, payload).await
    }

    async fn invoke_in(&self, _place: SemaphorePermit<'_>, payload: Bytes) -> Result<Bytes, InvokeError> {
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

    /// Counts and logs an invocation without an answer.
    fn failed(&self, environment: u64, error: &InvokeError) {
        self.count(|counts| {
            counts.errors += 1;
            counts.crashes += u64::from(matches!(error, InvokeError::Crashed(_)));
            counts.timeouts += u64::from(matches!(error, InvokeError::TimedOut(_)));
        });
        // An invocation that a shutdown ends is not an error of the function.
        if !self.closed.load(Ordering::SeqCst) {
            self.processes.logs.report(&self.settings.name, environment, error);
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
        // Checked now that it is in the pool: it may have been started while `take_all` emptied the pool.
        if self.closed.load(Ordering::SeqCst) {
            environment.kill().await;
            return Err(InvokeError::closed());
        }
        environment.ready(INIT_LIMIT).await?;
        let kill = self.planned_kills().pop_front();
        if let Some(delay) = kill {
            let (environment, kills) = (Arc::clone(environment), Arc::clone(&self.kills));
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                if environment.is_alive() {
                    environment.kill().await;
                    kills.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        environment.invoke(payload, self.settings.timeout).await
    }

    /// Kills the process of the next invocation this long after that invocation begins.
    pub(crate) fn kill_next(&self, delay: Duration) {
        self.planned_kills().push_back(delay);
    }

    /// Kills all environments and waits until they are gone. No environment is started afterwards.
    pub(crate) async fn close(&self) {
        let all = self.take_all();
        futures::future::join_all(all.iter().map(|environment| environment.kill())).await;
    }

    /// The same as [`Function::close`], without waiting.
    pub(crate) fn end(&self) {
        for environment in self.take_all() {
            environment.end();
        }
    }

    /// Empties the pool and lets no environment start any more.
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
        // Skips environments whose process has ended.
        std::iter::from_fn(|| pool.idle.pop())
            .map(|(_, environment)| environment)
            .find(|environment| environment.is_alive())
    }

    async fn start(&self) -> Result<Arc<Environment>, InvokeError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(InvokeError::closed());
        }
        let number = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        self.count(|counts| counts.cold_starts += 1);
        let started = Environment::start(&self.settings, number, &self.processes).await;
        let environment = started.map_err(|error| {
            let binary = self.settings.binary.display();
            InvokeError::Spawn(format!("{binary}: {error}"))
        })?;
        Ok(Arc::new(environment))
    }

    async fn end_idle(&self) {
        let expired: Vec<Arc<Environment>> = {
            let mut pool = self.pool();
            let limit = self.settings.idle;
            let gone = pool.idle.extract_if(.., |(since, environment)| {
                since.elapsed() >= limit || !environment.is_alive()
            });
            gone.map(|(_, environment)| environment).collect()
        };
        futures::future::join_all(expired.iter().map(|environment| environment.kill())).await;
    }

    fn count(&self, work: impl FnOnce(&mut FunctionCounts)) {
        work(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn planned_kills(&self) -> MutexGuard<'_, VecDeque<Duration>> {
        self.planned_kills.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
