//! A copy of all instances at one moment.

use super::Outcome;
use crate::testing::faults::Crash;
use crate::testing::registries::{Activities, Call};
use crate::testing::stage::Script;
use crate::testing::store::{Execution, MemoryStore};
use crate::testing::waits::waits;
use duroxide::{Event, EventKind, OrchestrationRegistry};
use std::collections::BTreeMap;

/// A snapshot of all instances.
pub(crate) struct Snapshot {
    pub instances: BTreeMap<String, Seen>,
    pub calls: Vec<Call>,
    pub began_ms: u64,
    pub now_ms: u64,
    pub orchestrations: OrchestrationRegistry,
    /// Turns, and deliveries of activities.
    pub steps: (u32, u32),
    /// Why the simulation does not go on, though something could happen.
    pub stopped: Option<String>,
    /// The crashes that have happened.
    pub crashes: Vec<Crash>,
    /// What is planned and has not happened.
    pub unused: Vec<String>,
    pub has_redelivery: bool,
}

/// One instance of it.
pub(crate) struct Seen {
    pub name: String,
    pub version: Option<String>,
    pub parent: Option<String>,
    pub executions: BTreeMap<u64, Execution>,
    pub outcome: Outcome,
    pub custom_status: Option<String>,
    pub keys: BTreeMap<String, String>,
}

impl Snapshot {
    pub fn of(
        store: &MemoryStore,
        activities: &Activities,
        orchestrations: OrchestrationRegistry,
        script: &Script,
        most_turns: u32,
    ) -> Snapshot {
        let state = store.state();
        let now_ms = store.clock.now_ms();
        let mut instances = BTreeMap::new();
        // An instance that was blocked or not served in its first turn has no record: its start says what it is.
        let queued = state.messages.iter().map(|message| &message.instance);
        for id in state.instances.keys().chain(state.blocked.keys()).chain(queued) {
            let record = state.instances.get(id);
            let start = state.start_of(id);
            let last = record.and_then(|record| record.executions.get(&record.execution));
            let events = last.map(|execution| execution.events.as_slice()).unwrap_or_default();
            let outcome = match (outcome(events), state.blocked.get(id)) {
                (Some(outcome), _) => outcome,
                (None, Some(reason)) => Outcome::Blocked(reason.clone()),
                (None, None) => {
                    let blocked = state.work.iter().filter_map(|work| work.blocked_for(id));
                    Outcome::Waiting(waits(events, now_ms, blocked.collect()))
                }
            };
            let seen = Seen {
                name: record.map_or(start.name, |record| record.name.clone()),
                version: record.map_or(start.version, |record| record.version.clone()),
                parent: record.map_or(start.parent, |record| record.parent.clone()),
                executions: record.map(|record| record.executions.clone()).unwrap_or_default(),
                outcome,
                custom_status: record.and_then(|record| record.custom_status.clone()),
                keys: record.map(|record| record.keys()).unwrap_or_default(),
            };
            instances.insert(id.clone(), seen);
        }
        Snapshot {
            instances,
            calls: activities.calls(),
            began_ms: store.clock.began_ms(),
            now_ms,
            orchestrations,
            steps: (script.turns, script.runs),
            stopped: script.stopped(most_turns),
            crashes: script.happened(),
            unused: [script.unused(), activities.unused()].concat(),
            has_redelivery: script.redelivery.is_some(),
        }
    }

    pub fn ids(&self) -> Vec<String> {
        self.instances.keys().cloned().collect()
    }
}

fn outcome(events: &[Event]) -> Option<Outcome> {
    events.iter().rev().find_map(|event| match &event.kind {
        EventKind::OrchestrationCompleted { output } => Some(Outcome::Completed(output.clone())),
        EventKind::OrchestrationFailed { details } => Some(Outcome::Failed(details.clone())),
        _ => None,
    })
}
