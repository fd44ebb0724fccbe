//! Reads of one instance: history, custom status, keys, statistics, and (`load`) what a turn needs. None takes a lock.
//!
//! A read during a commit sees the history before or after it, never in between: it follows the chain that the instance
//! document names. The keys of a turn that changes more than a batch holds appear one batch after the other.

mod after;
mod attempts;
mod known;
mod load;
mod undone;

pub use after::HistoryAfter;
pub(crate) use after::history_after;
pub(crate) use attempts::attempts;
pub use attempts::{ActivityAttempts, OpenActivity};
pub(crate) use known::{KnownHistories, KnownHistory};
pub(crate) use load::{Asked, Past, View, keys, past, start_due, tail, view};
pub use undone::Undone;
pub(crate) use undone::undone;

use crate::error::Failure;
use crate::model::sql::{HISTORY, INSTANCE, KV};
use crate::model::{
    ExecutionDoc, ExecutionState, Foreign, HistoryDoc, HistoryError, HistoryLink, InstanceDoc, Kind, KvDoc, Listed,
    Scope, TextDoc, assemble, first_document,
};
use crate::store::{Store, Stored};
use cosmos::{PageOptions, PartitionKey, Query};
use duroxide::providers::KvEntry;
use duroxide::{Event, SystemStats};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::time::Duration;

/// The keys of an instance as its current execution found them: what replays of that execution start from.
#[derive(Clone, Debug, PartialEq)]
pub struct KeysAtStart {
    /// The execution.
    pub execution: u64,
    /// The keys, in no order.
    pub keys: Vec<(String, KvEntry)>,
}

/// How often an incomplete history is read again.
const REREADS: u32 = 20;
/// History documents of one page: enough for most executions, without reading many earlier ones.
const LATEST_PAGE: u32 = 200;
const REREAD_WAIT: Duration = Duration::from_millis(10);

/// The instance document, if a turn has written one.
pub(crate) async fn instance(store: &Store, pk: &PartitionKey) -> Result<Option<InstanceDoc>, Failure> {
    let found = store.fence(pk).await?.map(|fence| fence.doc);
    Ok(found.filter(InstanceDoc::exists))
}

/// The output of an execution.
pub(crate) async fn output(
    store: &Store,
    pk: &PartitionKey,
    state: &ExecutionState,
) -> Result<Option<String>, Failure> {
    if state.long_output {
        return text(store, pk, &TextDoc::output_id(state.execution)).await.map(Some);
    }
    Ok(state.output.clone())
}

/// A long text that the instance document, or that of an execution, refers to.
async fn text(store: &Store, pk: &PartitionKey, id: &str) -> Result<String, Failure> {
    for _ in 0..REREADS {
        if let Some(found) = store.container.read::<TextDoc>(pk, id).await? {
            return Ok(found.doc.text);
        }
        tokio::time::sleep(REREAD_WAIT).await;
    }
    Err(Failure::stale(pk, format!("document '{id}' cannot be read yet")))
}

/// The events of the latest execution: one request, unless they take more than a page.
pub(crate) async fn latest_history(store: &Store, pk: &PartitionKey) -> Result<Vec<Event>, Failure> {
    let mut short = None;
    for _ in 0..REREADS {
        let (instance, past) = latest_documents(store, pk).await?;
        let Some(instance) = instance else {
            return Ok(Vec::new());
        };
        match assemble(&instance.current.head, instance.current.events, past.history) {
            Ok(events) => return Ok(events),
            Err(error) => short = Some(history_failure(pk, error, past.foreign)?),
        }
        tokio::time::sleep(REREAD_WAIT).await;
    }
    Err(short.unwrap_or_else(|| Failure::NoInstance(pk.as_str().to_owned())))
}

/// Corruption is final (`Err`), and so is a part that cannot be decoded; an incomplete read is worth another (`Ok`).
fn history_failure(pk: &PartitionKey, error: HistoryError, foreign: Option<Foreign>) -> Result<Failure, Failure> {
    if let (HistoryError::Short { .. }, Some(foreign)) = (&error, foreign) {
        return Err(foreign.in_partition(pk));
    }
    let (instance, reason) = (pk.as_str().to_owned(), error.to_string());
    match error {
        HistoryError::Corrupt { .. } => Err(Failure::Corrupt { instance, reason }),
        HistoryError::Short { .. } => Ok(Failure::Stale { instance, reason }),
    }
}

