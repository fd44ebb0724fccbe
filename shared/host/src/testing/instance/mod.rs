//! What a test sees of an instance: its outcome, its history, what its activities were asked for.

mod expect;
mod snapshot;

use super::faults::Crash;
use super::history::History;
use super::registries::Call;
use super::store::Execution;
use super::waits::Reached;
use crate::log::rfc3339;
use crate::replay::{self, FORMAT, Recording, Replayed, SavedKey, VERSION};
use duroxide::providers::KvEntry;
use duroxide::{Event, EventKind, OrchestrationRegistry};
pub use expect::Outcome;
use snapshot::Seen;
pub(super) use snapshot::Snapshot;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The activities that duroxide registers itself begin with this.
const BUILT_IN: &str = "__duroxide_syscall:";

/// An instance as it was when it was asked for.
///
/// Methods about activities that have run (`calls`, `inputs_of`, `runs_of`) cover its child orchestrations, too. The others are about
/// the instance alone.
#[derive(Clone)]
pub struct Instance {
    snapshot: Arc<Snapshot>,
    id: String,
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("id", &self.id)
            .field("outcome", &self.seen().outcome)
            .finish_non_exhaustive()
    }
}

/// What it did.
impl Instance {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name of its orchestration.
    pub fn orchestration(&self) -> &str {
        &self.seen().name
    }

    /// The version of its orchestration.
    pub fn version(&self) -> Option<&str> {
        self.seen().version.as_deref()
    }

    /// The runs of all activities, in order, those of its children and repeated ones included.
    pub fn calls(&self) -> Vec<Call> {
        let is_mine = |call: &&Call| self.is_ancestor_of(&call.instance);
        self.snapshot.calls.iter().filter(is_mine).cloned().collect()
    }

    /// The inputs with which an activity ran, in order.
    pub fn inputs_of(&self, activity: &str) -> Vec<String> {
        let calls = self.calls().into_iter().filter(|call| call.activity == activity);
        calls.map(|call| call.input).collect()
    }

    /// How often an activity ran.
    pub fn runs_of(&self, activity: &str) -> usize {
        self.inputs_of(activity).len()
    }

    /// The activities that its code has asked for, in order. One that ran twice because of a crash is there once.
    pub fn activities(&self) -> Vec<String> {
        let names = self.events().into_iter().filter_map(|event| match event.kind {
            EventKind::ActivityScheduled { name, .. } => Some(name),
            _ => None,
        });
        names.filter(|name| !name.starts_with(BUILT_IN)).collect()
    }

    /// The delays of its timers, in order.
    pub fn timers(&self) -> Vec<Duration> {
        let timers = self.events().into_iter().filter_map(|event| match event.kind {
            EventKind::TimerCreated { fire_at_ms } => Some(fire_at_ms.saturating_sub(event.timestamp_ms)),
            _ => None,
        });
        timers.map(Duration::from_millis).collect()
    }

    /// The events that have reached a wait of it, and the messages that have come to its queues: names and data. An event that nobody
    /// waited for is not here: duroxide drops it.
    pub fn received(&self) -> Vec<(String, String)> {
        let mut received = Vec::new();
        for execution in self.seen().executions.values() {
            let reached = Reached::of(&execution.events);
            for event in &execution.events {
                match &event.kind {
                    EventKind::ExternalEvent { .. } if !reached.has(event) => {}
                    EventKind::ExternalEvent { name, data } | EventKind::QueueEventDelivered { name, data } => {
                        received.push((name.clone(), data.clone()));
                    }
                    _ => {}
                }
            }
        }
        received
    }

    /// Its custom status.
    pub fn custom_status(&self) -> Option<&str> {
        self.seen().custom_status.as_deref()
    }

    /// All custom statuses that it has had, in order.
    pub fn custom_statuses(&self) -> Vec<String> {
        let statuses = self.events().into_iter().filter_map(|event| match event.kind {
            EventKind::CustomStatusUpdated { status } => status,
            _ => None,
        });
        statuses.collect()
    }

    /// The value of one of its keys.
    pub fn key(&self, key: &str) -> Option<&str> {
        self.seen().keys.get(key).map(String::as_str)
    }

    /// All its keys.
    pub fn keys(&self) -> &BTreeMap<String, String> {
        &self.seen().keys
    }

