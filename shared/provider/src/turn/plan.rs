//! Deciding what a turn writes. No I/O: the same turn, time and ids always make the same plan.
//!
//! The result is the next instance document, and a list of operations on its partition in order of importance: keys and
//! history first, then what the turn emits and consumes. The commit decides how many batches they take.

use super::claimed::ClaimedTurn;
use super::timers;
use crate::clock::Sequence;
use crate::due::{Due, TurnDecision, is_cancellation};
use crate::error::Failure;
use crate::given_up;
use crate::model::{
    CompletedAttempts, DeadLetterDoc, Envelope, ExecutionDoc, ExecutionState, GivenUp, HistoryDoc, HistoryPart,
    InstanceDoc, IntentDoc, Kept, KeptResultDoc, KvDoc, LateUsage, MessageDoc, Orchestration, ParentCall, PausePhase,
    Receipt, ReceiptDoc, Scope, StagedOp, Status, TextDoc, Usage, WorkDoc, target_of,
};
use crate::store::{MAX_DOCUMENT, check_fence, check_session, check_size};
use cosmos::PartitionKey;
use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashSet};

/// History documents are cut well below the limit, so that two of them still share a batch.
const HISTORY_PART: usize = 900 * 1024;

/// At most so many bytes of a history document are one attempt of an activity.
const ATTEMPT_BYTES: usize = 100;

/// Time and names for a plan.
#[derive(Debug)]
pub(crate) struct PlanContext<'a> {
    pub now_ms: u64,
    /// From when on any process may deliver the intents.
    pub repair_due: u64,
    /// The name of the commit; ids of what it creates are made from it.
    pub commit: &'a str,
    /// How long a dead letter is kept, in seconds.
    pub dead_letter_ttl: u32,
    /// How long a receipt of a message from another instance is kept, in seconds.
    pub receipt_ttl: u32,
    pub sequence: &'a Sequence,
    /// What the provider itself gives up; what duroxide gives up is in the decision.
    pub given_up: Option<GivenUp>,
    /// The earlier execution that the turn writes to, if it is not the current one.
    pub earlier: Option<ExecutionDoc>,
    /// Results that a rewind has kept, in their order.
    pub kept: Vec<KeptResultDoc>,
    pub usage: TurnUsage<'a>,
}

/// What the turn adds to the usage of its instance, beside what its messages bring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TurnUsage<'a> {
    /// What it has spent, with the request of its commit.
    pub spent: Usage,
    /// The wakeups that follow it for the same instance.
    pub wakeups: u64,
    /// Late usage that this process knows.
    pub late: &'a [LateUsage],
    /// What a message to another instance takes.
    pub announced: Usage,
}

/// What to write.
#[derive(Debug)]
pub(crate) struct Plan {
    pub commit: String,
    /// The fence of the batch that decides.
    pub instance: InstanceDoc,
    /// Earlier execution, long texts and keys: they go into the decisive batch, if they fit.
    pub state: Vec<StagedOp>,
    pub history: Vec<StagedOp>,
    /// Messages, work items, intents, consumed messages, cancelled activities, timers of an execution that has ended.
    pub rest: Vec<StagedOp>,
    pub intents: Vec<IntentDoc>,
    /// The new activities.
    pub work: Vec<WorkDoc>,
    /// What is appended to the history.
    pub events: Vec<Event>,
    /// How many activities have a result that was kept: their turn is due.
    pub reused: u64,
    /// The late usage that is counted with it.
    pub counted_late: Vec<LateUsage>,
}

impl Plan {
    pub(crate) fn make(turn: &ClaimedTurn, decision: TurnDecision, context: PlanContext<'_>) -> Result<Plan, Failure> {
        Planner {
            turn,
            context,
            state: Vec::new(),
            rest: Vec::new(),
            reused: 0,
        }
        .plan(decision)
    }
}

/// A history document to be.
#[derive(Default)]
struct PendingPart {
    events: Vec<Box<RawValue>>,
    attempts: Vec<CompletedAttempts>,
}

