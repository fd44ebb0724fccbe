//! History documents: id `h:{execution}:{offset}:{commit}`, the events of one turn (or a part of them).
//!
//! The documents of an execution form a chain: each names the commit that wrote it and the commit before. A reader starts
//! at the execution's `head` and walks back: a document of an undecided commit is not in the chain, and a missing one is
//! noticed. `offset` counts the events before the document. `attempts` has those of the activities whose completions are
//! among the events: replay does not need them, people do.

use super::{CompletedAttempts, Kind, Schema};
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<CompletedAttempts>,
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
    /// Where documents with events from this one on begin, in the order of `sortKey`.
    pub(crate) fn sort_key(execution: u64, offset: u64) -> String {
        format!("1:{execution:020}:{offset:012}")
    }

    pub(crate) fn new(part: &HistoryPart<'_>, offset: u64, events: Vec<Box<RawValue>>) -> Self {
        HistoryDoc {
            id: format!("h:{}:{offset}:{}", part.execution, part.commit),
            pk: part.pk.to_owned(),
            kind: Kind::History,
            sort_key: Self::sort_key(part.execution, offset),
            execution: part.execution,
            offset,
            commit: part.commit.to_owned(),
            prev: part.prev.to_owned(),
            events,
            attempts: Vec::new(),
            schema: Schema::default(),
        }
    }

    pub(crate) fn with_attempts(self, attempts: Vec<CompletedAttempts>) -> Self {
        HistoryDoc { attempts, ..self }
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

/// A history document without its events: enough to follow the chain.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryLink {
    pub id: String,
    pub commit: String,
    pub prev: String,
    pub sort_key: String,
}

/// The first document of the chain that ends at `head`, or of what there is of its first commit; `None` when a commit is
/// missing.
pub(crate) fn first_document(head: &str, links: Vec<HistoryLink>) -> Option<String> {
    // The parts of one commit name the same commit before them; the first of them comes first.
    let mut by_commit: HashMap<String, HistoryLink> = HashMap::new();
    for link in links {
        match by_commit.get(&link.commit) {
            Some(earlier) if earlier.sort_key < link.sort_key => {}
            _ => {
                by_commit.insert(link.commit.clone(), link);
            }
        }
    }
    let mut first = by_commit.remove(head)?;
    while !first.prev.is_empty() {
        first = by_commit.remove(&first.prev)?;
    }
    Some(first.id)
}