    /// The virtual time from its start to its end, or until now.
    pub fn elapsed(&self) -> Duration {
        let events = self.events();
        let (first, last) = (events.first(), events.last());
        let began = first.map_or(self.snapshot.now_ms, |event| event.timestamp_ms);
        let ended = match self.outcome() {
            Outcome::Completed(_) | Outcome::Failed(_) => last.map(|event| event.timestamp_ms),
            _ => None,
        };
        Duration::from_millis(ended.unwrap_or(self.snapshot.now_ms).saturating_sub(began))
    }

    /// Its child orchestrations, by id.
    pub fn children(&self) -> Vec<Instance> {
        let all = self.snapshot.instances.iter();
        let mine = all.filter(|(_, seen)| seen.parent.as_deref() == Some(self.id.as_str()));
        mine.map(|(id, _)| Instance {
            snapshot: Arc::clone(&self.snapshot),
            id: id.clone(),
        })
        .collect()
    }

    /// How many executions it has: one more with each continue-as-new.
    pub fn executions(&self) -> usize {
        self.seen().executions.len()
    }

    /// The events of all its executions, as duroxide has recorded them, on virtual time.
    pub fn events(&self) -> Vec<Event> {
        let executions = self.seen().executions.values();
        executions.flat_map(|execution| execution.events.clone()).collect()
    }

    /// Its history and those of its children, for people.
    pub fn history(&self) -> History<'_> {
        History {
            snapshot: &self.snapshot,
            id: &self.id,
        }
    }

    /// The histories of its executions, in the format of `duroxide-lambda replay`: save them to check later builds against them.
    ///
    /// # Panics
    /// When an event cannot be written as JSON, which duroxide's can.
    pub fn recordings(&self) -> Vec<Recording> {
        let seen = self.seen();
        let recording = |(number, execution): (&u64, &Execution)| {
            let raw = |event: &Event| serde_json::value::to_raw_value(event).expect("events can be written as JSON");
            let key = |(key, entry): (&String, &KvEntry)| SavedKey {
                key: key.clone(),
                value: entry.value.clone(),
                set_at_ms: entry.last_updated_at_ms,
            };
            Recording {
                format: FORMAT.to_owned(),
                v: VERSION,
                instance: self.id.clone(),
                execution: *number,
                orchestration: seen.name.clone(),
                version: seen.version.clone().unwrap_or_default(),
                status: execution.status.clone().unwrap_or_else(|| "Running".to_owned()),
                saved_at: rfc3339(self.snapshot.now_ms),
                keys: Some(execution.found.iter().map(key).collect()),
                events: execution.events.iter().map(raw).collect(),
            }
        };
        seen.executions.iter().map(recording).collect()
    }

    /// Replays its executions on another build.
    pub fn replay_on(&self, orchestrations: &OrchestrationRegistry) -> Vec<Replayed> {
        let recordings = self.recordings().into_iter();
        recordings
            .map(|recording| replay::replay(recording, orchestrations))
            .collect()
    }
}

impl Instance {
    pub(super) fn find(snapshot: &Arc<Snapshot>, id: &str) -> Option<Instance> {
        let snapshot = snapshot.instances.contains_key(id).then(|| Arc::clone(snapshot))?;
        Some(Instance {
            snapshot,
            id: id.to_owned(),
        })
    }

    fn seen(&self) -> &Seen {
        &self.snapshot.instances[&self.id]
    }

    fn is_ancestor_of(&self, id: &str) -> bool {
        let mut id = Some(id);
        while let Some(this) = id {
            if this == self.id {
                return true;
            }
            id = self
                .snapshot
                .instances
                .get(this)
                .and_then(|seen| seen.parent.as_deref());
        }
        false
    }

    /// How many turns and deliveries of activities its simulation has had.
    pub(super) fn steps(&self) -> (u32, u32) {
        self.snapshot.steps
    }

    /// Whether this crash has happened in its simulation.
    pub(super) fn has_had(&self, crash: &Crash) -> bool {
        self.snapshot.crashes.contains(crash)
    }

    /// Whether its simulation says when a lost step is delivered again.
    pub(super) fn has_redelivery(&self) -> bool {
        self.snapshot.has_redelivery
    }
}
