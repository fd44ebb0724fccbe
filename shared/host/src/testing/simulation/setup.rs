//! Setting a simulation up: what replaces activities, what goes wrong, what is sent when.

use super::{BEGINNING_MS, Later, MOST_TURNS, Simulation, What, from_text};
use crate::testing::faults::{Crash, Planned, Runs};
use crate::testing::stage::Sent;
use duroxide::OrchestrationRegistry;
use duroxide::runtime::registry::ActivityRegistry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Set-up.
impl Simulation {
    /// A simulation of these workflows. Nothing has happened yet, and it is 1 January 2026, 00:00 UTC.
    ///
    /// The first simulation of a process makes duroxide install a `tracing` subscriber for the process if there is none, whether or not the
    /// simulation logs: duroxide has no option against it. A test that installs its own calls `try_init` and not `init`, which panics if a
    /// simulation was first.
    ///
    /// # Panics
    /// When the machine gives no resources for a runtime of tokio.
    pub fn of(orchestrations: OrchestrationRegistry, activities: ActivityRegistry) -> Simulation {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime of tokio can be built");
        Simulation {
            tokio: Some(tokio),
            user: (orchestrations, activities),
            activities: Arc::default(),
            script: Arc::default(),
            later: Vec::new(),
            began_ms: BEGINNING_MS,
            most_turns: MOST_TURNS,
            has_logs: false,
            timers: Arc::default(),
            running: None,
        }
    }

    /// The time at which the simulation begins.
    ///
    /// # Panics
    /// When it has begun.
    #[track_caller]
    pub fn starting_at(mut self, time: SystemTime) -> Simulation {
        self.assert_not_begun("starting_at");
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.began_ms = since.as_millis() as u64;
        self
    }

    /// Runs a closure in place of an activity, whether or not one of this name is registered.
    ///
    /// # Panics
    /// When the simulation has begun.
    #[track_caller]
    pub fn activity<F>(self, name: impl Into<String>, run: F) -> Simulation
    where
        F: FnMut(String) -> Result<String, String> + Send + 'static,
    {
        self.assert_not_begun("activity");
        self.activities.replace(name.into(), Box::new(run));
        self
    }

    /// The same with an input and a result as JSON, for `schedule_activity_typed`.
    ///
    /// # Panics
    /// See [`activity`](Simulation::activity).
    #[track_caller]
    pub fn activity_typed<In, Out, F>(self, name: impl Into<String>, mut run: F) -> Simulation
    where
        In: DeserializeOwned,
        Out: Serialize,
        F: FnMut(In) -> Result<Out, String> + Send + 'static,
    {
        self.activity(name, move |input| {
            let input = from_text(&input).map_err(|error| format!("the input {input:?} does not fit: {error}"))?;
            let output = run(input)?;
            serde_json::to_string(&output).map_err(|error| error.to_string())
        })
    }

    #[track_caller]
    fn assert_not_begun(&self, method: &str) {
        assert!(
            self.running.is_none(),
            "the simulation has begun, and `{method}` would have no effect: call it before the first `start` or `run`"
        );
    }

    /// The activity takes this long, in virtual time.
    pub fn activity_takes(self, name: impl Into<String>, time: Duration) -> Simulation {
        self.activities.takes(name.into(), time);
        self
    }

    /// These runs of the activity fail, without running it: `2`, `1..=3`, `4..` or `..`. Runs count from 1, over all instances.
    /// If none of them happens, the test fails when the simulation is dropped.
    ///
    /// # Panics
    /// When there is no such run: `0`, or an empty range.
    #[track_caller]
    pub fn fail_activity(self, name: impl Into<String>, runs: impl Into<Runs>, error: impl Into<String>) -> Simulation {
        let (runs, set_at) = (runs.into(), Location::caller());
        assert!(runs.is_possible(), "runs count from 1: {runs:?} contain none");
        self.activities.fail(name.into(), runs, error.into(), set_at);
        self
    }

    /// Injects a crash. Several add up. If it does not happen, because there is no such step, the test fails when the simulation is
    /// dropped.
    #[track_caller]
    pub fn crash(self, crash: Crash) -> Simulation {
        self.crashes([crash])
    }

    /// Injects crashes: for [`at_every_crash`](crate::testing::at_every_crash).
    #[track_caller]
    pub fn crashes(self, crashes: impl IntoIterator<Item = Crash>) -> Simulation {
        let set_at = Location::caller();
        let planned = crashes.into_iter().map(|crash| Planned::new(crash, set_at));
        self.script().crashes.extend(planned);
        self
    }

    /// A step that is lost in a crash is delivered again after this time: at once, unless set. On Lambda it is up to a
    /// minute, when a lock has expired or maintenance has run. [`at_every_crash`](crate::testing::at_every_crash) does both, unless set.
    pub fn redelivered_after(self, time: Duration) -> Simulation {
        self.script().redelivery = Some(time);
        self
    }

    /// Delivers everything twice: each activity runs once more after its result is recorded (the second result is dropped), and each
    /// completion and timer reaches its instance once more.
    pub fn deliver_twice(self) -> Simulation {
        self.script().twice = true;
        self
    }

    /// Raises an event as soon as an instance waits for it (`schedule_wait`). Each call serves one wait, in the order of the calls.
    pub fn raise_when_waiting(self, event: impl Into<String>, data: impl Into<String>) -> Simulation {
        self.when_waiting(sent(false, event, data))
    }

    /// Sends a message to a queue as soon as an instance waits for one (`dequeue_event`). Each call serves one wait.
    pub fn enqueue_when_waiting(self, queue: impl Into<String>, message: impl Into<String>) -> Simulation {
        self.when_waiting(sent(true, queue, message))
    }

    fn when_waiting(self, sent: Sent) -> Simulation {
        self.script().when_waiting.push(sent);
        self
    }

    /// Raises an event for the instance that is started next, by [`run`](Simulation::run) or [`start`](Simulation::start), so long after its
    /// start. duroxide drops it if nothing waits.
    #[track_caller]
    pub fn raise_after(self, time: Duration, event: impl Into<String>, data: impl Into<String>) -> Simulation {
        self.send_after(time, What::Sent(sent(false, event, data)))
    }

    /// Sends a message to a queue of the instance that is started next, so long after its start.
    #[track_caller]
    pub fn enqueue_after(self, time: Duration, queue: impl Into<String>, message: impl Into<String>) -> Simulation {
        self.send_after(time, What::Sent(sent(true, queue, message)))
    }

    /// Cancels the instance that is started next, so long after its start.
    #[track_caller]
    pub fn cancel_after(self, time: Duration, reason: impl Into<String>) -> Simulation {
        self.send_after(time, What::Cancel(reason.into()))
    }

    #[track_caller]
    fn send_after(mut self, after: Duration, what: What) -> Simulation {
        let set_at = Location::caller();
        self.later.push(Later { after, what, set_at });
        self
    }

    /// The simulation stops when it needs more turns than this: 10,000 unless set. It stops workflows that continue for ever.
    pub fn most_turns(mut self, turns: u32) -> Simulation {
        self.most_turns = turns;
        self
    }

    /// Lets duroxide and the workflows log, to the `tracing` subscriber of the process: yours if you installed it before the first
    /// simulation of the process, else duroxide's (see [`of`](Simulation::of)). Otherwise a simulation is silent.
    pub fn with_logs(mut self) -> Simulation {
        self.has_logs = true;
        self
    }
}

fn sent(is_queued: bool, name: impl Into<String>, data: impl Into<String>) -> Sent {
    Sent {
        is_queued,
        name: name.into(),
        data: data.into(),
    }
}
