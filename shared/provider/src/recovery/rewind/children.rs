//! The children that a rewound instance waits for.
//!
//! The instance takes no turn until each of them is settled, so its history stays as it is, and says which these are: those that are
//! scheduled, not ended, and whose result does not wait as a message.
//!
//! | the child | what happens |
//! |---|---|
//! | does not exist any more | it is started again |
//! | has not ended | nothing: it will report |
//! | has completed | its result is sent again: the failed parent may have dropped it |
//! | has failed or was cancelled | its report, if it still waits, is removed, and it is rewound in its turn |
//! | has failed, and cannot be rewound | its failure is sent again |
//! | was rewound by the same call | nothing: it will report, or has reported |
//!
//! Each step can be repeated, and two processes may do it at once.

use super::cut::{Cut, Order, consumed};
use super::{ATTEMPTS, Done, Loaded, Refused, WAIT, clean_fence, rewind};
use crate::due::Due;
use crate::error::Failure;
use crate::model::{Envelope, IntentDoc, MessageDoc, Receipt, StagedOp, Status};
use crate::read;
use crate::recovery::deliver::deliver_one;
use crate::recovery::erase::AT_ONCE;
use crate::recovery::outbox::deliver_owed;
use crate::recovery::{Queued, apply};
use crate::reopen;
use crate::store::{Fence, Store};
use cosmos::PartitionKey;
use duroxide::providers::WorkItem;
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind, build_child_instance_id};
use futures::future::{BoxFuture, try_join_all};
use std::collections::HashSet;

/// A child that a rewound instance waits for.
struct Child<'a> {
    parent: &'a str,
    execution: u64,
    /// The event that scheduled it.
    event: u64,
    name: String,
    instance: String,
    input: String,
    /// The call of the rewind.
    call: &'a str,
}

/// The id of the child that an event has scheduled.
pub(crate) fn child_of(event: &Event, parent: &str) -> Option<String> {
    match &event.kind {
        EventKind::SubOrchestrationScheduled { instance, .. } => Some(build_child_instance_id(parent, instance)),
        _ => None,
    }
}

/// The children that exist and whose start would be undone.
pub(super) async fn started(store: &Store, loaded: &Loaded, cut: &Cut) -> Result<Vec<String>, Failure> {
    let mut started = Vec::new();
    for n in &cut.reopened.undone_children {
        let Some(child) = child_of(&loaded.events[*n], &loaded.fence.doc.pk) else {
            continue;
        };
        let found = store.newest_fence(&PartitionKey::new(&child)?).await?;
        started.extend(found.filter(|found| found.doc.is_taken()).map(|_| child));
    }
    Ok(started)
}

/// Fails while a child is about to be cancelled: the cancellation would reach it after the rewind.
pub(super) async fn check_cancelling(store: &Store, loaded: &Loaded, cut: &Cut) -> Result<(), Failure> {
    for n in &cut.reopened.children {
        let Some(child) = child_of(&loaded.events[*n], &loaded.fence.doc.pk) else {
            continue;
        };
        let pk = PartitionKey::new(&child)?;
        // What is read after this is at least as new as what others have written so far.
        let found = store.newest_fence(&pk).await?;
        let runs = found.is_some_and(|found| found.doc.is_taken() && !found.doc.current.status.is_over());
        if runs && Queued::read(store, &pk).await?.cancels() {
            return Err(Failure::busy(&pk));
        }
    }
    Ok(())
}

