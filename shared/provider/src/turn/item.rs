//! Assembling what was read of a claimed turn: the item for the runtime, and what the commit needs. No I/O.

use super::claimed::{ClaimedMessage, ClaimedTurn};
use crate::due::Orchestration;
use crate::error::Failure;
use crate::model::{HistoryDoc, HistoryError, InstanceDoc, MessageDoc};
use crate::read::Past;
use crate::store::Locked;
use crate::token::TurnToken;
use crate::types::TurnItem;
use cosmos::PartitionKey;
use duroxide::EventKind;
use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem, WorkItem};
use std::collections::HashSet;
use tokio::time::Instant;

/// The messages that this version can decode, each with its work item.
pub(crate) fn decode(pk: &PartitionKey, messages: &[MessageDoc]) -> Vec<(MessageDoc, WorkItem)> {
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        match serde_json::from_str::<WorkItem>(message.item.get()) {
            Ok(item) => items.push((message.clone(), item)),
            // It may be of a newer duroxide: it stays queued, and the turn runs without it.
            Err(error) => {
                tracing::error!(instance = pk.as_str(), message = message.id, %error, "a message cannot be decoded");
            }
        }
    }
    items
}

/// Whether the dispatcher can replay the instance. By duroxide's contract only the first range counts, and every
/// dispatcher can replay an unpinned execution.
pub(crate) fn supports(filter: Option<&DispatcherCapabilityFilter>, instance: Option<&InstanceDoc>) -> bool {
    let Some(filter) = filter else { return true };
    let Some(range) = filter.supported_duroxide_versions.first() else {
        return false;
    };
    let pinned = instance.and_then(|instance| instance.current.pinned.as_ref());
    pinned.is_none_or(|version| range.contains(version))
}

/// A claim that was just written.
pub(crate) struct Claim<'a> {
    pub pk: &'a PartitionKey,
    pub nonce: String,
    pub lock: Locked,
    pub more: bool,
    pub expires: Instant,
}

pub(crate) fn assemble(
    claim: Claim<'_>,
    instance: Option<InstanceDoc>,
    past: Past,
    items: Vec<(MessageDoc, WorkItem)>,
) -> Result<(TurnItem, ClaimedTurn), Failure> {
    let Claim {
        pk,
        nonce,
        lock,
        more,
        expires,
    } = claim;
    let attempt = items
        .iter()
        .filter_map(|(message, _)| lock.doc.attempts.get(&message.id))
        .max()
        .copied();
    let (messages, work): (Vec<_>, Vec<_>) = items
        .into_iter()
        .map(|(message, item)| (ClaimedMessage::from(message), item))
        .unzip();
    let mut past = past;
    let kv = std::mem::take(&mut past.kv);
    let turn = 1 + instance
        .as_ref()
        .map_or(0, |instance| turns_of(&past.history, instance.current.execution));
    let (history, history_error) = match instance.as_ref().map(|instance| past.events(&instance.current)) {
        None => (Vec::new(), None),
        Some(Ok(events)) => (events, None),
        Some(Err(error @ HistoryError::Corrupt { .. })) => (Vec::new(), Some(error.to_string())),
        Some(Err(error @ HistoryError::Short { .. })) => {
            return Err(Failure::stale(pk, error.to_string()));
        }
    };
    let scope = ClaimedTurn::scope(instance.as_ref());
    let kv_snapshot = match history_error {
        Some(_) => Default::default(),
        None => kv
            .iter()
            .filter_map(|doc| Some((doc.key.clone(), doc.snapshot(scope)?)))
            .collect(),
    };
    let orchestration = Orchestration::started(&history);
    let (name, version) = identity(instance.as_ref(), &history, &work);
    let token = TurnToken {
        nonce: nonce.clone(),
        pk: pk.clone(),
    }
    .encode()?;
    let item = TurnItem {
        item: OrchestrationItem {
            instance: pk.as_str().to_owned(),
            orchestration_name: name,
            execution_id: scope.execution,
            version,
            history,
            messages: work,
            history_error,
            kv_snapshot,
        },
        lock_token: token,
        attempt: attempt.unwrap_or(1),
        turn,
        more,
    };
    let turn = ClaimedTurn {
        pk: pk.clone(),
        nonce,
        lock,
        instance,
        kv,
        messages,
        more,
        orchestration,
        expires,
    };
    Ok((item, turn))
}

/// How many turns of an execution have written events. A long turn has several documents of one commit.
fn turns_of(history: &[HistoryDoc], execution: u64) -> u64 {
    let of_execution = history.iter().filter(|doc| doc.execution == execution);
    of_execution
        .map(|doc| doc.commit.as_str())
        .collect::<HashSet<_>>()
        .len() as u64
}

/// Name and version: from the instance, else from its history, else from the start message.
fn identity(instance: Option<&InstanceDoc>, history: &[duroxide::Event], items: &[WorkItem]) -> (String, String) {
    let unknown = || "unknown".to_owned();
    if let Some((Some(name), version)) = instance.map(|instance| (&instance.name, &instance.version)) {
        return (name.clone(), version.clone().unwrap_or_else(unknown));
    }
    let started = history.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted { name, version, .. } => Some((name.clone(), version.clone())),
        _ => None,
    });
    started
        .or_else(|| {
            items.iter().find_map(|item| match item {
                WorkItem::StartOrchestration {
                    orchestration, version, ..
                }
                | WorkItem::ContinueAsNew {
                    orchestration, version, ..
                } => Some((orchestration.clone(), version.clone().unwrap_or_else(unknown))),
                _ => None,
            })
        })
        .unwrap_or_else(|| (unknown(), unknown()))
}
