//! A function: a pool of environments behind one verb, `invoke`.
//!
//! An invocation waits for a place below the concurrency limit (or is refused, if its caller does not wait), then takes the
//! environment that became idle last, or starts one.
//!
//! The binary can be replaced while the function serves: [`Function::replace`] starts an environment of the new one, and from then on
//! no invocation begins on the old one. Invocations under way end where they are.
//!
//! Invariants: an environment serves one invocation at a time. One that has ended, was killed, overran its timeout, or runs a binary that
//! was replaced never serves again. A function that somebody attaches a process to ([`Attached`]) starts none.

use super::attached::Attached;
use super::environment::{Environment, Identity};
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
use tokio::sync::{Mutex as AsyncMutex, Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// The limit for a start. Lambda's own is 10 s; this one only catches processes that hang, also on a busy machine.
const INIT_LIMIT: Duration = Duration::from_secs(30);

/// The settings of a function.
#[derive(Clone, Debug)]
pub(crate) struct FunctionSettings {
    pub(crate) name: String,
    /// The binary at first, as it would be deployed.
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
    /// Set: the processes are somebody else's.
    attached: Option<Attached>,
    /// One replacement at a time.
    replacing: AsyncMutex<()>,
    places: Semaphore,
    started: AtomicU64,
    counts: Mutex<FunctionCounts>,
    /// For coming invocations: kill the process this long after the invocation began.
    planned_kills: Mutex<VecDeque<Duration>>,
    kills: Arc<AtomicU64>,
    closed: AtomicBool,
}

/// A binary, and how many replaced it before.
#[derive(Clone, Debug)]
struct Code {
    binary: PathBuf,
    generation: u64,
}

#[derive(Debug)]
struct Pool {
    /// What new environments run, and the only generation that may become idle.
    code: Code,
    idle: Vec<(Instant, Arc<Environment>)>,
    busy: BTreeMap<u64, Arc<Environment>>,
}

impl Function {
    pub(crate) fn new(
        settings: FunctionSettings,
        processes: ProcessOptions,
        attached: Option<Attached>,
    ) -> Arc<Function> {
        let pool = Pool {
            code: Code {
                binary: settings.binary.clone(),
                generation: 0,
            },
            idle: Vec::new(),
            busy: BTreeMap::new(),
        };
        let function = Arc::new(Function {
            places: Semaphore::new(settings.concurrency.max(1)),
            settings,
            processes,
            pool: Mutex::new(pool),
            attached,
            replacing: AsyncMutex::default(),
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

    /// Where somebody attaches a process.
    pub(crate) fn attached(&self) -> Option<&Attached> {
        self.attached.as_ref()
    }

    /// How many processes [`Function::kill_next`] has killed.
    pub(crate) fn killed(&self) -> u64 {
        self.kills.load(Ordering::SeqCst)
    }

    /// Starts an environment before any invocation, so that a broken function is known at once.
    pub(crate) async fn warm_up(&self) -> Result<(), InvokeError> {
        if self.attached.is_some() {
            return Ok(());
        }
        let environment = self.start(self.code()).await?;
        environment.ready(INIT_LIMIT).await?;
        self.pool().idle.push((Instant::now(), environment));
        Ok(())
    }

    /// Serves from now on with this binary, once a process of it has started. The old one goes on if none does.
    ///
    /// Idle environments of the old binary end now, busy ones after their invocation.
    pub(crate) async fn replace(&self, binary: PathBuf) -> Result<(), InvokeError> {
        let _alone = self.replacing.lock().await;
        let code = Code {
            binary,
            generation: self.code().generation + 1,
        };
        if self.attached.is_some() {
            self.pool().code = code;
            return Ok(());
        }
        let environment = self.start(code.clone()).await?;
        environment.ready(INIT_LIMIT).await?;
        let old = {
            let mut pool = self.pool();
            // Checked with the pool in hand: `take_all` does not see it any more.
            if self.closed.load(Ordering::SeqCst) {
                return Err(InvokeError::closed());
            }
            pool.code = code;
            std::mem::replace(&mut pool.idle, vec![(Instant::now(), environment)])
        };
        futures::future::join_all(old.iter().map(|(_, environment)| environment.kill())).await;
        Ok(())
    }

    /// Serves an event in an environment and returns the function's answer. Waits while all environments are busy.
    pub(crate) async fn invoke(&self, payload: Bytes) -> Result<Bytes, InvokeError> {
        let place = self.places.acquire().await.expect("the places are never closed");
        self.invoke_in(place, payload).await
    }

    /// The same for a caller that does not wait: `Throttled` while all environments are busy.
    pub(crate) async fn invoke_now(&self, payload: Bytes) -> Result<Bytes, InvokeError> {
        if self.attached.is_some() {
            // There is one process at most, and a person in front of it.
            return self.invoke(payload).await;
        }
        let Ok(place) = self.places.try_acquire() else {
            self.count(|counts| counts.throttles += 1);
            return Err(InvokeError::Throttled(self.settings.concurrency.max(1)));
        };
        self.invoke_in(place, payload).await
    }

    async fn invoke_in(&self, _place: SemaphorePermit<'_>, payload: Bytes) -> Result<Bytes, InvokeError> {
        self.count(|counts| counts.invocations += 1);
        if let Some(attached) = &self.attached {
            let answer = attached.invoke(payload).await;
            if let Err(error) = &answer {
                self.failed(0, error);
            }
            return answer;
        }
        let environment = match self.take_idle() {
            Some(environment) => Ok(environment),
            None => self.start(self.code()).await,
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
        {
            let mut pool = self.pool();
            pool.busy.remove(&environment.number);
            if environment.generation == pool.code.generation {
                if environment.is_alive() {
                    pool.idle.push((Instant::now(), environment));
                }
                return answer;
            }
        }
        // Its binary was replaced meanwhile.
        environment.kill().await;
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

    fn code(&self) -> Code {
        self.pool().code.clone()
    }

    async fn start(&self, code: Code) -> Result<Arc<Environment>, InvokeError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(InvokeError::closed());
        }
        let number = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        self.count(|counts| counts.cold_starts += 1);
        let identity = Identity {
            number,
            generation: code.generation,
        };
        let started = Environment::start(&self.settings, &code.binary, identity, &self.processes).await;
        let environment = started.map_err(|error| InvokeError::Spawn(format!("{}: {error}", code.binary.display())))?;
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
