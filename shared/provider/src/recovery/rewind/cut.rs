//! What an operator asks a rewind for, where it cuts the history, and what must go first. Pure.

use super::{Loaded, Refused};
use crate::error::Failure;
use crate::model::{MessageDoc, ReceiptDoc, StagedOp, WorkDoc};
use crate::reopen::{self, Reopened};
use duroxide::EventKind;
use duroxide::providers::WorkItem;
use std::collections::HashSet;

/// What an operator, or the rewind of its parent, asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'a> {
    /// Recognises a repetition.
    pub call: &'a str,
    pub reason: Option<&'a str>,
    /// Rewind to before this event, instead of to before the failure.
    pub before: Option<u64>,
    /// Results of activities that are scheduled again are not used: they run again.
    pub discard_results: bool,
    /// The parent has its failure, and must not be told of its end again.
    pub detached: bool,
}

/// Where the history is cut, and what follows.
#[derive(Debug)]
pub(crate) struct Cut {
    pub reopened: Reopened,
    /// The start is queued again in place of its event: no build has chosen a version yet.
    pub restart: bool,
}

impl Cut {
    /// The cut of an order, or why it is refused.
    pub(crate) fn of(loaded: &Loaded, order: &Order<'_>) -> Result<Cut, Refused> {
        let (events, last_turn) = (&loaded.events, loaded.last_turn);
        if events.is_empty() {
            return Err(Refused::Impossible("it has no history".to_owned()));
        }
        let at = match order.before {
            Some(event) => reopen::before(events, event, last_turn),
            None => reopen::default_cut(events, last_turn),
        };
        let reopened = reopen::reopen(events, at, last_turn);
        let is_chosen = match events.first().map(|event| &event.kind) {
            Some(EventKind::OrchestrationStarted { version, .. }) => {
                semver::Version::parse(version).is_ok_and(|version| version != semver::Version::new(0, 0, 0))
            }
            _ => {
                return Err(Refused::Impossible(
                    "its history does not begin with its start".to_owned(),
                ));
            }
        };
        let restart = reopened.nudge && !is_chosen;
        if restart && loaded.fence.doc.current.execution != duroxide::INITIAL_EXECUTION_ID {
            let why = "its execution was given up before a build had begun it: start it again instead";
            return Err(Refused::Impossible(why.to_owned()));
        }
        Ok(Cut { reopened, restart })
    }

    pub(super) fn kept(&self) -> usize {
        if self.restart { 0 } else { self.reopened.kept }
    }

    /// What waits and must go first: what belongs to events that are undone, failures of what runs again, cancellations.
    pub(super) fn stale(&self, loaded: &Loaded, receipt_ttl: u32) -> Result<Vec<StagedOp>, Failure> {
        let execution = loaded.fence.doc.current.execution;
        let open = |positions: &[usize]| -> HashSet<u64> {
            let ids = positions.iter().map(|n| loaded.events[*n].event_id());
            ids.collect()
        };
        let activities = open(&self.reopened.activities);
        let timers = open(&self.reopened.timers);
        let children = open(&self.reopened.children);
        let is_stale = |message: &MessageDoc| match serde_json::from_str(message.item.get()) {
            Ok(WorkItem::ActivityCompleted { execution_id, id, .. }) => {
                execution_id == execution && !activities.contains(&id)
            }
            Ok(WorkItem::ActivityFailed { execution_id, .. }) => execution_id == execution,
            Ok(WorkItem::TimerFired { execution_id, id, .. }) => execution_id == execution && !timers.contains(&id),
            Ok(
                WorkItem::SubOrchCompleted {
                    parent_execution_id,
                    parent_id,
                    ..
                }
                | WorkItem::SubOrchFailed {
                    parent_execution_id,
                    parent_id,
                    ..
                },
            ) => parent_execution_id == execution && !children.contains(&parent_id),
            Ok(WorkItem::CancelInstance { .. }) => true,
            _ => false,
        };
        let mut ops = Vec::new();
        for message in loaded.messages.iter().filter(|message| is_stale(message)) {
            ops.push(consumed(message, receipt_ttl)?);
        }
        for (work, etag) in loaded.works.values() {
            let is_undone = WorkDoc::numbers_of(&work.id)
                .is_some_and(|(of, activity)| of == execution && !activities.contains(&activity));
            if is_undone {
                ops.push(StagedOp::delete(&work.id, etag));
            }
        }
        Ok(ops)
    }
}

/// The message as a turn leaves it that has consumed it.
pub(super) fn consumed(message: &MessageDoc, receipt_ttl: u32) -> Result<StagedOp, Failure> {
    Ok(match message.receipt.ttl(receipt_ttl) {
        Some(ttl) => {
            let receipt = ReceiptDoc::new(&message.pk, &message.id, ttl);
            StagedOp::replace(&message.id, &message.etag, &receipt)?
        }
        None => StagedOp::delete(&message.id, &message.etag),
    })
}
