//! What the store keeps: instances with their executions, messages, activities, affinity sessions.

use duroxide::providers::{KvEntry, ProviderError, WorkItem};
use duroxide::{Event, EventKind, SystemStats};
use std::collections::BTreeMap;

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub instances: BTreeMap<String, Record>,
    /// Locks of turns, by instance. A lock may be older than the instance: its first turn creates it.
    pub locks: BTreeMap<String, Lock>,
    pub messages: Vec<Message>,
    pub work: Vec<Work>,
    pub sessions: BTreeMap<String, Session>,
    /// Instances that get no turn, and why.
    pub blocked: BTreeMap<String, String>,
    last_number: u64,
    /// How many messages and activities have become visible, for those who wait.
    news: (usize, usize),
}

/// One instance.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub name: String,
    pub version: Option<String>,
    pub parent: Option<String>,
    pub execution: u64,
    pub executions: BTreeMap<u64, Execution>,
    pub custom_status: Option<String>,
    pub status_version: u64,
    /// Keys as the earlier executions left them: what duroxide starts an execution with.
    pub kept: BTreeMap<String, KvEntry>,
    /// Changes of this execution; `None` is a deleted key.
    pub changed: BTreeMap<String, Option<KvEntry>>,
}

/// One execution of an instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Execution {
    pub events: Vec<Event>,
    pub status: Option<String>,
    pub output: Option<String>,
    pub pinned: Option<semver::Version>,
    /// The keys that it found.
    pub found: BTreeMap<String, KvEntry>,
}

/// What the message that starts an instance says of it.
#[derive(Debug, Default)]
pub(crate) struct Start {
    pub name: String,
    pub version: Option<String>,
    pub parent: Option<String>,
}

/// A claim until a time.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    pub token: String,
    pub until: u64,
}

impl Lock {
    pub fn holds(&self, now: u64) -> bool {
        self.until > now
    }
}

/// A message for an instance's next turn.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub instance: String,
    pub item: WorkItem,
    /// The order within a turn: when it was due first, and when it came.
    pub order: (u64, u64),
    pub due: u64,
    pub attempts: u32,
    /// The turn that has taken it.
    pub token: Option<String>,
}

/// An activity to run.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub item: WorkItem,
    pub number: u64,
    pub due: u64,
    pub attempts: u32,
    pub lock: Option<Lock>,
    /// When its current attempt began.
    pub since: u64,
    /// Why it is given to nobody.
    pub blocked: Option<String>,
}

/// An affinity session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub owner: String,
    pub until: u64,
    pub active: u64,
}

impl State {
    pub fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub fn token(&mut self) -> String {
        format!("lock-{}", self.number())
    }

    pub fn news_for_turns(&mut self) {
        self.news.0 += 1;
    }

    pub fn news_for_work(&mut self) {
        self.news.1 += 1;
    }

    pub fn take_news(&mut self) -> (usize, usize) {
        std::mem::take(&mut self.news)
    }

    pub fn history(&self, instance: &str, execution: Option<u64>) -> Vec<Event> {
        let record = self.instances.get(instance);
        let execution = record.and_then(|record| record.executions.get(&execution.unwrap_or(record.execution)));
        execution.map(|execution| execution.events.clone()).unwrap_or_default()
    }

    /// What the queued start of an instance says of it.
    pub fn start_of(&self, id: &str) -> Start {
        let mut messages = self.messages.iter().filter(|message| message.instance == id);
        let start = messages.find_map(|message| match &message.item {
            WorkItem::StartOrchestration {
                orchestration,
                version,
                parent_instance,
                ..
            } => Some(Start {
                name: orchestration.clone(),
                version: version.clone(),
                parent: parent_instance.clone(),
            }),
            _ => None,
        });
        start.unwrap_or_default()
    }

    /// Appends events to an execution.
    pub fn append(&mut self, instance: &str, execution: u64, events: Vec<Event>) -> Result<(), ProviderError> {
        let record = self.instances.entry(instance.to_owned()).or_default();
        record.execution = record.execution.max(execution);
        let kept = &record.kept;
        let execution = record.executions.entry(execution).or_insert_with(|| Execution {
            found: kept.clone(),
            ..Execution::default()
        });
        for event in events {
            if execution.events.iter().any(|known| known.event_id == event.event_id) {
                let text = format!("event {} is there already", event.event_id);
                return Err(ProviderError::permanent("ack_orchestration_item", text));
            }
            execution.events.push(event);
        }
        execution.events.sort_by_key(|event| event.event_id);
        Ok(())
    }

    pub fn stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        let Some(record) = self.instances.get(instance) else {
            return Ok(None);
        };
        let events = self.history(instance, None);
        let mut bytes = 0;
        for event in &events {
            let text = serde_json::to_string(event)
                .map_err(|error| ProviderError::permanent("get_instance_stats", error.to_string()))?;
            bytes += text.len() as u64;
        }
        let carried = events.iter().find_map(|event| match &event.kind {
            EventKind::OrchestrationStarted {
                carry_forward_events, ..
            } => carry_forward_events.as_ref().map(Vec::len),
            _ => None,
        });
        let keys = record.keys();
        Ok(Some(SystemStats {
            history_event_count: events.len() as u64,
            history_size_bytes: bytes,
            queue_pending_count: carried.unwrap_or_default() as u64,
            kv_user_key_count: keys.len() as u64,
            kv_total_value_bytes: keys.values().map(|value| value.len() as u64).sum(),
        }))
    }
}

impl Record {
    /// The execution in which the instance has ended.
    pub fn end(&self) -> Option<&Execution> {
        let execution = self.executions.get(&self.execution);
        execution.filter(|execution| matches!(execution.status.as_deref(), Some("Completed" | "Failed")))
    }

    /// The keys as a client sees them.
    pub fn keys(&self) -> BTreeMap<String, String> {
        let mut keys: BTreeMap<_, _> = self
            .kept
            .iter()
            .map(|(key, entry)| (key.clone(), entry.value.clone()))
            .collect();
        for (key, entry) in &self.changed {
            match entry {
                Some(entry) => drop(keys.insert(key.clone(), entry.value.clone())),
                None => drop(keys.remove(key)),
            }
        }
        keys
    }

    /// What an event does to the custom status and the keys.
    pub fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::KeyValueSet {
                key,
                value,
                last_updated_at_ms,
            } => {
                let entry = KvEntry {
                    value: value.clone(),
                    last_updated_at_ms: *last_updated_at_ms,
                };
                self.changed.insert(key.clone(), Some(entry));
            }
            EventKind::KeyValueCleared { key } => drop(self.changed.insert(key.clone(), None)),
            EventKind::KeyValuesCleared => {
                let all = self.kept.keys().chain(self.changed.keys()).cloned();
                self.changed = all.map(|key| (key, None)).collect();
            }
            _ => {}
        }
    }

    /// The execution has ended: the next one finds its keys.
    pub fn keep_keys(&mut self) {
        for (key, entry) in std::mem::take(&mut self.changed) {
            match entry {
                Some(entry) => drop(self.kept.insert(key, entry)),
                None => drop(self.kept.remove(&key)),
            }
        }
    }
}