struct Planner<'a> {
    turn: &'a ClaimedTurn,
    context: PlanContext<'a>,
    state: Vec<StagedOp>,
    rest: Vec<StagedOp>,
    reused: u64,
}

impl Planner<'_> {
    fn plan(mut self, mut decision: TurnDecision) -> Result<Plan, Failure> {
        self.dead_letter(&decision)?;
        given_up::abridge(&mut decision);
        let mut messages = std::mem::take(&mut decision.messages);
        // Its parent has a failure of it already: a second report would not match its history.
        let doc = &self.turn.fence.doc;
        let parent = doc.parent.as_deref().filter(|_| doc.is_detached());
        let is_report = |item: &WorkItem| {
            let is_end = matches!(item, WorkItem::SubOrchCompleted { .. } | WorkItem::SubOrchFailed { .. });
            is_end && parent.is_some() && target_of(item) == parent
        };
        messages.retain(|item| !decision.is_void(item) && !is_report(item));
        let TurnDecision {
            execution,
            events,
            work,
            metadata,
            cancelled,
            ..
        } = decision;
        let now = self.context.now_ms;
        let mut instance = match self.turn.instance() {
            Some(instance) => instance.clone(),
            None => self.turn.fence.doc.begun(execution, now),
        };
        let mut archived = None;
        let mut state = if execution > instance.current.execution {
            instance.executions += 1;
            instance.earlier_events += instance.current.events;
            archived = Some(ExecutionDoc::archived(&instance));
            instance.current = ExecutionState::new(execution, now);
            instance.current.clone()
        } else if execution < instance.current.execution {
            let known = self.context.earlier.take();
            instance.executions += u64::from(known.is_none());
            let earlier = known.unwrap_or_else(|| ExecutionDoc::new(self.pk(), ExecutionState::new(execution, now)));
            let state = earlier.state.clone();
            archived = Some(earlier);
            state
        } else {
            instance.current.clone()
        };
        let before = state.events;
        let history = self.history(&mut state, &events)?;
        self.describe(&mut instance, &mut state, &events, &metadata)?;
        self.keys(&mut instance, &state, &events)?;
        let closed_timers = timers::track(&mut state, &self.turn.messages, &messages);
        if execution == instance.current.execution {
            instance.current = state;
        } else {
            instance.earlier_events += state.events - before;
            archived = archived.map(|earlier| earlier.with(state));
        }
        instance.updated_at = now;
        // What is still parked is taken in its order by those who know of the pause.
        instance.blocked = instance.blocked.filter(|_| self.turn.more);
        self.end_pause(&mut instance);
        let counted_late = self.count(&mut instance);
        if let Some(doc) = archived {
            self.state
                .insert(0, StagedOp::upsert(&ExecutionDoc::id(doc.state.execution), &doc)?);
        }
        let work = self.work(work, &cancelled, instance.orchestration())?;
        self.reuse_events(execution, &events)?;
        self.count_kept(&mut instance);
        let intents = self.messages(messages)?;
        let mut consumed = self.consume()?;
        // Last, so that they are what is staged when not all fit one batch.
        self.rest.extend(closed_timers.iter().map(|id| StagedOp::discard(id)));
        consumed.extend(closed_timers);
        instance.lock.commit(self.context.commit, &consumed);
        check_fence(&instance)?;
        Ok(Plan {
            commit: self.context.commit.to_owned(),
            instance,
            state: self.state,
            history,
            rest: self.rest,
            intents,
            work,
            events,
            reused: self.reused,
            counted_late,
        })
    }

    /// Adds what the turn and its messages have used. Returns the late usage that was awaited, and is counted now.
    fn count(&self, instance: &mut InstanceDoc) -> Vec<LateUsage> {
        let TurnUsage {
            spent, wakeups, late, ..
        } = self.context.usage;
        let mut usage = instance.usage.take().unwrap_or_default();
        usage.add(spent.plus(Usage {
            turns: 1,
            wakeups,
            ..Usage::default()
        }));
        for message in &self.turn.messages {
            let brought = message.usage.as_deref().copied().unwrap_or_default();
            usage.add(brought);
            // Whoever has counted its request in advance knows what it cost when it was answered.
            if brought.requests > 0 {
                usage.await_late(&message.id);
            }
        }
        let of_messages = self.turn.messages.iter().flat_map(|message| &message.late);
        let counted = usage.add_late(of_messages.chain(late));
        usage.await_late(self.context.commit);
        usage.trim();
        instance.usage = Some(usage);
        counted
    }

    /// A pause ends with the instance. Parked messages that the turn did not take are made due again, so that a turn drops them.
    fn end_pause(&self, instance: &mut InstanceDoc) {
        if !instance.current.status.is_over() {
            return;
        }
        if let Some(paused) = instance.paused() {
            let rest = paused.in_phase(PausePhase::Resuming);
            instance.set_paused(Some(rest).filter(|_| self.turn.more), self.context.repair_due);
        }
    }

    fn pk(&self) -> &str {
        self.turn.pk.as_str()
    }

    /// The dead letter of a turn that was given up. It comes before all that the turn emits and consumes, so that it is in
    /// the decisive batch.
    fn dead_letter(&mut self, decision: &TurnDecision) -> Result<(), Failure> {
        let own = self.context.given_up.take();
        let items = || self.turn.messages.iter().map(|message| message.item.clone()).collect();
        if let Some(given_up) = own.or_else(|| given_up::of_turn(decision, items)) {
            let PlanContext {
                commit,
                now_ms,
                dead_letter_ttl,
                ..
            } = self.context;
            let dead_letter = DeadLetterDoc::new(self.pk(), commit, now_ms, dead_letter_ttl, given_up);
            self.rest.push(StagedOp::create(&dead_letter.id, &dead_letter)?);
        }
        Ok(())
    }

    /// Appends the events, cut into documents that fit.
    fn history(&self, state: &mut ExecutionState, events: &[Event]) -> Result<Vec<StagedOp>, Failure> {
        let instance = || self.pk().to_owned();
        let prev = state.head.clone();
        let part = HistoryPart {
            pk: self.pk(),
            execution: state.execution,
            commit: self.context.commit,
            prev: &prev,
        };
        let mut ops = Vec::new();
        let mut pending = PendingPart::default();
        let (mut bytes, mut offset) = (0, state.events);
        for event in events {
            let id = event.event_id();
            if id == 0 {
                return Err(Failure::EventWithoutId { instance: instance() });
            }
            if id <= state.last_event_id {
                return Err(Failure::DuplicateEvent {
                    instance: instance(),
                    execution: state.execution,
                    event: id,
                });
            }
            state.last_event_id = id;
            let raw = serde_json::value::to_raw_value(event)?;
            let size = raw.get().len();
            if size > MAX_DOCUMENT - 1024 {
                let what = format!("event {id} ({})", kind_of(event));
                return Err(Failure::TooLarge {
                    what,
                    instance: instance(),
                    bytes: size,
                    limit: MAX_DOCUMENT,
                });
            }
            if bytes + size > HISTORY_PART && !pending.events.is_empty() {
                offset += self.cut(&part, offset, &mut pending, &mut ops)?;
                bytes = 0;
            }
            bytes += size;
            state.event_bytes += size as u64;
            if let Some(attempts) = self.attempts_for(state.execution, event) {
                bytes += ATTEMPT_BYTES * (1 + attempts.log.attempts().len());
                pending.attempts.push(attempts.clone());
            }
            pending.events.push(raw);
        }
        if !pending.events.is_empty() {
            offset += self.cut(&part, offset, &mut pending, &mut ops)?;
        }
        if offset > state.events {
            state.events = offset;
            state.head = self.context.commit.to_owned();
        }
        Ok(ops)
    }

    fn cut(
        &self,
        part: &HistoryPart<'_>,
        offset: u64,
        pending: &mut PendingPart,
        ops: &mut Vec<StagedOp>,
    ) -> Result<u64, Failure> {
        let PendingPart { events, attempts } = std::mem::take(pending);
        let doc = HistoryDoc::new(part, offset, events).with_attempts(attempts);
        ops.push(StagedOp::create(&doc.id, &doc)?);
        Ok(doc.events.len() as u64)
    }

    /// The attempts of the activity whose completion the event is.
    fn attempts_for(&self, execution: u64, event: &Event) -> Option<&CompletedAttempts> {
        if !matches!(
            event.kind,
            EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. }
        ) {
            return None;
        }
        let messages = self.turn.messages.iter();
        messages
            .filter_map(|message| message.attempts.as_ref())
            .find(|of| (of.execution, Some(of.activity)) == (execution, event.source_event_id))
    }

    /// Name, status, output and versions, as the runtime reports them.
    fn describe(
        &mut self,
        instance: &mut InstanceDoc,
        state: &mut ExecutionState,
        events: &[Event],
        metadata: &ExecutionMetadata,
    ) -> Result<(), Failure> {
        if let (Some(name), Some(version)) = (&metadata.orchestration_name, &metadata.orchestration_version) {
            if instance.name.is_none() {
                instance.parent.clone_from(&metadata.parent_instance_id);
            }
            instance.name = Some(name.clone());
            instance.version = Some(version.clone());
        }
        if let Some(pinned) = &metadata.pinned_duroxide_version {
            state.pinned = Some(pinned.clone());
        }
        if let Some(status) = &metadata.status {
            state.status = Status::from(status.clone());
            let long = state.set_output(&instance.pk, metadata.output.as_deref());
            self.text("the output", long)?;
            state.completed_at = Some(self.context.now_ms);
            state.cancelled = state.status == Status::Failed && is_cancellation(events);
        }
        let mut custom_status = None;
        for event in events {
            match &event.kind {
                EventKind::CustomStatusUpdated { status } => custom_status = Some(status),
                EventKind::OrchestrationStarted {
                    carry_forward_events,
                    parent_id,
                    parent_execution_id,
                    ..
                } => {
                    instance.parent_call = parent_id.map(|id| ParentCall {
                        execution: *parent_execution_id,
                        id,
                    });
                    state.carried = carry_forward_events.as_ref().map_or(0, |events| events.len() as u64);
                }
                _ => {}
            }
        }
        if let Some(status) = custom_status {
            let long = instance.set_custom_status(status.as_deref());
            self.text("the custom status", long)?;
            instance.custom_status_version += 1;
        }
        Ok(())
    }

    /// Writes a text that is too long for the instance document.
    fn text(&mut self, what: &str, doc: Option<TextDoc>) -> Result<(), Failure> {
        if let Some(doc) = doc {
            check_size(what, self.pk(), &doc)?;
            self.state.push(StagedOp::upsert(&doc.id, &doc)?);
        }
        Ok(())
    }

    /// Applies the turn's changes to keys.
    fn keys(&mut self, instance: &mut InstanceDoc, state: &ExecutionState, events: &[Event]) -> Result<(), Failure> {
        // Whether the execution ends with this turn does not matter: what it writes is its own.
        let over = ClaimedTurn::scope(self.turn.instance());
        let terminal = over.execution == state.execution && over.terminal;
        let scope = Scope {
            execution: state.execution,
            terminal,
        };
        let mut known: BTreeMap<&str, KvDoc> = self.turn.kv.iter().map(|doc| (doc.key.as_str(), doc.clone())).collect();
        let mut changed: HashSet<&str> = HashSet::new();
        for event in events {
            match &event.kind {
                EventKind::KeyValueSet {
                    key,
                    value,
                    last_updated_at_ms,
                } => {
                    let doc = known
                        .entry(key)
                        .or_insert_with(|| KvDoc::new(self.turn.pk.as_str(), key));
                    doc.write(scope, Some((value, *last_updated_at_ms)));
                    changed.insert(key);
                }
                EventKind::KeyValueCleared { key } => {
                    let doc = known
                        .entry(key)
                        .or_insert_with(|| KvDoc::new(self.turn.pk.as_str(), key));
                    doc.write(scope, None);
                    changed.insert(key);
                }
                EventKind::KeyValuesCleared => {
                    for (key, doc) in &mut known {
                        doc.write(scope, None);
                        changed.insert(key);
                    }
                }
                _ => {}
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        let keys = self.turn.kv.iter().filter(|doc| doc.newest().is_some());
        instance.tags = instance
            .tags
            .after(&instance.pk, events, keys.map(|doc| doc.key.as_str()));
        instance.kv_rev += 1;
        for (key, mut doc) in known {
            if !changed.contains(key) && doc.is_gone(scope) {
                self.state.push(StagedOp::discard(&doc.id));
            }
            if changed.contains(key) {
                doc.rev = instance.kv_rev;
                check_size(&format!("key '{key}'"), &doc.pk, &doc)?;
                self.state.push(StagedOp::upsert(&doc.id, &doc)?);
            }
        }
        Ok(())
    }

    /// New and cancelled activities. One that is both is neither written nor deleted.
    fn work(
        &mut self,
        items: Vec<WorkItem>,
        cancelled: &[ScheduledActivityIdentifier],
        orchestration: Option<Orchestration>,
    ) -> Result<Vec<WorkDoc>, Failure> {
        let own = |activity: &&ScheduledActivityIdentifier| activity.instance == self.turn.pk.as_str();
        let cancelled: HashSet<String> = cancelled.iter().filter(own).map(WorkDoc::id_of).collect();
        let mut new = HashSet::new();
        let mut docs = Vec::new();
        for item in items {
            let sort_key = self.context.sequence.next(self.context.now_ms);
            let Some(doc) = WorkDoc::new(&item, &sort_key, self.context.now_ms)? else {
                continue;
            };
            let doc = doc.scheduled_by(orchestration.clone());
            new.insert(doc.id.clone());
            check_session(&doc)?;
            if !cancelled.contains(&doc.id) && !self.reuse(&item)? {
                check_size(&format!("the input of activity {}", doc.id), self.pk(), &doc)?;
                self.rest.push(StagedOp::upsert(&doc.id, &doc)?);
                docs.push(doc);
            }
        }
        let mut discard: Vec<&String> = cancelled.iter().filter(|id| !new.contains(*id)).collect();
        discard.sort();
        self.rest.extend(discard.into_iter().map(|id| StagedOp::discard(id)));
        Ok(docs)
    }

    /// Queues the result of an activity that a rewind has kept, in place of its work item. Returns whether there is one.
    fn reuse(&mut self, item: &WorkItem) -> Result<bool, Failure> {
        let WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            name,
            input,
            ..
        } = item
        else {
            return Ok(false);
        };
        let Some(kept) = self.take_kept(*execution_id, Kept::Activity { name, input }) else {
            return Ok(false);
        };
        let completed = WorkItem::ActivityCompleted {
            instance: instance.clone(),
            execution_id: *execution_id,
            id: *id,
            result: kept.result.clone(),
        };
        self.queue_kept(kept, *id, &completed)?;
        Ok(true)
    }

    /// Queues the events that a rewind has kept, where the turn subscribes to them again.
    fn reuse_events(&mut self, execution: u64, events: &[Event]) -> Result<(), Failure> {
        for event in events {
            let EventKind::ExternalSubscribed { name } = &event.kind else {
                continue;
            };
            let Some(kept) = self.take_kept(execution, Kept::Event { name }) else {
                continue;
            };
            let raised = WorkItem::ExternalRaised {
                instance: self.pk().to_owned(),
                name: name.clone(),
                data: kept.result.clone(),
            };
            self.queue_kept(kept, event.event_id(), &raised)?;
        }
        Ok(())
    }

    fn take_kept(&mut self, execution: u64, of: Kept<'_>) -> Option<KeptResultDoc> {
        let is_kept = |kept: &KeptResultDoc| kept.execution == execution && kept.is_of(of);
        let position = self.context.kept.iter().position(is_kept)?;
        Some(self.context.kept.remove(position))
    }

    /// Queues what was kept for the event `id`, and removes it.
    fn queue_kept(&mut self, kept: KeptResultDoc, id: u64, item: &WorkItem) -> Result<(), Failure> {
        let envelope = Envelope {
            id: format!("{}-k{id}", self.context.commit),
            queued_at: self.context.now_ms,
            arrival: self.context.sequence.next(self.context.now_ms),
            due_at: self.context.now_ms,
            receipt: Receipt::None,
        };
        let mut message = MessageDoc::new(self.pk(), envelope, item)?;
        // They are those of the same call, under its new number.
        message.attempts = kept.attempts.map(|of| CompletedAttempts { activity: id, ..of });
        check_size("a message", self.pk(), &message)?;
        self.rest.push(StagedOp::create(&message.id, &message)?);
        self.rest.push(StagedOp::discard(&kept.id));
        self.reused += 1;
        Ok(())
    }

    /// Kept results belong to their execution: nobody waits for those that are left when it has ended.
    fn count_kept(&self, instance: &mut InstanceDoc) {
        let left = instance.kept_results().saturating_sub(self.reused);
        let is_same = self
            .turn
            .instance()
            .is_some_and(|before| before.current.execution == instance.current.execution);
        let is_wanted = is_same && !instance.current.status.is_terminal();
        if instance.kept_results() > 0 {
            instance.set_kept_results(if is_wanted { left } else { 0 });
        }
    }

    /// Messages to this instance, and intents for those to others.
    fn messages(&mut self, items: Vec<WorkItem>) -> Result<Vec<IntentDoc>, Failure> {
        let mut intents = Vec::new();
        for (n, item) in items.iter().enumerate() {
            let Some(target) = target_of(item) else { continue };
            let own = target == self.pk();
            let due_at = Due::message(item).and_then(|due| due.at_ms);
            let timer = timers::timer_of(item).filter(|_| own);
            let name = match timer {
                Some((execution, timer)) => MessageDoc::timer_name(execution, timer),
                None => format!("{}-{n}", self.context.commit),
            };
            let message = MessageDoc::new(
                target,
                Envelope {
                    id: name.clone(),
                    queued_at: self.context.now_ms,
                    arrival: self.context.sequence.next(self.context.now_ms),
                    due_at: due_at.unwrap_or(self.context.now_ms),
                    receipt: Receipt::between(self.pk(), target),
                },
                item,
            )?;
            let message = match own {
                true => message,
                false => message.using(self.context.usage.announced),
            };
            check_size("a message", target, &message)?;
            if timer.is_some() {
                // One timer has one message, whoever wrote it: nothing is lost when it is there already.
                self.rest.push(StagedOp::upsert(&message.id, &message)?);
            } else if own {
                self.rest.push(StagedOp::create(&message.id, &message)?);
            } else {
                // An id that cannot be a partition key is refused now, while the turn can still fail with it.
                PartitionKey::new(target)?;
                let intent = IntentDoc::new(self.pk(), &name, self.context.repair_due, message);
                check_size("a message", target, &intent)?;
                self.rest.push(StagedOp::create(&intent.id, &intent)?);
                intents.push(intent);
            }
        }
        Ok(intents)
    }

    /// The messages of the turn: deleted, or replaced by a receipt.
    fn consume(&mut self) -> Result<Vec<String>, Failure> {
        let turn = self.turn;
        for message in &turn.messages {
            self.rest.push(match message.receipt.ttl(self.context.receipt_ttl) {
                Some(ttl) => {
                    let receipt = ReceiptDoc::new(turn.pk.as_str(), &message.id, ttl);
                    StagedOp::replace(&message.id, &message.etag, &receipt)?
                }
                None => StagedOp::delete(&message.id, &message.etag),
            });
        }
        Ok(turn.messages.iter().map(|message| message.id.clone()).collect())
    }
}

/// The variant's name, for error texts.
fn kind_of(event: &Event) -> String {
    let shown = format!("{:?}", event.kind);
    shown.chars().take_while(|c| c.is_alphanumeric()).collect()
}

/// Whether the turn writes to an earlier execution, which must then be read first.
pub(crate) fn is_earlier(turn: &ClaimedTurn, execution: u64) -> bool {
    turn.instance()
        .is_some_and(|instance| execution < instance.current.execution)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
