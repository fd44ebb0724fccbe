//! What the runtime gets to see of a claimed turn: pure assembly of what was read.

use super::HeldTurn;
use super::held::HeldMessage;
use super::load::Past;
use crate::due::Orchestration;
use crate::error::Failure;
use crate::model::{HistoryDoc, HistoryError, InstanceDoc, MessageDoc};
use crate::provider::TurnItem;
use crate::store::Locked;
use crate::token::Token;
use cosmos::PartitionKey;
use duroxide::EventKind;
use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem, WorkItem};
use std::collections::HashSet;
use tokio::time::Instant;

/// A claimed turn, before it is known to the runtime.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub item: TurnItem,
    pub held: HeldTurn,
}

/// The messages that this version understands, each with its work item.
pub(crate) fn decode(pk: &PartitionKey, messages: &[MessageDoc]) -> Vec<(MessageDoc, WorkItem)> {
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        match serde_json::from_str::<WorkItem>(message.item.get()) {
            Ok(item) => items.push((message.clone(), item)),
            // It may be of a newer duroxide: it stays queued, and the others go on without it.
            Err(error) => {
                tracing::error!(instance = pk.as_str(), message = message.id, %error, "a message cannot be decoded");
            }
        }
    }
    items
}

pub(crate) fn begins(item: &WorkItem) -> bool {
    matches!(
        item,
        WorkItem::StartOrchestration { .. } | WorkItem::ContinueAsNew { .. }
    )
}

/// Whether the dispatcher can replay the instance. duroxide's contract is that only the first range counts, and that
/// an unpinned execution suits everybody.
pub(crate) fn supports(filter: Option<&DispatcherCapabilityFilter>, instance: Option<&InstanceDoc>) -> bool {
    let Some(filter) = filter else { return true };
    let Some(range) = filter.supported_duroxide_versions.first() else {
        return false;
    };
    let pinned = instance.and_then(|instance| instance.current.pinned.as_ref());
    pinned.is_none_or(|version| range.contains(version))
}

/// A lock that was just claimed.
pub(crate) struct Grip<'a> {
    pub pk: &'a PartitionKey,
    pub nonce: String,
    pub lock: Locked,
    pub more: bool,
    pub expires: Instant,
}

pub(crate) fn assemble(
    grip: Grip<'_>,
    instance: Option<InstanceDoc>,
    past: Past,
    items: Vec<(MessageDoc, WorkItem)>,
) -> Result<Claimed, Failure> {
    let Grip {
        pk,
        nonce,
        lock,
        more,
        expires,
    } = grip;
    let attempt = items
        .iter()
        .filter_map(|(message, _)| lock.doc.attempts.get(&message.id))
        .max()
        .copied();
    let (messages, work): (Vec<_>, Vec<_>) = items
        .into_iter()
        .map(|(message, item)| {
            (
                HeldMessage {
                    id: message.id,
                    etag: message.etag,
                    receipt: message.receipt,
                },
                item,
            )
        })
        .unzip();
    let Past { history, kv } = past;
    let turn = 1 + instance
        .as_ref()
        .map_or(0, |instance| turns_of(&history, instance.current.execution));
    let (history, history_error) = match instance
        .as_ref()
        .map(|instance| Past::events(history, &instance.current))
    {
        None => (Vec::new(), None),
        Some(Ok(events)) => (events, None),
        Some(Err(error @ HistoryError::Corrupt { .. })) => (Vec::new(), Some(error.to_string())),
        Some(Err(error @ HistoryError::Short { .. })) => {
            return Err(Failure::Stale {
                instance: pk.as_str().to_owned(),
                reason: error.to_string(),
            });
        }
    };
    let scope = HeldTurn::scope(instance.as_ref());
    let kv_snapshot = match history_error {
        Some(_) => Default::default(),
        None => kv
            .iter()
            .filter_map(|doc| Some((doc.key.clone(), doc.snapshot(scope)?)))
            .collect(),
    };
    let orchestration = Orchestration::started(&history);
    let (name, version) = identity(instance.as_ref(), &history, &work);
    let token = Token::turn(&nonce, pk.as_str()).encode()?;
    let item = OrchestrationItem {
        instance: pk.as_str().to_owned(),
        orchestration_name: name,
        execution_id: scope.execution,
        version,
        history,
        messages: work,
        history_error,
        kv_snapshot,
    };
    let held = HeldTurn {
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
    Ok(Claimed {
        item: TurnItem {
            item,
            lock_token: token,
            attempt: attempt.unwrap_or(1),
            turn,
            more,
        },
        held,
    })
}

/// How many turns left something in the history of an execution. A long turn has several documents of one commit.
fn turns_of(history: &[HistoryDoc], execution: u64) -> u64 {
    let of_execution = history.iter().filter(|doc| doc.execution == execution);
    of_execution
        .map(|doc| doc.commit.as_str())
        .collect::<HashSet<_>>()
        .len() as u64
}

/// Name and version: from the instance, else from its history, else from the message that starts it.
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
