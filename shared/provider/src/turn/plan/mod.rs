//! Deciding what a turn writes. No I/O: the same turn, time and ids always make the same plan.
//!
//! The result is the next instance document, and a list of operations on its partition in order of importance: keys and
//! history first, then what the turn emits and consumes. The commit decides how many batches they take.

mod history;
mod kept;
mod keys;
mod usage;

use crate::clock::Sequence;
use crate::due::{Due, TurnDecision, is_cancellation};
use crate::error::Failure;
use crate::given_up;
use crate::model::{
    DeadLetterDoc, Envelope, ExecutionDoc, ExecutionState, GivenUp, InstanceDoc, IntentDoc, KeptResultDoc, LateUsage,
    MessageDoc, Orchestration, ParentCall, PausePhase, Receipt, ReceiptDoc, StagedOp, Status, TextDoc, Usage, WorkDoc,
    target_of,
};
use crate::store::{check_fence, check_session, check_size};
use crate::turn::claimed::ClaimedTurn;
use crate::turn::timers;
use cosmos::PartitionKey;
use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind};
use std::collections::HashSet;

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

/// Whether the turn writes to an earlier execution, which must then be read first.
pub(crate) fn is_earlier(turn: &ClaimedTurn, execution: u64) -> bool {
    turn.instance()
        .is_some_and(|instance| execution < instance.current.execution)
}

#[cfg(test)]
mod tests;
