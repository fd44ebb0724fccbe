//! The reads of a turn: the *view* (lock, instance, due messages) and the *past* (history and keys).

use crate::error::Failure;
use crate::model::sql::{HISTORY, INSTANCE, KV, LOCK, TURN};
use crate::model::{ExecutionState, Header, HistoryDoc, HistoryError, InstanceDoc, Kind, KvDoc, MessageDoc, assemble};
use crate::store::{Locked, Store, Stored};
use cosmos::{PageOptions, PartitionKey, Query};
use duroxide::Event;
use serde_json::value::RawValue;

/// Documents of one page. A turn takes at most the messages of one page; the rest waits for the next turn.
const PAGE: u32 = 1000;

/// What decides whether there is a turn to run.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub lock: Option<Locked>,
    pub instance: Option<InstanceDoc>,
    pub messages: Vec<MessageDoc>,
    /// More messages are due than a turn takes.
    pub more: bool,
    /// Why lock or instance cannot be decoded: nothing may be done with the instance then.
    pub foreign: Option<String>,
    /// Why a message cannot be decoded. It stays.
    pub foreign_message: Option<String>,
}

impl View {
    /// Whether lock and instance are of the same commit. They are written together: if they differ, a replica answered
    /// that was between two commits.
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

    /// Whether the newest key document was read.
    pub(crate) fn has_keys_of(&self, instance: &InstanceDoc) -> bool {
        self.kv.iter().map(|doc| doc.rev).max().unwrap_or(0) == instance.kv_rev
    }

    /// Whether the whole history of the execution was read. It may still be corrupt.
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

/// Lock, instance and what is due at `now_ms`, in one request.
pub(crate) async fn view(store: &Store, pk: &PartitionKey, now_ms: u64) -> Result<View, Failure> {
    let query = Query::new(format!("SELECT * FROM c WHERE c.type IN ({LOCK}, {INSTANCE}) OR (c.queue = {TURN} AND c.dueAt <= @now) ORDER BY c.sortKey"))
    .param("@now", now_ms);
    let mut view = View::default();
    let mut page = PageOptions {
        max_items: Some(PAGE),
        continuation: None,
    };
    loop {
        let answer = store.container.query_page::<Box<RawValue>>(pk, &query, &page).await?;
        for raw in &answer.items {
            view.take(pk, raw);
        }
        view.more = answer.continuation.is_some();
        // A page may be short or empty and still continue. The first one with messages is enough: lock and instance come
        // before them in the order.
        if !view.messages.is_empty() || answer.continuation.is_none() {
            return Ok(view);
        }
        page.continuation = answer.continuation;
    }
}

/// History of one execution, and all keys.
pub(crate) async fn past(store: &Store, pk: &PartitionKey, execution: u64) -> Result<Past, Failure> {
    let query = Query::new(format!(
        "SELECT * FROM c WHERE (c.type = {HISTORY} AND c.execution = @execution) OR c.type = {KV}"
    ))
    .param("@execution", execution);
    let mut past = Past::default();
    for raw in store.container.query::<Box<RawValue>>(pk, &query).await? {
        match Stored::decode(&raw)? {
            Stored::History(doc) => past.history.push(doc),
            Stored::Kv(doc) => past.kv.push(doc),
            _ => {}
        }
    }
    Ok(past)
}

impl View {
    fn take(&mut self, pk: &PartitionKey, raw: &RawValue) {
        match Stored::decode(raw) {
            Ok(Stored::Lock(lock)) => self.lock = Some(lock),
            Ok(Stored::Instance(instance)) => self.instance = Some(instance),
            Ok(Stored::Message(message)) => self.messages.push(message),
            Ok(_) => {}
            // A document of a newer version must neither block the instance nor be lost: it stays.
            Err(error) => {
                tracing::error!(instance = pk.as_str(), %error, "a document cannot be decoded");
                let kind = serde_json::from_str::<Header>(raw.get()).map_or(Kind::Unknown, |header| header.kind);
                match kind {
                    Kind::Lock | Kind::Instance => self.foreign = Some(error.to_string()),
                    _ => self.foreign_message = Some(error.to_string()),
                }
            }
        }
    }
}
