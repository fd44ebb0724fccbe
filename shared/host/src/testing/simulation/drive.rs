//! Driving a simulation: starting instances, sending to them, moving time.

use super::{Simulation, What, has_ended, is_over, is_stopped, settle};
use crate::testing::instance::{Instance, Snapshot};
use duroxide::OrchestrationRegistry;
use duroxide::providers::WorkItem;
use duroxide::runtime::registry::ActivityRegistry;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The instance that [`Simulation::run`] starts.
const MAIN: &str = "main";

/// Driving.
impl Simulation {
    /// Starts an orchestration as instance `main`, and skips time until it has ended or nothing can happen any more.
    ///
    /// # Panics
    /// When a run was started before: use [`start`](Simulation::start) for several instances.
    #[track_caller]
    pub fn run(&mut self, orchestration: &str, input: impl Into<String>) -> Instance {
        self.start(MAIN, orchestration, input);
        self.run_to_end(MAIN)
    }

    /// The same with an input as JSON.
    ///
    /// # Panics
    /// See [`run`](Simulation::run); and when the input cannot be written as JSON.
    #[track_caller]
    pub fn run_typed(&mut self, orchestration: &str, input: &impl Serialize) -> Instance {
        self.run(orchestration, json(input))
    }

    /// The same at a version.
    ///
    /// # Panics
    /// See [`run`](Simulation::run).
    #[track_caller]
    pub fn run_version(&mut self, orchestration: &str, version: &str, input: impl Into<String>) -> Instance {
        self.start_version(MAIN, orchestration, version, input);
        self.run_to_end(MAIN)
    }

    /// Starts an instance. Nothing runs yet.
    ///
    /// # Panics
    /// When there is an instance of this id, or duroxide refuses the id.
    #[track_caller]
    pub fn start(&mut self, id: &str, orchestration: &str, input: impl Into<String>) {
        self.assert_new(id);
        let input = input.into();
        self.ask(|client| async move { client.start_orchestration(id, orchestration, input).await });
        self.send_later(id);
    }

    /// The same with an input as JSON.
    ///
    /// # Panics
    /// See [`start`](Simulation::start); and when the input cannot be written as JSON.
    #[track_caller]
    pub fn start_typed(&mut self, id: &str, orchestration: &str, input: &impl Serialize) {
        self.start(id, orchestration, json(input));
    }

    /// The same at a version.
    ///
    /// # Panics
    /// See [`start`](Simulation::start).
    #[track_caller]
    pub fn start_version(&mut self, id: &str, orchestration: &str, version: &str, input: impl Into<String>) {
        self.assert_new(id);
        let input = input.into();
        self.ask(|client| async move {
            client
                .start_orchestration_versioned(id, orchestration, version, input)
                .await
        });
        self.send_later(id);
    }

    /// Sends what was planned for the instance that is started next.
    fn send_later(&mut self, id: &str) {
        for later in std::mem::take(&mut self.later) {
            let instance = id.to_owned();
            let item = match later.what {
                What::Sent(sent) => sent.to(instance),
                What::Cancel(reason) => WorkItem::CancelInstance { instance, reason },
            };
            let store = self.store();
            let sent = store.change(|state, now| state.send(now, item, Some(later.after)));
            sent.expect("it is a message for an instance");
        }
    }

    #[track_caller]
    fn assert_new(&mut self, id: &str) {
        let store = self.store();
        let state = store.state();
        let is_there = state.instances.contains_key(id) || state.messages.iter().any(|message| message.instance == id);
        assert!(
            !is_there,
            "there is an instance `{id}` already: start another id, or make another simulation"
        );
    }

    /// Raises an event now. duroxide drops it if the instance does not wait for it at its next turn.
    #[track_caller]
    pub fn raise(&mut self, id: &str, event: &str, data: impl Into<String>) {
        let data = data.into();
        self.ask(|client| async move { client.raise_event(id, event, data).await });
    }

    /// Sends a message to a queue now.
    #[track_caller]
    pub fn enqueue(&mut self, id: &str, queue: &str, message: impl Into<String>) {
        let message = message.into();
        self.ask(|client| async move { client.enqueue_event(id, queue, message).await });
    }

