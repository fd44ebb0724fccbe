//! The reads of a turn: the *view* (instance, due messages, and what it is expected to need of history and keys), and the
//! *past* alone (history and keys), where the view did not have it.

use super::KnownHistory;
use crate::error::Failure;
use crate::model::sql::{HISTORY, INSTANCE, KV, TURN};
use crate::model::{
    ExecutionState, Foreign, HistoryDoc, HistoryError, InstanceDoc, Kind, KvDoc, MessageDoc, assemble, assemble_after,
};
use crate::store::{Fence, Store, Stored};
use cosmos::{PageOptions, PartitionKey, Query};
use duroxide::Event;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::Arc;

/// Documents of one page. A turn takes at most the messages of one page; the rest waits for the next turn.
const PAGE: u32 = 1000;
/// How many of the last history documents show how an execution ended: its last event is there, or just before the
/// cancellations that duroxide appends to it.
const TAIL: u32 = 3;

/// Which history a view is expected to need.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// None of it, and no keys.
    Nothing,
    /// That of an execution.
    Execution(u64),
    /// What follows the known one.
    After(KnownHistory),
}

/// What decides whether there is a turn to run.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub fence: Option<Fence>,
    pub messages: Vec<MessageDoc>,
    /// What was asked for of history and keys. It may be of another execution, or incomplete.
    pub past: Past,
    /// More messages are due than a turn takes.
    pub more: bool,
    /// The instance document, if it cannot be decoded: nothing may be done with the instance then.
    pub foreign: Option<Foreign>,
    /// Why a message cannot be decoded. It stays.
    pub foreign_message: Option<String>,
    /// Something is due that cannot be decoded: it may be anything, also the start.
    pub unreadable: bool,
}

impl View {
    /// The instance, if it exists.
    pub(crate) fn instance(&self) -> Option<&InstanceDoc> {
        let found = self.fence.as_ref().map(|fence| &fence.doc);
        found.filter(|instance| instance.exists())
    }
}

/// What a turn replays.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub history: Vec<HistoryDoc>,
    pub kv: Vec<KvDoc>,
    /// The history is only the end of that of the last turn, because the whole is too large.
    pub is_tail: bool,
    /// What the process knows of the history: the rest follows it.
    pub known: Option<KnownHistory>,
    /// A history document that cannot be decoded. An undecided commit may have left it; if the history is not whole without
    /// it, it is a part of it.
    pub foreign: Option<Foreign>,
    /// A key cannot be decoded: reading the keys alone says why.
    pub has_foreign_key: bool,
}

impl Past {
    /// The events of an execution.
    pub(crate) fn events(self, state: &ExecutionState) -> Result<Vec<Event>, HistoryError> {
        let is_of = |doc: &HistoryDoc| doc.execution == state.execution;
        let docs: Vec<HistoryDoc> = self.history.into_iter().filter(is_of).collect();
        if let Some(known) = self.known.filter(|known| known.execution == state.execution) {
            let new = state.events.saturating_sub(known.events.len() as u64);
            let new = assemble_after(&known.head, &state.head, new, docs)?;
            let mut events = Arc::unwrap_or_clone(known.events);
            events.extend(new);
            return Ok(events);
        }
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
        let known = self.known.as_ref().filter(|known| known.execution == state.execution);
        let (mut events, known) = known.map_or((0, ""), |known| (known.events.len() as u64, known.head.as_str()));
        let mut at = state.head.as_str();
        while at != known
            && let Some((of_commit, prev)) = by_commit.remove(at)
        {
            events += of_commit;
            at = prev;
        }
        at == known && events == state.events
    }

    /// How many turns of an execution have written events. A long turn has several documents of one commit.
    pub(crate) fn turns_of(&self, state: &ExecutionState) -> u64 {
        let known = self.known.as_ref().filter(|known| known.execution == state.execution);
        let of_execution = self.history.iter().filter(|doc| doc.execution == state.execution);
        let prevs: HashMap<&str, &str> = of_execution
            .map(|doc| (doc.commit.as_str(), doc.prev.as_str()))
            .collect();
        // Documents of undecided commits, and those that a rewind has undone, are not in the chain.
        let (mut new, mut at) = (0, state.head.as_str());
        while known.is_none_or(|known| known.head != at)
            && let Some(prev) = prevs.get(at)
        {
            new += 1;
            at = prev;
        }
        known.map_or(0, |known| known.turns) + new
    }
}

