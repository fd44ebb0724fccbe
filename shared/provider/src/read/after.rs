//! The end of a history: the events after one that the reader has. Following an instance costs what is new, however long its
//! history is.
//!
//! The documents are read from that event on to the end. If the reader has a part of a document, the one before is read too.

use super::attempts::{ActivityAttempts, all_attempts, open_items};
use super::load::{Past, collect};
use super::{REREAD_WAIT, REREADS, execution_state, history_failure, history_of};
use crate::error::Failure;
use crate::model::sql::HISTORY;
use crate::model::{ExecutionState, HistoryDoc, HistoryEnd, assemble_end, chain_start};
use crate::store::Store;
use cosmos::{PartitionKey, Query};
use duroxide::Event;

/// How many documents before the first one are read at a time: the one that is needed, and one that an undecided commit has left.
const EARLIER: u32 = 2;

/// The end of a history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryAfter {
    /// The events, in their order.
    pub events: Vec<Event>,
    /// The activities that have completed among these events or that are open, by id.
    pub attempts: Vec<ActivityAttempts>,
}

/// The events of an execution after this one; `None` when there is no such execution.
pub(crate) async fn history_after(
    store: &Store,
    pk: &PartitionKey,
    execution: u64,
    after: u64,
) -> Result<Option<HistoryAfter>, Failure> {
    let (end, open) = futures::try_join!(end(store, pk, execution, after), open_items(store, pk))?;
    Ok(end.map(|HistoryEnd { events, attempts }| HistoryAfter {
        events,
        attempts: all_attempts(attempts, open, execution, store.now()),
    }))
}

async fn end(store: &Store, pk: &PartitionKey, execution: u64, after: u64) -> Result<Option<HistoryEnd>, Failure> {
    let mut short = None;
    for _ in 0..REREADS {
        let Some(state) = execution_state(store, pk, execution).await? else {
            return Ok(None);
        };
        if after >= state.events {
            return Ok(Some(HistoryEnd::default()));
        }
        let past = documents(store, pk, &state, after).await?;
        match assemble_end(after, &state.head, state.events, past.history) {
            Ok(end) if end.is_numbered_from(after) => return Ok(Some(end)),
            Ok(end) => {
                // Somebody has appended events with ids of their own. Nothing but the ids says which come after.
                let mut events = history_of(store, pk, execution).await?;
                events.retain(|event| event.event_id > after);
                return Ok(Some(HistoryEnd { events, ..end }));
            }
            Err(error) => short = Some(history_failure(pk, error, past.foreign)?),
        }
        tokio::time::sleep(REREAD_WAIT).await;
    }
    Err(short.unwrap_or_else(|| Failure::NoInstance(pk.as_str().to_owned())))
}

/// The documents that have the events after this one.
async fn documents(store: &Store, pk: &PartitionKey, state: &ExecutionState, after: u64) -> Result<Past, Failure> {
    let between = |from: String, end: String, rest: &str| {
        let text = format!(
            "SELECT * FROM c WHERE c.type = {HISTORY} AND c.sortKey >= @from AND c.sortKey < @end ORDER BY c.sortKey{rest}"
        );
        Query::new(text).param("@from", from).param("@end", end)
    };
    let key = |offset| HistoryDoc::sort_key(state.execution, offset);
    let end = HistoryDoc::sort_key(state.execution + 1, 0);
    let mut past = collect(store, pk, &between(key(after), end, "")).await?;
    let is_short = |past: &Past| chain_start(&state.head, &past.history).is_none_or(|start| start > after);
    let mut read = 0;
    while is_short(&past) {
        let rest = format!(" DESC OFFSET {read} LIMIT {EARLIER}");
        let earlier = collect(store, pk, &between(key(0), key(after), &rest)).await?;
        if earlier.history.is_empty() {
            break;
        }
        read += EARLIER;
        past.history.extend(earlier.history);
        past.foreign = past.foreign.or(earlier.foreign);
    }
    Ok(past)
}
