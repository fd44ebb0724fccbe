//! Messages, turns and their commits.

use super::state::{Lock, Message, State};
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, ProviderError, ScheduledActivityIdentifier,
    WorkItem,
};
use duroxide::{Event, EventKind, INITIAL_EXECUTION_ID};
use std::collections::BTreeSet;
use std::time::Duration;

/// What a turn commits.
#[derive(Debug)]
pub(crate) struct Commit {
    pub execution: u64,
    pub events: Vec<Event>,
    pub work: Vec<WorkItem>,
    pub messages: Vec<WorkItem>,
    pub metadata: ExecutionMetadata,
    pub cancelled: Vec<ScheduledActivityIdentifier>,
}

/// The instance that a message is for.
pub(crate) fn target(item: &WorkItem) -> Option<&str> {
    match item {
        WorkItem::StartOrchestration { instance, .. }
        | WorkItem::ActivityCompleted { instance, .. }
        | WorkItem::ActivityFailed { instance, .. }
        | WorkItem::TimerFired { instance, .. }
        | WorkItem::ExternalRaised { instance, .. }
        | WorkItem::QueueMessage { instance, .. }
        | WorkItem::CancelInstance { instance, .. }
        | WorkItem::ContinueAsNew { instance, .. } => Some(instance),
        WorkItem::SubOrchCompleted { parent_instance, .. } | WorkItem::SubOrchFailed { parent_instance, .. } => {
            Some(parent_instance)
        }
        _ => None,
    }
}