/// Settles the children of an instance that was rewound, and lets it go on. Returns who has something to do, or `None` when there was
/// nothing to settle.
pub(super) fn settle<'a>(
    store: &'a Store,
    pk: &'a PartitionKey,
    fence: &'a Fence,
) -> BoxFuture<'a, Result<Option<Vec<Due>>, Failure>> {
    Box::pin(async move {
        let mut fence = fence.clone();
        let mut due = Vec::new();
        for round in 0..ATTEMPTS {
            let Some(call) = fence.doc.rewinding().map(str::to_owned) else {
                return Ok((round > 0).then_some(due));
            };
            for some in open_children(store, pk, &fence, &call).await?.chunks(AT_ONCE) {
                let settled = some.iter().map(|child| settle_child(store, child));
                due.extend(try_join_all(settled).await?.into_iter().flatten());
            }
            let mut next = fence.doc.clone();
            next.set_rewinding(None, 0);
            if let Some(now) = store.swap_fence(pk, Some(&fence.etag), next).await? {
                let queued = Queued::read(store, pk).await?;
                due.extend(queued.due(&now.doc, store.now(), &Default::default()));
                return Ok(Some(due));
            }
            match store.fence(pk).await? {
                Some(now) => fence = now,
                None => return Ok(Some(due)),
            }
        }
        Err(Failure::busy(pk))
    })
}

/// The children that the instance waits for, and whose result is not among its messages.
async fn open_children<'a>(
    store: &Store,
    pk: &'a PartitionKey,
    fence: &Fence,
    call: &'a str,
) -> Result<Vec<Child<'a>>, Failure> {
    let execution = fence.doc.current.execution;
    let events = read::history_of(store, pk, execution).await?;
    let open = reopen::reopen(&events, events.len(), events.len()).children;
    let queued = Queued::read(store, pk).await?;
    let results = queued
        .messages()
        .iter()
        .filter_map(|message| serde_json::from_str(message.item.get()).ok());
    let results: HashSet<u64> = results
        .filter_map(|item| match item {
            WorkItem::SubOrchCompleted {
                parent_execution_id,
                parent_id,
                ..
            } if parent_execution_id == execution => Some(parent_id),
            _ => None,
        })
        .collect();
    let child = |event: &Event| {
        let EventKind::SubOrchestrationScheduled { name, instance, input } = &event.kind else {
            return None;
        };
        Some(Child {
            parent: pk.as_str(),
            execution,
            event: event.event_id(),
            name: name.clone(),
            instance: build_child_instance_id(pk.as_str(), instance),
            input: input.clone(),
            call,
        })
    };
    let open = open.iter().map(|n| &events[*n]);
    let open = open.filter(|event| !results.contains(&event.event_id()));
    Ok(open.filter_map(child).collect())
}

/// Settles one child. Returns who has something to do.
async fn settle_child(store: &Store, child: &Child<'_>) -> Result<Vec<Due>, Failure> {
    let mut due = Vec::new();
    let pk = PartitionKey::new(&child.instance)?;
    let parent = PartitionKey::new(child.parent)?;
    for _ in 0..ATTEMPTS {
        let Some(fence) = clean_fence(store, &pk, &mut due).await? else {
            if store
                .fence(&pk)
                .await?
                .is_some_and(|fence| fence.doc.lock.deleting.is_some())
            {
                return Err(Failure::busy(&pk));
            }
            send(store, child, &child.instance, child.start()).await?;
            due.push(Due::turn(&child.instance));
            return Ok(due);
        };
        let doc = &fence.doc;
        if !doc.current.status.is_over() || doc.rewinds.has(child.call) {
            if !doc.is_detached() {
                return Ok(due);
            }
            let mut next = doc.clone();
            next.set_detached(false);
            if store.swap_fence(&pk, Some(&fence.etag), next).await?.is_some() {
                return Ok(due);
            }
            continue;
        }
        if doc.current.status == Status::Completed {
            let result = read::output(store, &pk, &doc.current).await?.unwrap_or_default();
            send(store, child, child.parent, child.completed(result)).await?;
            return Ok(due);
        }
        if rewind_child(store, &pk, &parent, &fence, child, &mut due).await? {
            return Ok(due);
        }
        tokio::time::sleep(WAIT).await;
    }
    Err(Failure::busy(&pk))
}

