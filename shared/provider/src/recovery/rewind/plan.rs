//! Deciding what a rewind writes. No I/O.

use super::{Loaded, Refused};
use crate::due::Due;
use crate::error::Failure;
use crate::model::{
    Envelope, HistoryDoc, HistoryPart, InstanceDoc, Kept, KeptCall, KeptResultDoc, MessageDoc, Receipt, ReceiptDoc,
    Rewind, Scope, StagedOp, Status, TextDoc, WorkDoc,
};
use crate::reopen::{self, Reopened};
use crate::store::{Store, check_fence, check_size};
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};
use std::collections::{HashMap, HashSet};

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

    fn kept(&self) -> usize {
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

/// What to write.
#[derive(Debug)]
pub(super) struct Plan {
    pub commit: String,
    pub instance: InstanceDoc,
    pub state: Vec<StagedOp>,
    pub history: Vec<StagedOp>,
    pub rest: Vec<StagedOp>,
}

struct Planner<'a> {
    loaded: &'a Loaded,
    cut: &'a Cut,
    store: &'a Store,
    commit: &'a str,
    now: u64,
}

impl Plan {
    pub(super) fn make(
        loaded: &Loaded,
        cut: &Cut,
        order: &Order<'_>,
        store: &Store,
        commit: &str,
    ) -> Result<Plan, Failure> {
        let now = store.now();
        let planner = Planner {
            loaded,
            cut,
            store,
            commit,
            now,
        };
        planner.plan(order)
    }
}

