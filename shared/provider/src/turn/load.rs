//! The reads of a turn: the *view* (lock, instance, visible messages) and the *past* (history and keys).

use crate::error::Failure;
use crate::model::{ExecutionState, HistoryDoc, HistoryError, InstanceDoc, KvDoc, MessageDoc, assemble};
use crate::store::{Locked, Store, Stored};
use cosmos::{PageOptions, PartitionKey, Query};
use duroxide::Event;
use serde_json::value::RawValue;

/// The most documents of one page: a turn takes at most what one page holds, the rest waits for the next turn.
const PAGE: u32 = 1000;

/// What decides whether there is a turn to run.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub lock: Option<Locked>,
    pub instance: Option<InstanceDoc>,
    pub messages: Vec<MessageDoc>,
    /// More messages are due than a turn takes.
    pub more: bool,
}

impl View {
    /// Whether lock and instance are of the same commit. They are written together, so if they differ the answer
    /// came from a replica in between.
    pub(crate) fn is_coherent(&self) -> bool {
        let lock = self.lock.as_ref().map_or("", |lock| lock.doc.last_commit());
        self.instance.as_ref().map_or("", |instance| instance.commit.as_str()) == lock
    }
}

/// What a turn replays.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub history: Vec<HistoryDoc>,
    pub kv: Vec<KvDoc>,
}

impl Past {
    /// The events of an execution.
    pub(crate) fn events(history: Vec<HistoryDoc>, state: &ExecutionState) -> Result<Vec<Event>, HistoryError> {
        let docs = history
            .into_iter()
            .filter(|doc| doc.execution == state.execution)
            .collect();
        assemble(&state.head, state.events, docs)
    }

    /// Whether the newest key document is there.
    pub(crate) fn has_keys_of(&self, instance: &InstanceDoc) -> bool {
        self.kv.iter().map(|doc| doc.rev).max().unwrap_or(0) == instance.kv_rev
    }

    /// Whether the history of the current execution is all there (it may still be corrupt).
    pub(crate) fn has_history_of(&self, state: &ExecutionState) -> bool {
        let mut events = 0;
        let mut at = state.head.as_str();
        while !at.is_empty() {
            let mut prev = None;
            for doc in self
                .history
                .iter()
                .filter(|doc| doc.execution == state.execution && doc.commit == at)
            {
                events += doc.events.len() as u64;
                prev = Some(doc.prev.as_str());
            }
            let Some(prev) = prev else { break };
            at = prev;
        }
        events == state.events
    }
}

impl Store {
    /// Lock, instance and what is due at `now_ms`, in one request.
    pub(crate) async fn view(&self, pk: &PartitionKey, now_ms: u64) -> Result<View, Failure> {
        let query = Query::new(
            "SELECT * FROM c WHERE c.type IN ('lock', 'instance') \
             OR (c.queue = 'turn' AND c.dueAt <= @now) ORDER BY c.sortKey",
        )
        .param("@now", now_ms);
        let mut view = View::default();
        let mut page = PageOptions {
            max_items: Some(PAGE),
            continuation: None,
        };
        loop {
            let answer = self.container.query_page::<Box<RawValue>>(pk, &query, &page).await?;
            for raw in &answer.items {
                view.take(pk, raw);
            }
            view.more = answer.continuation.is_some();
            // A page may be cut short, or be empty, and still continue. The first one with messages is enough: lock and
            // instance come before them in the order.
            if !view.messages.is_empty() || answer.continuation.is_none() {
                return Ok(view);
            }
            page.continuation = answer.continuation;
        }
    }

    /// History of one execution, and all keys.
    pub(crate) async fn past(&self, pk: &PartitionKey, execution: u64) -> Result<Past, Failure> {
        let query =
            Query::new("SELECT * FROM c WHERE (c.type = 'history' AND c.execution = @execution) OR c.type = 'kv'")
                .param("@execution", execution);
        let mut past = Past::default();
        for raw in self.container.query::<Box<RawValue>>(pk, &query).await? {
            match Stored::decode(&raw)? {
                Stored::History(doc) => past.history.push(doc),
                Stored::Kv(doc) => past.kv.push(doc),
                _ => {}
            }
        }
        Ok(past)
    }
}

impl View {
    fn take(&mut self, pk: &PartitionKey, raw: &RawValue) {
        match Stored::decode(raw) {
            Ok(Stored::Lock(lock)) => self.lock = Some(lock),
            Ok(Stored::Instance(instance)) => self.instance = Some(instance),
            Ok(Stored::Message(message)) => self.messages.push(message),
            Ok(_) => {}
            // A document of a newer version must not stall the instance, nor be lost: it stays where it is.
            Err(error) => tracing::error!(instance = pk.as_str(), %error, "a document of the queue cannot be read"),
        }
    }
}