/// Rewinds a child that has failed, after its report was removed. `false` when something was written meanwhile.
async fn rewind_child(
    store: &Store,
    pk: &PartitionKey,
    parent: &PartitionKey,
    fence: &Fence,
    child: &Child<'_>,
    due: &mut Vec<Due>,
) -> Result<bool, Failure> {
    let order = Order {
        call: child.call,
        reason: Some("its parent was rewound"),
        before: None,
        discard_results: false,
        detached: false,
    };
    let Some(loaded) = Loaded::read(store, pk, fence.clone()).await? else {
        return Ok(false);
    };
    if let Err(Refused::Impossible(why)) = Cut::of(&loaded, &order) {
        tracing::warn!(
            instance = pk.as_str(),
            why,
            "a child cannot be rewound: its parent gets its failure again"
        );
        let error = read::output(store, pk, &fence.doc.current).await?.unwrap_or_default();
        send(store, child, child.parent, child.failed(error)).await?;
        return Ok(true);
    }
    deliver_owed(store, pk, |intent| intent.message.pk == child.parent).await?;
    if !forget_report(store, parent, &fence.doc.current.head, child).await? {
        return Ok(false);
    }
    match Box::pin(rewind(store, pk, &order, due)).await? {
        Done::Rewound { due: woken } => {
            due.extend(woken);
            Ok(true)
        }
        Done::NotFailed | Done::Deleting | Done::Refused(_) => Ok(false),
    }
}

/// Replaces the report of a failed child by its receipt, if it waits: that of its last commit, and no later one.
async fn forget_report(store: &Store, parent: &PartitionKey, head: &str, child: &Child<'_>) -> Result<bool, Failure> {
    let Some(fence) = store.fence(parent).await? else {
        return Ok(true);
    };
    if fence.doc.rewinding() != Some(child.call) {
        // Others have settled it.
        return Ok(false);
    }
    let queued = Queued::read(store, parent).await?;
    let is_report = |message: &&MessageDoc| {
        message.name().starts_with(&format!("{head}-"))
            && matches!(
                serde_json::from_str(message.item.get()),
                Ok(WorkItem::SubOrchFailed { parent_id, .. }) if parent_id == child.event
            )
    };
    let reports = queued.messages().iter().filter(is_report);
    let ops: Vec<StagedOp> = reports
        .map(|report| consumed(report, store.receipt_ttl))
        .collect::<Result<_, _>>()?;
    if ops.is_empty() {
        return Ok(true);
    }
    let applied = apply(store, parent, &fence, (&fence.doc, &fence.doc), ops).await?;
    Ok(applied.is_some())
}

impl Child<'_> {
    fn start(&self) -> WorkItem {
        WorkItem::StartOrchestration {
            instance: self.instance.clone(),
            orchestration: self.name.clone(),
            input: self.input.clone(),
            version: None,
            parent_instance: Some(self.parent.to_owned()),
            parent_id: Some(self.event),
            parent_execution_id: Some(self.execution),
            execution_id: duroxide::INITIAL_EXECUTION_ID,
        }
    }

    fn completed(&self, result: String) -> WorkItem {
        WorkItem::SubOrchCompleted {
            parent_instance: self.parent.to_owned(),
            parent_execution_id: self.execution,
            parent_id: self.event,
            result,
        }
    }

    fn failed(&self, message: String) -> WorkItem {
        WorkItem::SubOrchFailed {
            parent_instance: self.parent.to_owned(),
            parent_execution_id: self.execution,
            parent_id: self.event,
            details: ErrorDetails::Application {
                kind: AppErrorKind::OrchestrationFailed,
                message,
                retryable: false,
            },
        }
    }
}

/// Writes a message of the rewind into a partition. Its id derives from the call, so a second one conflicts.
async fn send(store: &Store, child: &Child<'_>, target: &str, item: WorkItem) -> Result<(), Failure> {
    let now = store.now();
    let name = format!("{}-{}-{}", child.call, child.execution, child.event);
    let envelope = Envelope {
        id: name.clone(),
        queued_at: now,
        arrival: store.sequence.next(now),
        due_at: now,
        receipt: Receipt::Long,
    };
    let message = MessageDoc::new(target, envelope, &item)?;
    let intent = IntentDoc::new(child.parent, &name, now, message);
    deliver_one(store, &store.container, &intent).await
}
