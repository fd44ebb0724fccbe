//! Setting a simulation up: what replaces activities, what goes wrong, what is sent when.

use super::{BEGINNING_MS, Later, MOST_TURNS, Simulation, from_text};
use crate::testing::faults::{Crash, Runs};
use crate::testing::stage::Sent;
use duroxide::OrchestrationRegistry;
use duroxide::runtime::registry::ActivityRegistry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Set-up.
impl Simulation {
    /// A simulation of these workflows. Nothing has happened yet, and it is 1 January 2026, 00:00 UTC.
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
    pub fn starting_at(mut self, time: SystemTime) -> Simulation {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.began_ms = since.as_millis() as u64;
        self
    }

    /// Runs a closure in place of an activity, whether or not one of this name is registered.
    pub fn activity<F>(self, name: impl Into<String>, run: F) -> Simulation
    where
        F: FnMut(String) -> Result<String, String> + Send + 'static,
    {
        self.activities.replace(name.into(), Box::new(run));
        self
    }

    /// The same with an input and a result as JSON, for `schedule_activity_typed`.
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

    /// The activity takes this long, in virtual time.
    pub fn activity_takes(self, name: impl Into<String>, time: Duration) -> Simulation {
        self.activities.takes(name.into(), time);
        self
    }

    /// These runs of the activity fail, without running it: `2`, `1..=3`, `4..` or `..`. Runs count from 1, over all instances.
    pub fn fail_activity(self, name: impl Into<String>, runs: impl Into<Runs>, error: impl Into<String>) -> Simulation {
        self.activities.fail(name.into(), runs.into(), error.into());
        self
    }

    /// Injects a crash. Several add up.
    pub fn crash(self, crash: Crash) -> Simulation {
        self.crashes([crash])
    }

    /// Injects crashes: for [`at_every_crash`](crate::testing::at_every_crash).
    pub fn crashes(self, crashes: impl IntoIterator<Item = Crash>) -> Simulation {
        self.script().crashes.extend(crashes);
        self
    }

    /// A step that is lost in a crash is delivered again after this time: at once, unless set. On Lambda it is up to a
    /// minute, when a lock has expired or maintenance has run.
    pub fn redelivered_after(self, time: Duration) -> Simulation {
        self.script().redelivery = time;
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

    /// Raises an event for the instance of [`run`](Simulation::run), so long after its start. duroxide drops it if nothing waits.
    pub fn raise_after(self, time: Duration, event: impl Into<String>, data: impl Into<String>) -> Simulation {
        self.send_after(time, Later::Sent(sent(false, event, data)))
    }

    /// Sends a message to a queue of the instance of [`run`](Simulation::run), so long after its start.
    pub fn enqueue_after(self, time: Duration, queue: impl Into<String>, message: impl Into<String>) -> Simulation {
        self.send_after(time, Later::Sent(sent(true, queue, message)))
    }

    /// Cancels the instance of [`run`](Simulation::run), so long after its start.
    pub fn cancel_after(self, time: Duration, reason: impl Into<String>) -> Simulation {
        self.send_after(time, Later::Cancel(reason.into()))
    }

    fn send_after(mut self, time: Duration, later: Later) -> Simulation {
        self.later.push((time, later));
        self
    }

    /// The simulation stops when it needs more turns than this: 10,000 unless set. It stops workflows that continue for ever.
    pub fn most_turns(mut self, turns: u32) -> Simulation {
        self.most_turns = turns;
        self
    }

    /// Lets duroxide and the workflows log: to your `tracing` subscriber, or to the one that duroxide installs for the process if there
    /// is none. Otherwise a simulation is silent.
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