fn starts(item: &WorkItem) -> Option<(&str, Option<&str>)> {
    match item {
        WorkItem::StartOrchestration {
            orchestration, version, ..
        }
        | WorkItem::ContinueAsNew {
            orchestration, version, ..
        } => Some((orchestration, version.as_deref())),
        _ => None,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn invalid(operation: &str, text: &str) -> ProviderError {
    ProviderError::permanent(operation, text)
}

impl State {
    /// Queues a message. A timer is due at its time, others after the delay.
    pub fn send(&mut self, now: u64, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
        let Some(instance) = target(&item) else {
            return Err(invalid(
                "enqueue_for_orchestrator",
                "this is no message for an instance",
            ));
        };
        let due = match (&item, delay) {
            (WorkItem::TimerFired { fire_at_ms, .. }, None) => *fire_at_ms,
            (_, delay) => now.saturating_add(millis(delay.unwrap_or_default())),
        };
        let message = Message {
            instance: instance.to_owned(),
            order: (due.max(now), self.number()),
            item,
            due,
            attempts: 0,
            token: None,
        };
        self.messages.push(message);
        self.news_for_turns();
        Ok(())
    }

    /// Whether a turn could take something for this instance. What comes before the start waits for it.
    fn has_start(&self, instance: &str, now: u64) -> bool {
        let mut due = self.due(instance, now);
        self.instances.contains_key(instance) || due.any(|message| starts(&message.item).is_some())
    }

    fn due<'a>(&'a self, instance: &'a str, now: u64) -> impl Iterator<Item = &'a Message> {
        let is_due = move |message: &&Message| message.instance == instance && message.due <= now;
        self.messages.iter().filter(is_due)
    }

    /// Whether an instance is blocked and gets no turn by this time. A cancellation ends a blocked one, so that gets a turn.
    pub fn is_shut(&self, instance: &str, now: u64) -> bool {
        let cancels = |message: &Message| matches!(message.item, WorkItem::CancelInstance { .. });
        self.blocked.contains_key(instance) && !self.due(instance, now).any(cancels)
    }

    fn is_locked(&self, instance: &str, now: u64) -> bool {
        self.locks.get(instance).is_some_and(|lock| lock.holds(now))
    }

    /// When a message becomes due next.
    pub fn next_turn_due(&self, now: u64) -> Option<u64> {
        let later = self.messages.iter().map(|message| message.due);
        later.filter(|due| *due > now).min()
    }

    /// Whether a message could still lead to a turn, now or later. One without an instance waits for a start, which is not a turn.
    pub fn has_turns(&self) -> bool {
        let leads = |message: &Message| {
            !self.is_shut(&message.instance, u64::MAX) && self.has_start(&message.instance, u64::MAX)
        };
        self.messages.iter().any(leads)
    }

    /// Takes the first instance with something due, and all that is due for it.
    pub fn claim_turn(
        &mut self,
        now: u64,
        lock: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Option<(OrchestrationItem, String, u32)> {
        self.drop_orphans(now);
        let fits = |instance: &str| {
            let Some(filter) = filter else { return true };
            let pinned = self.instances.get(instance).and_then(|record| {
                let execution = record.executions.get(&record.execution)?;
                execution.pinned.as_ref()
            });
            !filter.supported_duroxide_versions.is_empty() && pinned.is_none_or(|pinned| filter.is_compatible(pinned))
        };
        let due = self.messages.iter().filter(|message| message.due <= now);
        let free = due.filter(|message| {
            let instance = message.instance.as_str();
            let is_free = !self.is_shut(instance, now) && !self.is_locked(instance, now);
            is_free && self.has_start(instance, now) && fits(instance)
        });
        let instance = free.min_by_key(|message| message.order)?.instance.clone();
        let token = self.token();
        let until = now.saturating_add(millis(lock));
        let held = Lock {
            token: token.clone(),
            until,
        };
        self.locks.insert(instance.clone(), held);
        let mut taken = Vec::new();
        for message in &mut self.messages {
            if message.instance == instance && message.due <= now {
                message.token = Some(token.clone());
                message.attempts += 1;
                taken.push(message.clone());
            }
        }
        taken.sort_by_key(|message| message.order);
        let attempts = taken.iter().map(|message| message.attempts).max().unwrap_or_default();
        Some((self.item(instance, taken), token, attempts))
    }

    fn item(&self, instance: String, taken: Vec<Message>) -> OrchestrationItem {
        let record = self.instances.get(&instance);
        let start = taken.iter().find_map(|message| starts(&message.item));
        let unknown = || "unknown".to_owned();
        let (orchestration_name, version) = match record {
            Some(record) => (record.name.clone(), record.version.clone().unwrap_or_else(unknown)),
            None => start.map_or_else(
                || (unknown(), unknown()),
                |(name, version)| (name.to_owned(), version.map_or_else(unknown, str::to_owned)),
            ),
        };
        OrchestrationItem {
            orchestration_name,
            version,
            execution_id: record.map_or(INITIAL_EXECUTION_ID, |record| record.execution),
            history: self.history(&instance, None),
            history_error: None,
            kv_snapshot: record
                .map(|record| record.kept.clone().into_iter().collect())
                .unwrap_or_default(),
            messages: taken.into_iter().map(|message| message.item).collect(),
            instance,
        }
    }

    /// Drops messages of queues to instances that do not exist: duroxide keeps them for no start.
    fn drop_orphans(&mut self, now: u64) {
        let orphaned = |instance: &str| {
            let is_queued = |message: &Message| matches!(message.item, WorkItem::QueueMessage { .. });
            !self.has_start(instance, now) && self.due(instance, now).all(is_queued)
        };
        let due = self.messages.iter().filter(|message| message.due <= now);
        let orphans: BTreeSet<String> = due
            .map(|message| message.instance.as_str())
            .filter(|instance| orphaned(instance))
            .map(str::to_owned)
            .collect();
        self.messages
            .retain(|message| message.due > now || !orphans.contains(&message.instance));
    }

    fn holder(&self, token: &str) -> Option<(String, Lock)> {
        let held = self.locks.iter().find(|(_, lock)| lock.token == token);
        held.map(|(instance, lock)| (instance.clone(), lock.clone()))
    }

    /// The instance whose turn holds this lock.
    pub fn turn_of(&self, token: &str) -> Option<String> {
        self.holder(token).map(|(instance, _)| instance)
    }

    /// Commits a turn, whole or not at all.
    pub fn commit_turn(&mut self, now: u64, token: &str, commit: Commit) -> Result<(), ProviderError> {
        let operation = "ack_orchestration_item";
        let Some((instance, lock)) = self.holder(token) else {
            return Err(invalid(operation, "Invalid lock token"));
        };
        if !lock.holds(now) {
            return Err(invalid(operation, "Instance lock expired"));
        }
        let known = self.history(&instance, Some(commit.execution));
        if let Some(twice) = commit
            .events
            .iter()
            .find(|event| known.iter().any(|known| known.event_id == event.event_id))
        {
            return Err(invalid(
                operation,
                &format!("event {} is there already", twice.event_id),
            ));
        }
        self.locks.remove(&instance);
        self.blocked.remove(&instance);
        self.messages.retain(|message| message.token.as_deref() != Some(token));
        self.record(&instance, &commit)?;
        for item in commit.work {
            self.schedule(now, item);
        }
        self.cancel_work(&commit.cancelled);
        for item in commit.messages {
            // What is no message is left out, as in duroxide's own store.
            if target(&item).is_some() {
                self.send(now, item, None)?;
            }
        }
        // What came meanwhile was locked until now.
        self.news_for_turns();
        Ok(())
    }

    /// The instance as the turn leaves it.
    fn record(&mut self, instance: &str, commit: &Commit) -> Result<(), ProviderError> {
        let metadata = &commit.metadata;
        let exists = self.instances.contains_key(instance);
        if !exists && metadata.orchestration_name.is_none() && commit.events.is_empty() {
            return Ok(());
        }
        self.append(instance, commit.execution, commit.events.clone())?;
        let record = self.instances.entry(instance.to_owned()).or_default();
        if !exists {
            record.parent.clone_from(&metadata.parent_instance_id);
        }
        if let (Some(name), Some(version)) = (&metadata.orchestration_name, &metadata.orchestration_version) {
            record.name.clone_from(name);
            record.version = Some(version.clone());
        }
        if let Some(execution) = record.executions.get_mut(&commit.execution) {
            if metadata.pinned_duroxide_version.is_some() {
                execution.pinned.clone_from(&metadata.pinned_duroxide_version);
            }
            if metadata.status.is_some() {
                execution.status.clone_from(&metadata.status);
                execution.output.clone_from(&metadata.output);
            }
        }
        for event in &commit.events {
            record.apply(event);
        }
        let status = commit.events.iter().rev().find_map(|event| match &event.kind {
            EventKind::CustomStatusUpdated { status } => Some(status.clone()),
            _ => None,
        });
        if let Some(status) = status {
            record.custom_status = status;
            record.status_version += 1;
        }
        if metadata.status.is_some() {
            record.keep_keys();
        }
        Ok(())
    }

    /// Gives a turn back.
    pub fn abandon_turn(
        &mut self,
        now: u64,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let Some((instance, _)) = self.holder(token) else {
            return Err(invalid("abandon_orchestration_item", "Invalid lock token"));
        };
        self.locks.remove(&instance);
        for message in &mut self.messages {
            if message.token.as_deref() != Some(token) {
                continue;
            }
            message.token = None;
            if let Some(delay) = delay {
                message.due = now.saturating_add(millis(delay));
            }
            if ignore_attempt {
                message.attempts = message.attempts.saturating_sub(1);
            }
        }
        self.news_for_turns();
        Ok(())
    }

    pub fn renew_turn(&mut self, now: u64, token: &str, extend: Duration) -> Result<(), ProviderError> {
        let held = self
            .locks
            .values_mut()
            .find(|lock| lock.token == token && lock.holds(now));
        let Some(lock) = held else {
            return Err(invalid(
                "renew_orchestration_item_lock",
                "the lock is gone or has expired",
            ));
        };
        lock.until = now.saturating_add(millis(extend));
        Ok(())
    }
}