/// The instance and the history of its latest execution. In descending order of `sortKey` the instance comes first and
/// the latest execution next, so reading stops where an earlier execution begins.
async fn latest_documents(store: &Store, pk: &PartitionKey) -> Result<(Option<InstanceDoc>, Past), Failure> {
    let query = Query::new(format!(
        "SELECT * FROM c WHERE c.type IN ({INSTANCE}, {HISTORY}) ORDER BY c.sortKey DESC"
    ));
    let mut page = PageOptions {
        max_items: Some(LATEST_PAGE),
        continuation: None,
    };
    let (mut instance, mut past): (Option<InstanceDoc>, Past) = (None, Past::default());
    loop {
        let answer = store.container.query_page::<Box<RawValue>>(pk, &query, &page).await?;
        let mut earlier = false;
        for raw in &answer.items {
            let stored = match Stored::decode(raw) {
                Ok(stored) => stored,
                Err(error) if Kind::of(raw) == Kind::History => {
                    past.foreign = Some(Foreign::of(raw, &error));
                    continue;
                }
                Err(error) => return Err(Foreign::of(raw, &error).in_partition(pk)),
            };
            match stored {
                Stored::Instance(found) => instance = Some(found.doc).filter(InstanceDoc::exists),
                Stored::History(doc) => match &instance {
                    Some(instance) if doc.execution == instance.current.execution => past.history.push(doc),
                    // A staged document of an execution that has not begun yet may come before.
                    Some(instance) => earlier |= doc.execution < instance.current.execution,
                    None => {}
                },
                _ => {}
            }
        }
        page.continuation = answer.continuation;
        if earlier || page.continuation.is_none() {
            return Ok((instance, past));
        }
    }
}

/// The state of one execution; `None` when it never existed, or was pruned.
pub(crate) async fn execution_state(
    store: &Store,
    pk: &PartitionKey,
    execution: u64,
) -> Result<Option<ExecutionState>, Failure> {
    let Some(instance) = instance(store, pk).await? else {
        return Ok(None);
    };
    if instance.current.execution == execution {
        return Ok(Some(instance.current));
    }
    let found = store.read::<ExecutionDoc>(pk, &ExecutionDoc::id(execution)).await?;
    Ok(found.map(|found| found.doc.state))
}

/// The events of one execution; none when it does not exist.
pub(crate) async fn history_of(store: &Store, pk: &PartitionKey, execution: u64) -> Result<Vec<Event>, Failure> {
    let mut short = None;
    for _ in 0..REREADS {
        let Some(state) = execution_state(store, pk, execution).await? else {
            return Ok(Vec::new());
        };
        let past = past(store, pk, execution).await?;
        match assemble(&state.head, state.events, past.history) {
            Ok(events) => return Ok(events),
            Err(error) => short = Some(history_failure(pk, error, past.foreign)?),
        }
        tokio::time::sleep(REREAD_WAIT).await;
    }
    Err(short.unwrap_or_else(|| Failure::NoInstance(pk.as_str().to_owned())))
}

/// The first event of an execution, whether or not the others can be decoded; `None` when a document cannot be read yet.
/// Only the links of the chain and its first document are read, however long the history is.
pub(crate) async fn first_event(
    store: &Store,
    pk: &PartitionKey,
    state: &ExecutionState,
) -> Result<Option<Event>, Failure> {
    let query = Query::new(format!(
        "SELECT c.id, c.commit, c.prev, c.sortKey FROM c WHERE c.type = {HISTORY} AND c.execution = @execution"
    ))
    .param("@execution", state.execution);
    let links = store.container.query::<HistoryLink>(pk, &query).await?;
    let Some(id) = first_document(&state.head, links) else {
        return Ok(None);
    };
    let found = store.read::<HistoryDoc>(pk, &id).await?;
    let first = found.as_ref().filter(|found| found.doc.offset == 0);
    let first = first.and_then(|found| found.doc.events.first());
    Ok(first.map(|event| serde_json::from_str(event.get())).transpose()?)
}