    /// Cancels an instance now.
    #[track_caller]
    pub fn cancel(&mut self, id: &str, reason: impl Into<String>) {
        let reason = reason.into();
        self.ask(|client| async move { client.cancel_instance(id, reason).await });
    }

    /// Moves time on, and runs all that becomes due. `Duration::ZERO` runs what is due now.
    ///
    /// # Panics
    /// When time cannot move on: an activity has not ended within 15 minutes, or the simulation has run as many turns as it may
    /// ([`most_turns`](Simulation::most_turns)).
    #[track_caller]
    pub fn advance(&mut self, time: Duration) {
        let store = self.store();
        let until = store.clock.now_ms() + time.as_millis() as u64;
        let (script, most) = (Arc::clone(&self.script), self.most_turns);
        self.enter(async move {
            settle(&store, &script, most).await;
            if time > Duration::ZERO {
                let until = store.clock.instant(until);
                while !is_stopped(&script, most) {
                    let passed = tokio::time::timeout_at(until, store.changed.notified()).await;
                    if passed.is_err() {
                        break;
                    }
                }
                settle(&store, &script, most).await;
            }
        });
        if let Some(reason) = self.stopped() {
            panic!("the simulation cannot advance: {reason}");
        }
    }

    /// Skips time until an instance has ended, or until nothing can happen any more.
    #[track_caller]
    pub fn run_to_end(&mut self, id: &str) -> Instance {
        let store = self.store();
        let (script, most) = (Arc::clone(&self.script), self.most_turns);
        self.enter(async {
            loop {
                let mut changed = std::pin::pin!(store.changed.notified());
                changed.as_mut().enable();
                if has_ended(&store.state(), id) || is_over(&store, &script, most) {
                    break;
                }
                changed.await;
            }
            settle(&store, &script, most).await;
        });
        self.instance(id)
    }

    /// Replaces the build: all instances go on with these registries. Closures, failures and crashes stay as they are set.
    /// What was blocked is tried again. What is due and has not run is left to the new build: [`advance`](Simulation::advance) before it
    /// runs it on the old one. An activity that is in flight is lost with its process, and delivered again.
    pub fn upgrade(&mut self, orchestrations: OrchestrationRegistry, activities: ActivityRegistry) {
        let store = self.store();
        if let Some(running) = self.running.take() {
            self.enter(running.runtime.shutdown(Some(0)));
        }
        // An activity that does not end is begun again.
        self.script().hangs = None;
        store.change(|state, _| {
            // What was in flight died with its process.
            state.locks.clear();
            for work in &mut state.work {
                work.lock = None;
            }
            state.unblock();
        });
        self.user = (orchestrations, activities);
        self.running = Some(self.build(store));
    }

    /// What is known of an instance now.
    ///
    /// # Panics
    /// When there is none of this id.
    #[track_caller]
    pub fn instance(&mut self, id: &str) -> Instance {
        let snapshot = Arc::new(self.snapshot());
        let found = Instance::find(&snapshot, id);
        found.unwrap_or_else(|| panic!("there is no instance `{id}`; there are: {}", snapshot.ids().join(", ")))
    }

    /// The ids of all instances, children and detached ones included.
    pub fn instances(&mut self) -> Vec<String> {
        self.snapshot().ids()
    }

    /// The virtual time.
    pub fn now(&mut self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.store().clock.now_ms())
    }

    fn stopped(&self) -> Option<String> {
        self.script().stopped(self.most_turns)
    }

    fn snapshot(&mut self) -> Snapshot {
        let store = self.store();
        let orchestrations = self.user.0.clone();
        Snapshot::of(
            &store,
            &self.activities,
            orchestrations,
            &self.script(),
            self.most_turns,
        )
    }
}

#[track_caller]
fn json(input: &impl Serialize) -> String {
    match serde_json::to_string(input) {
        Ok(text) => text,
        Err(error) => panic!("the input cannot be written as JSON: {error}"),
    }
}
