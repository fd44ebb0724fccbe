//! The reads of a turn: the *view* (lock, instance, due messages) and the *past* (history and keys).

use crate::error::Failure;
use crate::model::sql::{HISTORY, INSTANCE, KV, LOCK, TURN};
use crate::model::{ExecutionState, Header, HistoryDoc, HistoryError, InstanceDoc, Kind, KvDoc, MessageDoc, assemble};
use crate::store::{Locked, Store, Stored};
use cosmos::{PageOptions, PartitionKey, Query};
use duroxide::Event;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// Documents of one page. A turn takes at most the messages of one page; the rest waits for the next turn.
const PAGE: u32 = 1000;
/// How many of the last history documents show how an execution ended: its last event is there, or just before the
/// cancellations that duroxide appends to it.
const TAIL: u32 = 3;

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
    /// Something is due that cannot be decoded: it may be anything, also the start.
    pub unreadable: bool,
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
    /// The history is only the end of that of the last turn, because the whole is too large.
    pub is_tail: bool,
}

impl Past {
    /// The events of an execution.
    pub(crate) fn events(self, state: &ExecutionState) -> Result<Vec<Event>, HistoryError> {
        let is_of = |doc: &HistoryDoc| doc.execution == state.execution;
        let docs: Vec<HistoryDoc> = self.history.into_iter().filter(is_of).collect();
        let expected = match self.is_tail {
            true => docs.iter().map(|doc| doc.events.len() as u64).sum(),
            false => state.events,
        };
        assemble(&state.head, expected, docs)
    }

    /// Whether the newest key document was read.
    pub(crate) fn has_keys_of(&self, instance: &InstanceDoc) -> bool {
        self.kv.iter().map(|doc| doc.rev).max().unwrap_or(0) == instance.kv_rev
    }

    /// Whether all that is to be read of the execution's history was read. It may still be corrupt.
    pub(crate) fn has_history_of(&self, state: &ExecutionState) -> bool {
        // A turn may have several documents; they name the same commit before them.
        let mut by_commit: HashMap<&str, (u64, &str)> = HashMap::new();
        for doc in self.history.iter().filter(|doc| doc.execution == state.execution) {
            let (events, prev) = by_commit.entry(&doc.commit).or_default();
            *events += doc.events.len() as u64;
            *prev = &doc.prev;
        }
        if self.is_tail {
            return by_commit.contains_key(state.head.as_str());
        }
        let (mut events, mut at) = (0, state.head.as_str());
        while let Some((of_commit, prev)) = by_commit.remove(at) {
            events += of_commit;
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
    collect(store, pk, &query).await
}

/// The end of the last turn of an execution, and all keys.
pub(crate) async fn tail(store: &Store, pk: &PartitionKey, state: &ExecutionState) -> Result<Past, Failure> {
    let last = Query::new(format!(
        "SELECT * FROM c WHERE c.type = {HISTORY} AND c.execution = @execution AND c.commit = @head \
         ORDER BY c.sortKey DESC OFFSET 0 LIMIT {TAIL}"
    ))
    .param("@execution", state.execution)
    .param("@head", &state.head);
    let (last, keys) = futures::try_join!(collect(store, pk, &last), keys(store, pk))?;
    Ok(Past {
        history: last.history,
        kv: keys.kv,
        is_tail: true,
    })
}

/// All keys, and no history.
pub(crate) async fn keys(store: &Store, pk: &PartitionKey) -> Result<Past, Failure> {
    let query = Query::new(format!("SELECT * FROM c WHERE c.type = {KV}"));
    collect(store, pk, &query).await
}

async fn collect(store: &Store, pk: &PartitionKey, query: &Query) -> Result<Past, Failure> {
    let mut past = Past::default();
    for raw in store.container.query::<Box<RawValue>>(pk, query).await? {
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
            // A document of a newer version must neither block the instance nor be lost: it stays.
            Ok(_) => self.unreadable = true,
            Err(error) => {
                tracing::error!(instance = pk.as_str(), %error, "a document cannot be decoded");
                let kind = serde_json::from_str::<Header>(raw.get()).map_or(Kind::Unknown, |header| header.kind);
                match kind {
                    Kind::Lock | Kind::Instance => self.foreign = Some(error.to_string()),
                    _ => {
                        self.unreadable = true;
                        self.foreign_message = Some(error.to_string());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HistoryPart;

    /// The history document of a commit, which follows the commit before.
    fn doc(commit: u64, offset: u64, execution: u64) -> HistoryDoc {
        let event = RawValue::from_string("{}".to_owned()).unwrap();
        let (prev, commit) = (commit.checked_sub(1), commit.to_string());
        let prev = prev.map_or_else(String::new, |prev| prev.to_string());
        let part = HistoryPart {
            pk: "i",
            execution,
            commit: &commit,
            prev: &prev,
        };
        HistoryDoc::new(&part, offset, vec![event])
    }

    fn state(head: u64, events: u64) -> ExecutionState {
        let mut state = ExecutionState::new(1, 0);
        (state.head, state.events) = (head.to_string(), events);
        state
    }

    #[test]
    fn a_history_is_complete_when_its_chain_has_all_events() {
        let past = |history| Past {
            history,
            ..Past::default()
        };
        // The last turn has two documents; two more belong to an undecided commit and to another execution.
        let whole = vec![doc(1, 1, 1), doc(0, 0, 1), doc(1, 2, 1), doc(7, 3, 1), doc(1, 3, 2)];
        assert!(past(whole).has_history_of(&state(1, 3)));
        assert!(!past(vec![doc(1, 1, 1), doc(0, 0, 1)]).has_history_of(&state(1, 3)));
        assert!(!past(vec![doc(1, 1, 1), doc(1, 2, 1)]).has_history_of(&state(1, 3)));
        assert!(past(Vec::new()).has_history_of(&ExecutionState::new(1, 0)));
        let tail = Past {
            is_tail: true,
            ..past(vec![doc(5, 9, 1)])
        };
        assert!(tail.has_history_of(&state(5, 10)) && !tail.has_history_of(&state(6, 11)));
    }

    #[test]
    fn a_history_of_many_turns_is_checked_in_one_pass() {
        const TURNS: u64 = 50_000;
        let past = Past {
            history: (0..TURNS).map(|n| doc(n, n, 1)).collect(),
            ..Past::default()
        };
        assert!(past.has_history_of(&state(TURNS - 1, TURNS)));
    }
}
