//! History documents: id `h:{execution}:{offset}:{commit}`, the events of one turn (or a part of them).
//!
//! The documents of an execution form a chain: each names the commit that wrote it and the commit before. A reader starts
//! at the execution's `head` and walks back: a document of an undecided commit is not in the chain, and a missing one is
//! noticed. `offset` counts the events before the document.

use super::{Kind, Schema};
use duroxide::Event;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::HashMap;

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    sort_key: String,
    pub execution: u64,
    pub offset: u64,
    pub commit: String,
    pub prev: String,
    pub events: Vec<Box<RawValue>>,
    #[serde(flatten)]
    schema: Schema,
}

/// Where in the history a document belongs.
#[derive(Clone, Debug)]
pub(crate) struct HistoryPart<'a> {
    pub pk: &'a str,
    pub execution: u64,
    pub commit: &'a str,
    pub prev: &'a str,
}

impl HistoryDoc {
    pub(crate) fn new(part: &HistoryPart<'_>, offset: u64, events: Vec<Box<RawValue>>) -> Self {
        HistoryDoc {
            id: format!("h:{}:{offset}:{}", part.execution, part.commit),
            pk: part.pk.to_owned(),
            kind: Kind::History,
            sort_key: format!("1:{:020}:{offset:012}", part.execution),
            execution: part.execution,
            offset,
            commit: part.commit.to_owned(),
            prev: part.prev.to_owned(),
            events,
            schema: Schema::default(),
        }
    }
}

/// Why documents do not make a history.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HistoryError {
    /// Documents are missing: the replica that answered lags behind.
    #[error("the history read is incomplete: {found} of {expected} events")]
    Short { found: u64, expected: u64 },
    /// An event cannot be decoded by this version.
    #[error("event {position} of execution {execution} cannot be decoded: {reason}")]
    Corrupt {
        execution: u64,
        position: usize,
        reason: String,
    },
}

/// The first event of the chain that ends at `head`, whether or not the others can be decoded; `None` when documents are
/// missing.
pub(crate) fn first_event(head: &str, docs: Vec<HistoryDoc>) -> Result<Option<Event>, serde_json::Error> {
    let chain = chain_of(head, docs);
    let first = chain.first().filter(|doc| doc.offset == 0);
    let event = first.and_then(|doc| doc.events.first());
    event.map(|event| serde_json::from_str(event.get())).transpose()
}

/// The documents of the chain that ends at `head`, in order.
fn chain_of(head: &str, docs: Vec<HistoryDoc>) -> Vec<HistoryDoc> {
    let mut by_commit: HashMap<String, Vec<HistoryDoc>> = HashMap::new();
    for doc in docs {
        by_commit.entry(doc.commit.clone()).or_default().push(doc);
    }
    let mut chain = Vec::new();
    let mut at = head.to_owned();
    while !at.is_empty() {
        let Some(parts) = by_commit.remove(&at) else { break };
        at = parts.first().map(|doc| doc.prev.clone()).unwrap_or_default();
        chain.extend(parts);
    }
    chain.sort_by_key(|doc| doc.offset);
    chain
}

/// The events of the chain that ends at `head`, in order.
pub(crate) fn assemble(head: &str, expected: u64, docs: Vec<HistoryDoc>) -> Result<Vec<Event>, HistoryError> {
    let chain = chain_of(head, docs);
    let found: u64 = chain.iter().map(|doc| doc.events.len() as u64).sum();
    if found != expected {
        return Err(HistoryError::Short { found, expected });
    }
    let execution = chain.first().map_or(0, |doc| doc.execution);
    chain
        .iter()
        .flat_map(|doc| doc.events.iter())
        .enumerate()
        .map(|(position, event)| {
            serde_json::from_str(event.get()).map_err(|error| HistoryError::Corrupt {
                execution,
                position,
                reason: error.to_string(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide::EventKind;

    fn doc(offset: u64, commit: &str, prev: &str, count: u64) -> HistoryDoc {
        let events = (0..count)
            .map(|n| {
                let event = Event::with_event_id(offset + n + 1, "i", 1, None, EventKind::KeyValuesCleared);
                serde_json::value::to_raw_value(&event).expect("an event serialises")
            })
            .collect();
        HistoryDoc::new(
            &HistoryPart {
                pk: "i",
                execution: 1,
                commit,
                prev,
            },
            offset,
            events,
        )
    }

    #[test]
    fn a_chain_is_read_in_order_whatever_order_it_arrives_in() {
        let docs = vec![doc(3, "b", "a", 1), doc(0, "a", "", 2), doc(2, "a", "", 1)];
        let ids: Vec<u64> = assemble("b", 4, docs).unwrap().iter().map(Event::event_id).collect();
        assert_eq!(ids, [1, 2, 3, 4]);
    }

    #[test]
    fn the_first_event_is_that_of_the_chain_and_not_of_an_orphan() {
        let mut bad = doc(1, "b", "a", 1);
        bad.events[0] = RawValue::from_string("{\"nonsense\":1}".to_owned()).unwrap();
        let docs = vec![bad, doc(0, "orphan", "", 2), doc(0, "a", "", 1)];
        assert_eq!(first_event("b", docs).unwrap().map(|event| event.event_id()), Some(1));
        assert!(first_event("b", vec![doc(1, "b", "a", 1)]).unwrap().is_none());
    }

    #[test]
    fn an_undecided_commit_is_not_read() {
        let docs = vec![doc(0, "a", "", 2), doc(2, "orphan", "a", 5)];
        assert_eq!(assemble("a", 2, docs).unwrap().len(), 2);
    }

    #[test]
    fn a_missing_document_is_an_error() {
        let error = assemble("b", 3, vec![doc(2, "b", "a", 1)]).unwrap_err();
        assert_eq!(error, HistoryError::Short { found: 1, expected: 3 });
        assert!(matches!(assemble("a", 2, vec![]), Err(HistoryError::Short { .. })));
    }

    #[test]
    fn an_event_of_an_unknown_kind_is_corrupt_and_not_short() {
        let mut bad = doc(0, "a", "", 1);
        bad.events[0] = RawValue::from_string("{\"nonsense\":1}".to_owned()).unwrap();
        assert!(matches!(assemble("a", 1, vec![bad]), Err(HistoryError::Corrupt { .. })));
    }
}