/// The instance, what is due at `now_ms`, and what is asked for, in one request if it fits a page. Where there is
/// more history than a turn may load, at most one page more is read, and nothing of it is kept.
pub(crate) async fn view(store: &Store, pk: &PartitionKey, now_ms: u64, asked: Asked) -> Result<View, Failure> {
    let past = match &asked {
        Asked::Nothing => String::new(),
        _ => format!(" OR c.type = {KV} OR (c.type = {HISTORY} AND c.sortKey >= @from AND c.sortKey < @end)"),
    };
    let query = Query::new(format!(
        "SELECT * FROM c WHERE c.type = {INSTANCE} OR (c.queue = {TURN} AND c.dueAt <= @now){past} ORDER BY c.sortKey"
    ))
    .param("@now", now_ms);
    let between = |query: Query, execution: u64, from: u64| {
        query
            .param("@from", HistoryDoc::sort_key(execution, from))
            .param("@end", HistoryDoc::sort_key(execution + 1, 0))
    };
    let mut view = View::default();
    let query = match asked {
        Asked::Nothing => query,
        Asked::Execution(execution) => between(query, execution, 0),
        Asked::After(known) => {
            let query = between(query, known.execution, known.events.len() as u64);
            view.past.known = Some(known);
            query
        }
    };
    let mut page = PageOptions {
        max_items: Some(PAGE),
        continuation: None,
    };
    let mut history_bytes = 0;
    loop {
        let answer = store.container.query_page::<Box<RawValue>>(pk, &query, &page).await?;
        for raw in &answer.items {
            history_bytes += view.take(pk, raw);
        }
        view.more = answer.continuation.is_some();
        if history_bytes > store.history_limit {
            // It is not needed, or too large to be loaded: the rest is read without it.
            return Box::pin(self::view(store, pk, now_ms, Asked::Nothing)).await;
        }
        // A page may be short or empty and still continue. In the order, keys and history come first, then the instance,
        // then the messages; a turn takes at most a page of these.
        let most = PAGE as usize;
        if view.messages.len() >= most || answer.continuation.is_none() {
            view.more |= view.messages.len() > most;
            view.messages.truncate(most);
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
        kv: keys.kv,
        is_tail: true,
        ..last
    })
}

/// When a start that is queued is due.
pub(crate) async fn start_due(store: &Store, pk: &PartitionKey) -> Result<Option<u64>, Failure> {
    let query = Query::new(format!(
        "SELECT VALUE c.dueAt FROM c WHERE c.queue = {TURN} AND c.sortKey < @others"
    ))
    .param("@others", MessageDoc::AFTER_STARTS);
    Ok(store.container.query::<u64>(pk, &query).await?.into_iter().min())
}

/// All keys, and no history.
pub(crate) async fn keys(store: &Store, pk: &PartitionKey) -> Result<Past, Failure> {
    let query = Query::new(format!("SELECT * FROM c WHERE c.type = {KV}"));
    collect(store, pk, &query).await
}

pub(super) async fn collect(store: &Store, pk: &PartitionKey, query: &Query) -> Result<Past, Failure> {
    let mut past = Past::default();
    for raw in store.container.query::<Box<RawValue>>(pk, query).await? {
        match Stored::decode(&raw) {
            Ok(Stored::History(doc)) => past.history.push(doc),
            Ok(Stored::Kv(doc)) => past.kv.push(doc),
            Ok(_) => {}
            Err(error) => {
                let foreign = Foreign::of(&raw, &error);
                // Nobody can say whether a key is missing, so each must be decoded.
                if Kind::of(&raw) != Kind::History {
                    return Err(foreign.in_partition(pk));
                }
                past.foreign = Some(foreign);
            }
        }
    }
    Ok(past)
}

impl View {
    /// Takes a document of an answer. Returns the bytes of history in it.
    fn take(&mut self, pk: &PartitionKey, raw: &RawValue) -> u64 {
        match Stored::decode(raw) {
            Ok(Stored::History(doc)) => {
                self.past.history.push(doc);
                return raw.get().len() as u64;
            }
            Ok(Stored::Kv(doc)) => self.past.kv.push(doc),
            Ok(Stored::Instance(found)) => self.fence = Some(*found),
            Ok(Stored::Message(message)) => self.messages.push(message),
            // A document of a newer version must neither block the instance nor be lost: it stays.
            Ok(_) => self.unreadable = true,
            Err(error) => {
                tracing::error!(instance = pk.as_str(), %error, "a document cannot be decoded");
                match Kind::of(raw) {
                    Kind::Instance => self.foreign = Some(Foreign::of(raw, &error)),
                    Kind::History => self.past.foreign = Some(Foreign::of(raw, &error)),
                    Kind::Kv => self.past.has_foreign_key = true,
                    _ => {
                        self.unreadable = true;
                        self.foreign_message = Some(error.to_string());
                    }
                }
            }
        }
        0
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
