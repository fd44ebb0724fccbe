//! A simulation: the user's workflows on duroxide's runtime, an in-memory store and a clock that skips.
//!
//! `setup` has the methods before the first step, `drive` those that run steps. Here is what is between them and the runtime.

mod drive;
mod setup;

use super::clock::Timers;
use super::registries::{Activities, watched};
use super::stage::{Script, Sent, Stage};
use super::store::{MemoryStore, State};
use duroxide::providers::{Provider, TagFilter};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, ClientError, OrchestrationRegistry};
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::Future;
use std::panic::{Location, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::subscriber::{NoSubscriber, with_default};

/// Thursday, 1 January 2026, 00:00 UTC.
const BEGINNING_MS: u64 = 1_767_225_600_000;
/// How many activities run at once.
const WORKERS: usize = 256;
/// How many turns a simulation runs, unless set.
const MOST_TURNS: u32 = 10_000;
/// What never happens: far behind all time of a test.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// How many rounds of all tasks without a change mean that nothing can run. A step is a few.
const QUIET_ROUNDS: u32 = 50;

/// Workflows under test. See the [module](super) for an example.
///
/// Set it up with the methods that return it, then [`run`](Simulation::run) an orchestration to its end, or drive it step by step
/// with [`start`](Simulation::start), [`advance`](Simulation::advance), [`raise`](Simulation::raise) and [`run_to_end`](Simulation::run_to_end).
///
/// When it is dropped, it panics if a crash, a failure or a message was planned and never happened.
pub struct Simulation {
    tokio: Option<tokio::runtime::Runtime>,
    user: (OrchestrationRegistry, ActivityRegistry),
    activities: Arc<Activities>,
    script: Arc<Mutex<Script>>,
    /// What is sent to the instance that is started next.
    later: Vec<Later>,
    began_ms: u64,
    most_turns: u32,
    has_logs: bool,
    timers: Arc<Timers>,
    running: Option<Running>,
}

/// Something that is sent to an instance, so long after its start.
struct Later {
    after: Duration,
    what: What,
    set_at: &'static Location<'static>,
}

enum What {
    Sent(Sent),
    Cancel(String),
}

/// A build at work.
struct Running {
    store: Arc<MemoryStore>,
    client: Client,
    runtime: Arc<Runtime>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").finish_non_exhaustive()
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // Not by its own `Drop`, which panics within another runtime.
        if let Some(tokio) = self.tokio.take() {
            tokio.shutdown_background();
        }
        self.check_plan();
    }
}

/// Inside.
impl Simulation {
    /// Fails the test if something was planned that never happened: a name may be misspelt, and the test shows nothing about it.
    fn check_plan(&self) {
        if self.running.is_none() || std::thread::panicking() {
            return;
        }
        let unsent = self.later.iter().map(|later| {
            format!(
                "a message to the next instance that is started (set at {})",
                later.set_at
            )
        });
        let unused = [self.script().unused(), self.activities.unused(), unsent.collect()].concat();
        assert!(
            unused.is_empty(),
            "this was planned in a simulation, and has not happened:\n- {}",
            unused.join("\n- ")
        );
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store; the build is started with the first use, when all is set up.
    fn store(&mut self) -> Arc<MemoryStore> {
        if let Some(running) = &self.running {
            return Arc::clone(&running.store);
        }
        let began_ms = self.began_ms;
        let store = Arc::new(self.enter(async move { MemoryStore::starting_at(began_ms) }));
        self.running = Some(self.build(Arc::clone(&store)));
        store
    }

    /// Starts duroxide's runtime on the store.
    fn build(&self, store: Arc<MemoryStore>) -> Running {
        let orchestrations = watched(&self.user.0, &self.timers);
        let activities = self.activities.wrapped(&self.user.1);
        let stage = Stage::new(
            Arc::clone(&store),
            Arc::clone(&self.timers),
            Arc::clone(&self.script),
            (orchestrations.clone(), activities.clone()),
        );
        let provider: Arc<dyn Provider> = Arc::new(stage);
        let client = Client::new(Arc::clone(&provider));
        let runtime = self.enter(Runtime::start_with_options(
            provider,
            activities,
            orchestrations,
            options(),
        ));
        Running { store, client, runtime }
    }

    /// Has the client of duroxide do something.
    #[track_caller]
    fn ask<'a, F, Fut>(&mut self, request: F)
    where
        F: FnOnce(Client) -> Fut,
        Fut: Future<Output = Result<(), ClientError>> + Send + 'a,
    {
        self.store();
        let Some(running) = &self.running else { return };
        let answer = self.enter(request(running.client.clone()));
        if let Err(error) = answer {
            panic!("duroxide refused the request: {error}");
        }
    }

    /// Runs a future on the simulation's runtime, also from within another one.
    fn enter<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        let tokio = self.tokio.as_ref().expect("the runtime is there until the end");
        let run = || match self.has_logs {
            true => tokio.block_on(future),
            false => with_default(NoSubscriber::default(), || tokio.block_on(future)),
        };
        match Handle::try_current() {
            Err(_) => run(),
            Ok(_) => std::thread::scope(|scope| match scope.spawn(run).join() {
                Ok(done) => done,
                Err(panic) => resume_unwind(panic),
            }),
        }
    }
}

/// A typed value, as duroxide reads it: a text that is no JSON is taken as a string.
pub(super) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    let error = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|_| error)
}

fn options() -> RuntimeOptions {
    RuntimeOptions {
        dispatcher_min_poll_interval: Duration::ZERO,
        dispatcher_long_poll_timeout: NEVER,
        orchestration_concurrency: 1,
        worker_concurrency: WORKERS,
        orchestrator_lock_timeout: NEVER,
        // The stage blocks and gives up as the functions do.
        max_attempts: u32::MAX,
        session_lock_timeout: NEVER,
        session_idle_timeout: NEVER,
        session_cleanup_interval: NEVER,
        max_sessions_per_runtime: WORKERS + 1,
        worker_node_id: Some("simulation".to_owned()),
        worker_tag_filter: TagFilter::Any,
        observability: duroxide::runtime::ObservabilityConfig {
            gauge_poll_interval: NEVER,
            ..Default::default()
        },
        ..RuntimeOptions::default()
    }
}

fn has_ended(state: &State, id: &str) -> bool {
    let record = state.instances.get(id);
    record.is_some_and(|record| record.end().is_some()) || state.is_shut(id, u64::MAX)
}

/// Whether nothing can happen any more, or too much has happened.
fn is_over(store: &MemoryStore, script: &Mutex<Script>, most_turns: u32) -> bool {
    let state = store.state();
    let is_quiet = state.locks.is_empty() && !state.has_turns() && !state.has_work();
    is_quiet || is_stopped(script, most_turns)
}

fn is_stopped(script: &Mutex<Script>, most_turns: u32) -> bool {
    let script = script.lock().unwrap_or_else(PoisonError::into_inner);
    script.stopped(most_turns).is_some()
}

/// Runs all that can run without time passing.
async fn settle(store: &MemoryStore, script: &Mutex<Script>, most_turns: u32) {
    let mut quiet = 0;
    let mut seen = store.changes();
    while quiet < QUIET_ROUNDS && !is_over(store, script, most_turns) {
        tokio::task::yield_now().await;
        let now = store.changes();
        quiet = if now == seen { quiet + 1 } else { 0 };
        seen = now;
    }
}
