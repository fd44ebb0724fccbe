//! Reading what a rewind, a fork or its dry run decides about.

use crate::error::Failure;
use crate::model::sql::{DEAD_LETTER, KEPT_RESULT};
use crate::model::{
    CompletedAttempts, DeadLetterDoc, DeadLetterKind, HistoryDoc, KvDoc, Listed, MessageDoc, WorkDoc, chain_of,
};
use crate::read;
use crate::recovery::Queued;
use crate::store::{Fence, Store};
use cosmos::{PartitionKey, Query};
use duroxide::providers::WorkItem;
use duroxide::{ErrorDetails, Event, EventKind};
use serde_json::value::RawValue;
use std::collections::HashMap;

/// An execution, and what waits in the partition.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub fence: Fence,
    /// The history documents of the chain, in order.
    pub docs: Vec<HistoryDoc>,
    pub events: Vec<Event>,
    /// Where the last turn begins.
    pub last_turn: usize,
    pub kv: Vec<KvDoc>,
    pub messages: Vec<MessageDoc>,
    /// Work items with their versions.
    pub works: HashMap<String, (WorkDoc, String)>,
    /// The documents of results that earlier rewinds of the execution have kept, and nobody has used.
    pub kept: Vec<String>,
    /// The dead letter of the last turn, with its version.
    pub letter: Option<(DeadLetterDoc, String)>,
}

impl Loaded {
    /// Reads the current execution; `None` when a replica lags behind.
    pub(crate) async fn read(store: &Store, pk: &PartitionKey, fence: Fence) -> Result<Option<Loaded>, Failure> {
        let state = &fence.doc.current;
        let past = read::past(store, pk, state.execution).await?;
        if let Some(foreign) = past.foreign {
            return Err(foreign.in_partition(pk));
        }
        if past.has_foreign_key || !past.has_keys_of(&fence.doc) {
            return Ok(None);
        }
        let docs = chain_of(&state.head, past.history);
        if docs.iter().map(|doc| doc.events.len() as u64).sum::<u64>() != state.events {
            return Ok(None);
        }
        let raw = docs.iter().flat_map(|doc| &doc.events);
        let events = raw
            .map(|event| decoded(pk, event))
            .collect::<Result<Vec<Event>, Failure>>()?;
        let last = docs.iter().find(|doc| doc.commit == state.head);
        let last_turn = last.map_or(events.len(), |doc| doc.offset as usize);
        // Twice: an activity that completes during one of them is seen by the other, as an item or as a result.
        let (first, second) = (Queued::read(store, pk).await?, Queued::read(store, pk).await?);
        let works = first.works().iter().chain(second.works());
        let works = works.map(|(work, etag)| (work.id.clone(), (work.clone(), etag.clone())));
        let letter = letter(store, pk, &state.head).await?;
        let kept = Query::new(format!(
            "SELECT VALUE c.id FROM c WHERE c.type = {KEPT_RESULT} AND c.execution = @execution"
        ));
        let kept = kept.param("@execution", state.execution);
        let kept = store.container.query::<String>(pk, &kept).await?;
        Ok(Some(Loaded {
            docs,
            events,
            last_turn,
            kv: past.kv,
            messages: second.messages().to_vec(),
            works: works.collect(),
            kept,
            letter,
            fence,
        }))
    }

    /// The messages that the last turn has consumed without a trace in the history, because it was given up.
    pub(super) fn unrecorded(&self) -> Vec<WorkItem> {
        if let Some((letter, _)) = &self.letter {
            let items = letter.given_up.items.iter();
            return items.filter_map(|item| serde_json::from_str(item.get()).ok()).collect();
        }
        let failure = self.events[self.last_turn..]
            .iter()
            .find_map(|event| match &event.kind {
                EventKind::OrchestrationFailed {
                    details: ErrorDetails::Poison { message, .. },
                } => Some(message),
                _ => None,
            });
        failure
            .and_then(|message| serde_json::from_str(message).ok())
            .unwrap_or_default()
    }

    /// The attempts of an activity that has completed.
    pub(super) fn attempts_of(&self, activity: u64) -> Option<&CompletedAttempts> {
        let mut all = self.docs.iter().flat_map(|doc| &doc.attempts);
        all.rfind(|of| of.activity == activity)
    }
}

fn decoded(pk: &PartitionKey, event: &RawValue) -> Result<Event, Failure> {
    serde_json::from_str(event.get()).map_err(|error| Failure::Corrupt {
        instance: pk.as_str().to_owned(),
        reason: format!("an event cannot be decoded by this build: {error}"),
    })
}

/// The dead letter that the turn of this commit has left.
async fn letter(store: &Store, pk: &PartitionKey, commit: &str) -> Result<Option<(DeadLetterDoc, String)>, Failure> {
    #[derive(serde::Deserialize)]
    struct Tagged {
        #[serde(rename = "_etag")]
        etag: String,
    }
    let query = Query::new(format!("SELECT * FROM c WHERE c.type = {DEAD_LETTER}"));
    for raw in store.container.query::<Box<RawValue>>(pk, &query).await? {
        let listed: Listed<DeadLetterDoc> = serde_json::from_str(raw.get())?;
        let Some(letter) = listed.known() else { continue };
        if letter.given_up.cause == DeadLetterKind::PoisonTurn && letter.name() == commit {
            let Tagged { etag } = serde_json::from_str(raw.get())?;
            return Ok(Some((letter, etag)));
        }
    }
    Ok(None)
}