impl Planner<'_> {
    fn plan(&self, order: &Order<'_>) -> Result<Plan, Failure> {
        let mut instance = self.loaded.fence.doc.clone();
        let (mut state, mut rest) = (Vec::new(), Vec::new());
        self.note(&mut instance, order);
        if let Some((letter, etag)) = &self.loaded.letter {
            state.push(StagedOp::delete(&letter.id, etag));
        }
        let history = self.history(&mut instance)?;
        self.reset(&mut instance, &mut state);
        self.keys(&mut instance, &mut state)?;
        self.custom_status(&mut instance, &mut state)?;
        self.messages(&mut instance, &mut rest)?;
        self.work(&instance, &mut rest)?;
        if order.discard_results {
            rest.extend(self.loaded.kept.iter().map(|id| StagedOp::discard(id)));
            instance.set_kept_results(0);
        } else {
            self.keep(&mut instance, &mut rest)?;
        }
        instance.updated_at = self.now;
        instance.lock.release(true);
        instance.lock.commit(self.commit, &[]);
        instance.set_detached(order.detached);
        instance.set_rewinding(Some(order.call.to_owned()), self.store.repair_due());
        check_fence(&instance)?;
        Ok(Plan {
            commit: self.commit.to_owned(),
            instance,
            state,
            history,
            rest,
        })
    }

    fn kept(&self) -> &[Event] {
        &self.loaded.events[..self.cut.kept()]
    }

    /// Remembers what is undone.
    fn note(&self, instance: &mut InstanceDoc, order: &Order<'_>) {
        let state = &instance.current;
        let undone = &self.loaded.events[self.cut.kept()..];
        let rewind = Rewind {
            number: instance.rewinds.next(),
            at: self.now,
            reason: order.reason.map(str::to_owned),
            execution: state.execution,
            before: undone.first().map_or(state.last_event_id + 1, Event::event_id),
            undone: undone.len() as u64,
            error: state.output.clone(),
            cancelled: state.cancelled,
            head: state.head.clone(),
            events: state.events,
            call: order.call.to_owned(),
        };
        instance.rewinds.push(rewind);
    }

    /// The kept part of the commit that the cut is in, under a new name; and head and counts at the cut.
    fn history(&self, instance: &mut InstanceDoc) -> Result<Vec<StagedOp>, Failure> {
        let state = &mut instance.current;
        let kept = self.kept().len() as u64;
        let end = |doc: &HistoryDoc| doc.offset + doc.events.len() as u64;
        let mut ends: HashMap<&str, u64> = HashMap::new();
        for doc in &self.loaded.docs {
            let of = ends.entry(&doc.commit).or_default();
            *of = (*of).max(end(doc));
        }
        let (whole, parts): (Vec<&HistoryDoc>, Vec<&HistoryDoc>) = self
            .loaded
            .docs
            .iter()
            .partition(|doc| ends[doc.commit.as_str()] <= kept);
        state.head = whole.last().map(|doc| doc.commit.clone()).unwrap_or_default();
        let mut ops = Vec::new();
        let prev = state.head.clone();
        let part = HistoryPart {
            pk: &instance.pk,
            execution: state.execution,
            commit: self.commit,
            prev: &prev,
        };
        let completed: HashSet<u64> = self.kept().iter().filter_map(|event| event.source_event_id).collect();
        for doc in parts.iter().filter(|doc| doc.offset < kept) {
            let events = doc.events[..(kept.min(end(doc)) - doc.offset) as usize].to_vec();
            let mut attempts = doc.attempts.clone();
            attempts.retain(|of| completed.contains(&of.activity));
            let doc = HistoryDoc::new(&part, doc.offset, events).with_attempts(attempts);
            ops.push(StagedOp::create(&doc.id, &doc)?);
            state.head = self.commit.to_owned();
        }
        let raw = self.loaded.docs.iter().flat_map(|doc| &doc.events).take(kept as usize);
        state.event_bytes = raw.map(|event| event.get().len() as u64).sum();
        state.events = kept;
        state.last_event_id = self.kept().last().map_or(0, Event::event_id);
        Ok(ops)
    }

    /// The execution as a running one.
    fn reset(&self, instance: &mut InstanceDoc, ops: &mut Vec<StagedOp>) {
        let state = &mut instance.current;
        if state.long_output {
            ops.push(StagedOp::discard(&TextDoc::output_id(state.execution)));
        }
        state.status = Status::Running;
        state.set_output(&instance.pk, None);
        state.completed_at = None;
        state.cancelled = false;
        state.open_timers.clear();
        instance.blocked = None;
    }

    /// The keys as they were at the cut, and the tags that come from them.
    fn keys(&self, instance: &mut InstanceDoc, ops: &mut Vec<StagedOp>) -> Result<(), Failure> {
        let execution = instance.current.execution;
        let scope = Scope {
            execution,
            terminal: false,
        };
        let mut changed = Vec::new();
        for doc in self.loaded.kv.iter().filter(|doc| doc.is_changed_by(execution)) {
            let mut then = doc.clone();
            then.undo();
            for event in self.kept() {
                match &event.kind {
                    EventKind::KeyValueSet {
                        key,
                        value,
                        last_updated_at_ms,
                    } if *key == doc.key => then.write(scope, Some((value, *last_updated_at_ms))),
                    EventKind::KeyValueCleared { key } if *key == doc.key => then.write(scope, None),
                    EventKind::KeyValuesCleared => then.write(scope, None),
                    _ => {}
                }
            }
            if then.newest() != doc.newest() {
                changed.push(then);
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        instance.kv_rev += 1;
        for mut doc in changed {
            let tags = std::mem::take(&mut instance.tags);
            instance.tags = tags.with_key(&instance.pk, &doc.key, doc.newest());
            doc.rev = instance.kv_rev;
            ops.push(StagedOp::upsert(&doc.id, &doc)?);
        }
        Ok(())
    }

    /// The custom status as it was at the cut, if it has changed since.
    fn custom_status(&self, instance: &mut InstanceDoc, ops: &mut Vec<StagedOp>) -> Result<(), Failure> {
        let sets = |event: &Event| matches!(event.kind, EventKind::CustomStatusUpdated { .. });
        if !self.loaded.events[self.cut.kept()..].iter().any(sets) {
            return Ok(());
        }
        let then = self.kept().iter().rev().find_map(|event| match &event.kind {
            EventKind::CustomStatusUpdated { status } => Some(status.clone()),
            EventKind::OrchestrationStarted {
                initial_custom_status, ..
            } => Some(initial_custom_status.clone()),
            _ => None,
        });
        instance.custom_status_version += 1;
        if let Some(long) = instance.set_custom_status(then.flatten().as_deref()) {
            ops.push(StagedOp::upsert(&long.id, &long)?);
        }
        Ok(())
    }

    /// The messages that are delivered again, in their old order and before what came later; and the timers that have not fired.
    fn messages(&self, instance: &mut InstanceDoc, ops: &mut Vec<StagedOp>) -> Result<(), Failure> {
        let (events, pk, execution) = (&self.loaded.events, instance.pk.clone(), instance.current.execution);
        let reopened = &self.cut.reopened;
        let mut again = reopen::again(events, reopened, &pk, execution, self.loaded.unrecorded());
        let first = events.first().map_or(self.now, |event| event.timestamp_ms);
        if self.cut.restart {
            again.extend(start_of(events, &pk).map(|start| (start, first)));
        } else if reopened.nudge {
            again.push((reopen::nudge(&pk), first));
        }
        for (n, (item, at)) in again.iter().enumerate() {
            let name = match item {
                WorkItem::TimerFired { execution_id, id, .. } => MessageDoc::timer_name(*execution_id, *id),
                _ => format!("{}-{n}", self.commit),
            };
            let mut message = self.message(&pk, name, item, *at)?.renewed_at(self.now);
            if let WorkItem::ActivityCompleted { id, .. } = item {
                message.attempts = self.loaded.attempts_of(*id).cloned();
            }
            check_size("a message", &pk, &message)?;
            ops.push(StagedOp::upsert(&message.id, &message)?);
        }
        for n in &reopened.timers {
            let EventKind::TimerCreated { fire_at_ms } = events[*n].kind else {
                continue;
            };
            let id = events[*n].event_id();
            instance.current.open_timer(id);
            if again
                .iter()
                .any(|(item, _)| matches!(item, WorkItem::TimerFired { id: fired, .. } if *fired == id))
            {
                continue;
            }
            let item = WorkItem::TimerFired {
                instance: pk.clone(),
                execution_id: execution,
                id,
                fire_at_ms,
            };
            let at = Due::message(&item).and_then(|due| due.at_ms).unwrap_or(self.now);
            let message = self.message(&pk, MessageDoc::timer_name(execution, id), &item, at)?;
            ops.push(StagedOp::upsert(&message.id, &message.due_from(at.max(self.now)))?);
        }
        for n in &reopened.delivered {
            if let (EventKind::TimerFired { .. }, Some(id)) = (&events[*n].kind, events[*n].source_event_id) {
                instance.current.open_timer(id);
            }
        }
        Ok(())
    }

    fn message(&self, pk: &str, id: String, item: &WorkItem, at: u64) -> Result<MessageDoc, Failure> {
        let envelope = Envelope {
            id,
            queued_at: at,
            arrival: self.store.sequence.next(at),
            due_at: at,
            receipt: Receipt::None,
        };
        Ok(MessageDoc::new(pk, envelope, item)?)
    }

    /// The activities that run again: those that nobody runs, and whose result does not wait.
    fn work(&self, instance: &InstanceDoc, ops: &mut Vec<StagedOp>) -> Result<(), Failure> {
        let execution = instance.current.execution;
        let waiting = self.loaded.messages.iter().map(|message| message.item.clone());
        let waiting = waiting.filter_map(|item| serde_json::from_str(item.get()).ok());
        let waiting = waiting.chain(self.loaded.unrecorded());
        let obtained: HashSet<u64> = waiting
            .filter_map(|item| match item {
                WorkItem::ActivityCompleted { execution_id, id, .. } if execution_id == execution => Some(id),
                _ => None,
            })
            .collect();
        for n in &self.cut.reopened.activities {
            let event = &self.loaded.events[*n];
            let id = event.event_id();
            let is_there = self.loaded.works.contains_key(&WorkDoc::id(execution, id));
            let Some(item) = activity_of(event, &instance.pk, execution) else {
                continue;
            };
            if is_there || obtained.contains(&id) {
                continue;
            }
            let sort_key = self.store.sequence.next(self.now);
            if let Some(doc) = WorkDoc::new(&item, &sort_key, self.now)? {
                let doc = doc.scheduled_by(instance.orchestration());
                ops.push(StagedOp::create(&doc.id, &doc)?);
            }
        }
        Ok(())
    }
}

impl Planner<'_> {
    /// The results of activities whose scheduling is undone, and the events whose subscription is.
    fn keep(&self, instance: &mut InstanceDoc, ops: &mut Vec<StagedOp>) -> Result<(), Failure> {
        let events = &self.loaded.events;
        let by_id: HashMap<u64, &Event> = events.iter().map(|event| (event.event_id(), event)).collect();
        for n in &self.cut.reopened.reused {
            let event = &events[*n];
            let source = event.source_event_id.and_then(|source| by_id.get(&source));
            let (of, result) = match (&event.kind, source.map(|source| &source.kind)) {
                (EventKind::ActivityCompleted { result }, Some(EventKind::ActivityScheduled { name, input, .. })) => {
                    (Kept::Activity { name, input }, result)
                }
                (EventKind::ExternalEvent { name, data }, _) => (Kept::Event { name }, data),
                _ => continue,
            };
            let call = KeptCall {
                execution: instance.current.execution,
                of,
                order: [event.timestamp_ms, *n as u64],
            };
            let mut kept = KeptResultDoc::new(&instance.pk, &format!("{}:{n}", self.commit), &call, result);
            kept.attempts = event
                .source_event_id
                .and_then(|id| self.loaded.attempts_of(id))
                .cloned();
            ops.push(StagedOp::create(&kept.id, &kept)?);
        }
        // Those that an earlier rewind has kept are still there, even if the instance has failed again since.
        let count = self.loaded.kept.len() + self.cut.reopened.reused.len();
        instance.set_kept_results(count as u64);
        Ok(())
    }
}

/// The work item of an activity that an event has scheduled.
pub(crate) fn activity_of(event: &Event, instance: &str, execution_id: u64) -> Option<WorkItem> {
    let EventKind::ActivityScheduled {
        name,
        input,
        session_id,
        tag,
    } = &event.kind
    else {
        return None;
    };
    Some(WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id,
        id: event.event_id(),
        name: name.clone(),
        input: input.clone(),
        session_id: session_id.clone(),
        tag: tag.clone(),
    })
}

/// The start that the first event came from.
fn start_of(events: &[Event], instance: &str) -> Option<WorkItem> {
    let EventKind::OrchestrationStarted {
        name,
        input,
        parent_instance,
        parent_id,
        parent_execution_id,
        ..
    } = &events.first()?.kind
    else {
        return None;
    };
    Some(WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: name.clone(),
        input: input.clone(),
        // The registry chooses.
        version: None,
        parent_instance: parent_instance.clone(),
        parent_id: *parent_id,
        parent_execution_id: *parent_execution_id,
        execution_id: duroxide::INITIAL_EXECUTION_ID,
    })
}
