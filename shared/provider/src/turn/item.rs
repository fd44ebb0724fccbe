//! Assembling what was read of a claimed turn: the item for the runtime, and what the commit needs. No I/O.

use super::claimed::ClaimedTurn;
use crate::error::Failure;
use crate::model::{HistoryError, InstanceDoc, MessageDoc};
use crate::read::{KnownHistories, KnownHistory, Past};
use crate::store::{Fence, Spending};
use crate::token::TurnToken;
use crate::types::TurnItem;
use cosmos::PartitionKey;
use duroxide::EventKind;
use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem, WorkItem};
use std::sync::Arc;
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

/// A turn that can be run: the instance is claimed, or is as it was read.
pub(crate) struct Claim<'a> {
    pub pk: &'a PartitionKey,
    pub nonce: String,
    pub fence: Fence,
    pub more: bool,
    pub until: u64,
    pub expires: Instant,
    pub spending: Arc<Spending>,
}

/// `unread`: why the history was not read.
pub(crate) fn assemble(
    claim: Claim<'_>,
    past: Past,
    unread: Option<String>,
    items: Vec<(MessageDoc, WorkItem)>,
    known: &KnownHistories,
) -> Result<(TurnItem, ClaimedTurn), Failure> {
    let Claim {
        pk,
        nonce,
        fence,
        more,
        until,
        expires,
        spending,
    } = claim;
    let instance = Some(&fence.doc).filter(|instance| instance.exists());
    let attempt = items
        .iter()
        .filter_map(|(message, _)| fence.doc.lock.attempts.get(&message.id))
        .max()
        .copied();
    let (messages, work): (Vec<_>, Vec<_>) = items.into_iter().unzip();
    let mut past = past;
    let (kv, is_tail) = (std::mem::take(&mut past.kv), past.is_tail);
    let turn = 1 + instance.map_or(0, |instance| past.turns_of(&instance.current));
    let replayed = instance.filter(|_| unread.is_none());
    let (history, history_error) = match replayed.map(|instance| past.events(&instance.current)) {
        None => (Vec::new(), unread),
        Some(Ok(events)) => (events, None),
        Some(Err(error @ HistoryError::Corrupt { .. })) => (Vec::new(), Some(error.to_string())),
        Some(Err(error @ HistoryError::Short { .. })) => {
            return Err(Failure::stale(pk, error.to_string()));
        }
    };
    match instance.filter(|instance| history_error.is_none() && !is_tail && !instance.current.status.is_terminal()) {
        Some(instance) => known.put(
            pk.as_str(),
            KnownHistory {
                execution: instance.current.execution,
                head: instance.current.head.clone(),
                events: Arc::new(history.clone()),
                bytes: instance.current.event_bytes,
                turns: turn - 1,
            },
        ),
        None => known.forget(pk.as_str()),
    }
    let scope = ClaimedTurn::scope(instance);
    let kv_snapshot = match history_error {
        Some(_) => Default::default(),
        None => kv
            .iter()
            .filter_map(|doc| Some((doc.key.clone(), doc.snapshot(scope)?)))
            .collect(),
    };
    let (name, version) = identity(instance, &history, &work);
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
        blocked: fence.doc.blocked.clone(),
        is_over: fence.doc.current.status.is_over(),
        is_paused: fence.doc.paused().is_some(),
    };
    let turn = ClaimedTurn {
        pk: pk.clone(),
        nonce,
        fence,
        kv,
        messages,
        more,
        until,
        expires,
        spending,
    };
    Ok((item, turn))
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
