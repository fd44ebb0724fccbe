//! Deciding what a rewind writes. No I/O.

use super::{Cut, Loaded, Order};
use crate::due::Due;
use crate::error::Failure;
use crate::model::{
    Envelope, HistoryDoc, HistoryPart, InstanceDoc, Kept, KeptCall, KeptResultDoc, MessageDoc, Receipt, Rewind, Scope,
    StagedOp, Status, TextDoc, WorkDoc,
};
use crate::reopen;
use crate::store::{Store, check_fence, check_size};
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};
use std::collections::{HashMap, HashSet};

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
            again.extend(reopen::start_of(events, &pk).map(|start| (start, first)));
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
            let Some(item) = reopen::activity_of(event, &instance.pk, execution) else {
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

    /// The results of activities whose scheduling is undone, and the events whose subscription is.
    fn keep(&self, instance: &mut InstanceDoc, ops: &mut Vec<StagedOp>) -> Result<(), Failure> {
        let events = &self.loaded.events;
        for n in &self.cut.reopened.reused {
            let event = &events[*n];
            let Some((of, result)) = kept_of(events, event) else {
                continue;
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

/// What the result of an undone event belongs to, and the result, if it is kept.
pub(super) fn kept_of<'a>(events: &'a [Event], event: &'a Event) -> Option<(Kept<'a>, &'a str)> {
    let source = event.source_event_id.and_then(|source| {
        let at = events.binary_search_by_key(&source, Event::event_id);
        at.ok().map(|at| &events[at].kind)
    });
    match (&event.kind, source) {
        (EventKind::ActivityCompleted { result }, Some(EventKind::ActivityScheduled { name, input, .. })) => {
            Some((Kept::Activity { name, input }, result))
        }
        (EventKind::ExternalEvent { name, data }, _) => Some((Kept::Event { name }, data)),
        _ => None,
    }
}