/// The documents of the chain that ends at `head`, in order.
pub(crate) fn chain_of(head: &str, docs: Vec<HistoryDoc>) -> Vec<HistoryDoc> {
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

/// The events of a history after one of them, and the attempts of the activities that have completed with them.
#[derive(Debug, Default)]
pub(crate) struct HistoryEnd {
    pub events: Vec<Event>,
    pub attempts: Vec<CompletedAttempts>,
}

impl HistoryEnd {
    /// Whether its events have the numbers that follow this one, as duroxide counts them.
    pub(crate) fn is_numbered_from(&self, after: u64) -> bool {
        let numbers = self.events.iter().map(|event| event.event_id);
        numbers.zip(after + 1..).all(|(is, expected)| is == expected)
    }
}

/// How many events come before what these documents have of the chain that ends at `head`; `None` when they do not have its end.
pub(crate) fn chain_start(head: &str, docs: &[HistoryDoc]) -> Option<u64> {
    let mut by_commit: HashMap<&str, (u64, &str)> = HashMap::new();
    for doc in docs {
        let (start, prev) = by_commit.entry(&doc.commit).or_insert((doc.offset, &doc.prev));
        (*start, *prev) = ((*start).min(doc.offset), &doc.prev);
    }
    let (mut start, mut at) = by_commit.remove(head)?;
    while let Some((earlier, prev)) = by_commit.remove(at) {
        (start, at) = (earlier, prev);
    }
    Some(start)
}

/// The events after the first `after` ones, of `total`, from documents that have at least these.
pub(crate) fn assemble_end(
    after: u64,
    head: &str,
    total: u64,
    docs: Vec<HistoryDoc>,
) -> Result<HistoryEnd, HistoryError> {
    let mut chain = chain_of(head, docs);
    chain.retain(|doc| doc.offset + doc.events.len() as u64 > after);
    let start = chain.first().map_or(total, |doc| doc.offset);
    let found: u64 = chain.iter().map(|doc| doc.events.len() as u64).sum();
    let expected = total.saturating_sub(start);
    if found != expected || start > after {
        return Err(HistoryError::Short {
            found,
            expected: total.saturating_sub(after.min(start)),
        });
    }
    let execution = chain.first().map_or(0, |doc| doc.execution);
    let mut end = HistoryEnd::default();
    let mut position = start;
    for doc in chain {
        end.attempts.extend(doc.attempts);
        for event in doc.events {
            if position >= after {
                end.events.push(decoded(&event, execution, position)?);
            }
            position += 1;
        }
    }
    Ok(end)
}

fn decoded(event: &RawValue, execution: u64, position: u64) -> Result<Event, HistoryError> {
    serde_json::from_str(event.get()).map_err(|error| HistoryError::Corrupt {
        execution,
        position: usize::try_from(position).unwrap_or(usize::MAX),
        reason: error.to_string(),
    })
}

/// The events of the chain that ends at `head`, in order.
pub(crate) fn assemble(head: &str, expected: u64, docs: Vec<HistoryDoc>) -> Result<Vec<Event>, HistoryError> {
    assemble_after("", head, expected, docs)
}

/// The events of the chain between the commit `known` and `head`, in order.
pub(crate) fn assemble_after(
    known: &str,
    head: &str,
    expected: u64,
    mut docs: Vec<HistoryDoc>,
) -> Result<Vec<Event>, HistoryError> {
    docs.retain(|doc| doc.commit != known);
    let chain = chain_of(head, docs);
    let found: u64 = chain.iter().map(|doc| doc.events.len() as u64).sum();
    if found != expected {
        return Err(HistoryError::Short { found, expected });
    }
    let execution = chain.first().map_or(0, |doc| doc.execution);
    // Each text goes when its event is decoded: a large history must not be in memory twice.
    chain
        .into_iter()
        .flat_map(|doc| doc.events)
        .enumerate()
        .map(|(position, event)| decoded(&event, execution, position as u64))
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
    fn the_first_document_is_that_of_the_chain_and_not_of_an_orphan() {
        let link = |id: &str, commit: &str, prev: &str| HistoryLink {
            id: id.to_owned(),
            commit: commit.to_owned(),
            prev: prev.to_owned(),
            sort_key: id.to_owned(),
        };
        let chain = [link("3", "b", "a"), link("2", "a", ""), link("1", "a", "")];
        let orphan = link("0", "never", "");
        let first = |links: &[HistoryLink]| first_document("b", links.to_vec());
        assert_eq!(
            first(&[&chain[..], std::slice::from_ref(&orphan)].concat()).as_deref(),
            Some("1")
        );
        assert_eq!(
            first(&[chain[0].clone(), orphan.clone()]),
            None,
            "its beginning is missing"
        );
        assert_eq!(first(&[chain[2].clone(), orphan]), None, "its end is missing");
    }

    #[test]
    fn an_undecided_commit_is_not_read() {
        let docs = vec![doc(0, "a", "", 2), doc(2, "orphan", "a", 5)];
        assert_eq!(assemble("a", 2, docs).unwrap().len(), 2);
    }

    #[test]
    fn the_end_of_a_history_needs_only_its_own_documents() {
        let all = || {
            vec![
                doc(0, "a", "", 2),
                doc(2, "b", "a", 3),
                doc(5, "b", "a", 1),
                doc(6, "c", "b", 2),
            ]
        };
        let ids = |end: &HistoryEnd| end.events.iter().map(Event::event_id).collect::<Vec<_>>();
        for after in 0..8 {
            let mut docs = all();
            docs.retain(|doc| doc.offset + doc.events.len() as u64 > after);
            docs.push(doc(5, "orphan", "b", 4));
            let start = chain_start("c", &docs).unwrap();
            let end = assemble_end(after, "c", 8, docs).unwrap();
            assert!(start <= after, "{after}");
            assert_eq!(ids(&end), (after + 1..=8).collect::<Vec<_>>(), "{after}");
            assert!(
                end.is_numbered_from(after) && !end.is_numbered_from(after + 1),
                "{after}"
            );
        }
    }

    #[test]
    fn the_end_of_a_history_is_short_without_the_document_that_it_begins_in() {
        let docs = || vec![doc(5, "b", "a", 1), doc(6, "c", "b", 2)];
        assert_eq!(chain_start("c", &docs()), Some(5));
        assert!(assemble_end(5, "c", 8, docs()).is_ok());
        assert!(matches!(
            assemble_end(4, "c", 8, docs()),
            Err(HistoryError::Short { .. })
        ));
        assert!(matches!(
            assemble_end(6, "d", 9, docs()),
            Err(HistoryError::Short { .. })
        ));
        assert_eq!(chain_start("d", &docs()), None);
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