/// The custom status, if it is newer than the version that the caller has seen.
pub(crate) async fn custom_status(
    store: &Store,
    pk: &PartitionKey,
    seen: u64,
) -> Result<Option<(Option<String>, u64)>, Failure> {
    let query = Query::new(format!(
        "SELECT c.customStatus, c.longCustomStatus, c.customStatusVersion FROM c WHERE c.type = {INSTANCE}"
    ));
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        custom_status: Option<String>,
        #[serde(default)]
        long_custom_status: bool,
        custom_status_version: u64,
    }
    let status = store.container.query::<Status>(pk, &query).await?.pop();
    let Some(status) = status.filter(|status| status.custom_status_version > seen) else {
        return Ok(None);
    };
    let text = match status.long_custom_status {
        true => Some(text(store, pk, TextDoc::CUSTOM_STATUS).await?),
        false => status.custom_status,
    };
    Ok(Some((text, status.custom_status_version)))
}

/// The custom status of an instance.
pub(crate) async fn custom_status_of(
    store: &Store,
    pk: &PartitionKey,
    instance: &InstanceDoc,
) -> Result<Option<String>, Failure> {
    match instance.long_custom_status {
        true => text(store, pk, TextDoc::CUSTOM_STATUS).await.map(Some),
        false => Ok(instance.custom_status.clone()),
    }
}

/// The newest value of a key.
pub(crate) async fn key_value(store: &Store, pk: &PartitionKey, key: &str) -> Result<Option<String>, Failure> {
    let found = store.read::<KvDoc>(pk, &KvDoc::id(key)).await?;
    Ok(found.and_then(|found| found.doc.newest().map(str::to_owned)))
}

/// The newest values of all keys.
pub(crate) async fn key_values(store: &Store, pk: &PartitionKey) -> Result<HashMap<String, String>, Failure> {
    let query = Query::new(format!("SELECT * FROM c WHERE c.type = {KV}"));
    let mut values = HashMap::new();
    for doc in store.container.query::<Listed<KvDoc>>(pk, &query).await? {
        // All values, or the document that keeps them from being read: never some of them as if they were all.
        let doc = match doc {
            Listed::Known(doc) => doc,
            Listed::Foreign(foreign) => return Err(foreign.in_partition(pk)),
        };
        if let Some(value) = doc.newest() {
            values.insert(doc.key.clone(), value.to_owned());
        }
    }
    Ok(values)
}

/// The keys as the current execution found them when it began, in one request.
pub(crate) async fn keys_at_start(store: &Store, pk: &PartitionKey) -> Result<Option<KeysAtStart>, Failure> {
    let query = Query::new(format!("SELECT * FROM c WHERE c.type IN ({INSTANCE}, {KV})"));
    let (mut instance, mut keys) = (None, Vec::new());
    for raw in store.container.query::<Box<RawValue>>(pk, &query).await? {
        // All keys, or the document that keeps them from being read.
        match Stored::decode(&raw).map_err(|error| Foreign::of(&raw, &error).in_partition(pk))? {
            Stored::Instance(found) => instance = Some(found.doc),
            Stored::Kv(doc) => keys.push(doc),
            _ => {}
        }
    }
    let known = instance.filter(|instance: &InstanceDoc| instance.name.is_some());
    Ok(known.map(|instance| {
        let execution = instance.current.execution;
        // Also of an execution that has ended: what it changed itself does not count.
        let begin = Scope {
            execution,
            terminal: false,
        };
        let found = |doc: &KvDoc| Some((doc.key.clone(), doc.snapshot(begin)?));
        KeysAtStart {
            execution,
            keys: keys.iter().filter_map(found).collect(),
        }
    }))
}

/// Sizes of the current execution's history and of the keys, in one request.
pub(crate) async fn stats(store: &Store, pk: &PartitionKey) -> Result<Option<SystemStats>, Failure> {
    let query = Query::new(format!("SELECT * FROM c WHERE c.type IN ({INSTANCE}, {KV})"));
    let (mut instance, mut keys, mut bytes) = (None, 0, 0);
    for raw in store.container.query::<Box<RawValue>>(pk, &query).await? {
        match Stored::decode(&raw).map_err(|error| Foreign::of(&raw, &error).in_partition(pk))? {
            Stored::Instance(found) => instance = Some(found.doc),
            Stored::Kv(doc) => {
                if let Some(value) = doc.newest() {
                    keys += 1;
                    bytes += value.len() as u64;
                }
            }
            _ => {}
        }
    }
    let known = instance.filter(|instance: &InstanceDoc| instance.name.is_some());
    Ok(known.map(|instance| SystemStats {
        history_event_count: instance.current.events,
        history_size_bytes: instance.current.event_bytes,
        queue_pending_count: instance.current.carried,
        kv_user_key_count: keys,
        kv_total_value_bytes: bytes,
    }))
}
