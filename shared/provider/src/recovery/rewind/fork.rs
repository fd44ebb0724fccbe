//! Forking: a new instance from a part of the history of another one, which is only read.
//!
//! The events are copied under the id of the new instance, with the same execution number and event ids, so that replay finds what it
//! expects. What is open at the cut is begun again, as in a rewind; children that are open are started under ids of the fork. One
//! commit makes the fork: before it there is at most a document that fences its partition, which no reader shows.
//!
//! | race | decided by |
//! |---|---|
//! | the source goes on, is rewound or deleted meanwhile | nothing: its chain was read as a whole before |
//! | somebody starts an instance with the same id, or forks into it | the fence of the new partition: one of them gets it |
//! | the process dies before the commit | the staged documents are removed by recovery; the same id can be used again when the claim has expired |
//! | it dies after the commit | recovery publishes the rest, and delivers the starts of the children |

use super::plan::{Plan, kept_of};
use super::write::write;
use crate::due::Due;
use crate::error::Failure;
use crate::model::{
    Envelope, ForkedFrom, HistoryDoc, HistoryPart, InstanceDoc, IntentDoc, KeptCall, KeptResultDoc, KvDoc, MessageDoc,
    Receipt, Scope, StagedOp, Status, WorkDoc,
};
use crate::recovery::Queued;
use crate::recovery::outbox::deliver_owed;
use crate::reopen::{self, Reopened};
use crate::store::{Store, check_fence, check_size, millis};
use cosmos::PartitionKey;
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind, build_child_instance_id};
use std::collections::HashMap;
use std::time::Duration;

/// Bytes of events in one history document.
const HISTORY_PART: usize = 900 * 1024;
/// How long the id of a fork is claimed.
const CLAIM: Duration = Duration::from_secs(60);

/// What a fork is made of.
#[derive(Debug)]
pub(crate) struct Fork<'a> {
    /// The document of the source.
    pub source: &'a InstanceDoc,
    pub execution: u64,
    /// The events, edited, up to the end of what is taken over.
    pub events: Vec<Event>,
    pub reopened: Reopened,
    /// The keys of the source, if its current execution is forked.
    pub keys: Vec<KvDoc>,
    pub id: &'a str,
}

/// Makes the fork. Returns who has something to do, or `None` when the id is taken.
pub(crate) async fn fork(store: &Store, fork: &Fork<'_>) -> Result<Option<Vec<Due>>, Failure> {
    let pk = PartitionKey::new(fork.id)?;
    let found = store.newest_fence(&pk).await?;
    let now = store.now();
    if found
        .as_ref()
        .is_some_and(|found| found.doc.is_taken() || found.doc.lock.deleting.is_some())
    {
        return Ok(None);
    }
    if found
        .as_ref()
        .is_some_and(|found| found.doc.lock.claim_at(now).is_some())
    {
        return Err(Failure::busy(&pk));
    }
    let commit = store.ids.unique();
    let blank = found
        .as_ref()
        .map_or_else(|| InstanceDoc::absent(fork.id, now), |found| found.doc.clone());
    let claimed = blank.with(|lock| lock.claim(&commit, now.saturating_add(millis(CLAIM)), &[]));
    let Some(fence) = store
        .swap_fence(&pk, found.as_ref().map(|found| &found.etag), claimed)
        .await?
    else {
        return Err(Failure::busy(&pk));
    };
    let plan = Forked {
        fork,
        store,
        commit: &commit,
        now,
    }
    .plan(fence.doc.clone())?;
    if !write(store, &pk, &fence.etag, plan).await? {
        return Err(Failure::busy(&pk));
    }
    let mut due = deliver_owed(store, &pk, |_| true).await?;
    let queued = Queued::read(store, &pk).await?;
    if let Some(made) = store.fence(&pk).await? {
        due.extend(queued.due(&made.doc, store.now(), &HashMap::new()));
    }
    Ok(Some(due))
}

struct Forked<'a> {
    fork: &'a Fork<'a>,
    store: &'a Store,
    commit: &'a str,
    now: u64,
}

impl Forked<'_> {
    fn plan(&self, fence: InstanceDoc) -> Result<Plan, Failure> {
        let fork = self.fork;
        let kept = &fork.events[..fork.reopened.kept];
        let mut instance = fence.begun(fork.execution, self.now);
        let (mut state, mut rest) = (Vec::new(), Vec::new());
        self.describe(&mut instance, kept);
        let history = self.history(&mut instance, kept)?;
        self.keys(&mut instance, kept, &mut state)?;
        self.custom_status(&mut instance, kept, &mut state)?;
        self.messages(&mut instance, &mut rest)?;
        self.work(&instance, &mut rest)?;
        self.children(&mut rest)?;
        self.kept_results(&mut instance, &mut rest)?;
        instance.lock.release(true);
        instance.lock.commit(self.commit, &[]);
        check_fence(&instance)?;
        Ok(Plan {
            commit: self.commit.to_owned(),
            instance,
            state,
            history,
            rest,
        })
    }

    fn describe(&self, instance: &mut InstanceDoc, kept: &[Event]) {
        let source = self.fork.source;
        if let Some(EventKind::OrchestrationStarted {
            name,
            version,
            carry_forward_events,
            ..
        }) = kept.first().map(|event| &event.kind)
        {
            instance.name = Some(name.clone());
            instance.version = Some(version.clone());
            instance.current.carried = carry_forward_events.as_ref().map_or(0, |events| events.len() as u64);
        }
        instance.created_at = self.now;
        instance.updated_at = self.now;
        instance.current.status = Status::Running;
        instance.current.pinned = source.current.pinned.clone();
        instance.tags = source.tags.clone();
        instance.forked_from = Some(ForkedFrom {
            instance: source.pk.clone(),
            execution: self.fork.execution,
            event: self.fork.events.last().map_or(0, Event::event_id),
            at: self.now,
        });
    }

    fn history(&self, instance: &mut InstanceDoc, kept: &[Event]) -> Result<Vec<StagedOp>, Failure> {
        let part = HistoryPart {
            pk: self.fork.id,
            execution: self.fork.execution,
            commit: self.commit,
            prev: "",
        };
        let state = &mut instance.current;
        let (mut ops, mut pending, mut bytes, mut offset) = (Vec::new(), Vec::new(), 0, 0_u64);
        for event in kept {
            let raw = serde_json::value::to_raw_value(event)?;
            let size = raw.get().len();
            state.event_bytes += size as u64;
            if bytes + size > HISTORY_PART && !pending.is_empty() {
                let doc = HistoryDoc::new(&part, offset, std::mem::take(&mut pending));
                offset += doc.events.len() as u64;
                ops.push(StagedOp::create(&doc.id, &doc)?);
                bytes = 0;
            }
            bytes += size;
            pending.push(raw);
        }
        let doc = HistoryDoc::new(&part, offset, pending);
        ops.push(StagedOp::create(&doc.id, &doc)?);
        state.events = kept.len() as u64;
        state.last_event_id = kept.last().map_or(0, Event::event_id);
        state.head = self.commit.to_owned();
        Ok(ops)
    }

    /// The keys as they were at the cut, and the tags that come from them.
    fn keys(&self, instance: &mut InstanceDoc, kept: &[Event], ops: &mut Vec<StagedOp>) -> Result<(), Failure> {
        let scope = Scope {
            execution: self.fork.execution,
            terminal: false,
        };
        let mut known: HashMap<String, KvDoc> = HashMap::new();
        for doc in &self.fork.keys {
            let mut own = KvDoc::new(self.fork.id, &doc.key);
            if let Some(value) = doc.snapshot(scope) {
                own.begin_with(&value.value, value.last_updated_at_ms);
            }
            known.insert(doc.key.clone(), own);
        }
        for event in kept {
            match &event.kind {
                EventKind::KeyValueSet {
                    key,
                    value,
                    last_updated_at_ms,
                } => {
                    let doc = known
                        .entry(key.clone())
                        .or_insert_with(|| KvDoc::new(self.fork.id, key));
                    doc.write(scope, Some((value, *last_updated_at_ms)));
                }
                EventKind::KeyValueCleared { key } => {
                    let doc = known
                        .entry(key.clone())
                        .or_insert_with(|| KvDoc::new(self.fork.id, key));
                    doc.write(scope, None);
                }
                EventKind::KeyValuesCleared => known.values_mut().for_each(|doc| doc.write(scope, None)),
                _ => {}
            }
        }
        for mut doc in known.into_values() {
            instance.kv_rev = 1;
            doc.rev = 1;
            let tags = std::mem::take(&mut instance.tags);
            instance.tags = tags.with_key(self.fork.id, &doc.key, doc.newest());
            ops.push(StagedOp::upsert(&doc.id, &doc)?);
        }
        Ok(())
    }

    fn custom_status(
        &self,
        instance: &mut InstanceDoc,
        kept: &[Event],
        ops: &mut Vec<StagedOp>,
    ) -> Result<(), Failure> {
        let then = kept.iter().rev().find_map(|event| match &event.kind {
            EventKind::CustomStatusUpdated { status } => Some(status.clone()),
            EventKind::OrchestrationStarted {
                initial_custom_status, ..
            } => Some(initial_custom_status.clone()),
            _ => None,
        });
        let Some(status) = then.flatten() else { return Ok(()) };
        instance.custom_status_version = 1;
        if let Some(long) = instance.set_custom_status(Some(&status)) {
            ops.push(StagedOp::upsert(&long.id, &long)?);
        }
        Ok(())
    }

    fn envelope(&self, id: String, due_at: u64, receipt: Receipt) -> Envelope {
        Envelope {
            id,
            queued_at: self.now,
            arrival: self.store.sequence.next(self.now),
            due_at,
            receipt,
        }
    }

    /// What is delivered again, a message that makes a turn due in any case, and the timers that have not fired.
    fn messages(&self, instance: &mut InstanceDoc, ops: &mut Vec<StagedOp>) -> Result<(), Failure> {
        let (events, id, execution) = (&self.fork.events, self.fork.id, self.fork.execution);
        let mut again = reopen::again(events, &self.fork.reopened, id, execution, Vec::new());
        again.push((reopen::nudge(id), self.now));
        for (n, (item, _)) in again.iter().enumerate() {
            let name = match item {
                WorkItem::TimerFired { execution_id, id, .. } => MessageDoc::timer_name(*execution_id, *id),
                _ => format!("{}-{n}", self.commit),
            };
            let message = MessageDoc::new(id, self.envelope(name, self.now, Receipt::None), item)?;
            check_size("a message", id, &message)?;
            ops.push(StagedOp::upsert(&message.id, &message)?);
        }
        for n in &self.fork.reopened.timers {
            let EventKind::TimerCreated { fire_at_ms } = events[*n].kind else {
                continue;
            };
            let timer = events[*n].event_id();
            instance.current.open_timer(timer);
            let item = WorkItem::TimerFired {
                instance: id.to_owned(),
                execution_id: execution,
                id: timer,
                fire_at_ms,
            };
            let name = MessageDoc::timer_name(execution, timer);
            let message = MessageDoc::new(id, self.envelope(name, fire_at_ms.max(self.now), Receipt::None), &item)?;
            ops.push(StagedOp::upsert(&message.id, &message)?);
        }
        Ok(())
    }

    fn work(&self, instance: &InstanceDoc, ops: &mut Vec<StagedOp>) -> Result<(), Failure> {
        for n in &self.fork.reopened.activities {
            let item = reopen::activity_of(&self.fork.events[*n], self.fork.id, self.fork.execution);
            let Some(item) = item else { continue };
            let sort_key = self.store.sequence.next(self.now);
            if let Some(doc) = WorkDoc::new(&item, &sort_key, self.now)? {
                let doc = doc.scheduled_by(instance.orchestration());
                ops.push(StagedOp::create(&doc.id, &doc)?);
            }
        }
        Ok(())
    }

    /// The starts of the children that are open.
    fn children(&self, ops: &mut Vec<StagedOp>) -> Result<(), Failure> {
        for n in &self.fork.reopened.children {
            let event = &self.fork.events[*n];
            let EventKind::SubOrchestrationScheduled { name, instance, input } = &event.kind else {
                continue;
            };
            let child = build_child_instance_id(self.fork.id, instance);
            let start = WorkItem::StartOrchestration {
                instance: child.clone(),
                orchestration: name.clone(),
                input: input.clone(),
                version: None,
                parent_instance: Some(self.fork.id.to_owned()),
                parent_id: Some(event.event_id()),
                parent_execution_id: Some(self.fork.execution),
                execution_id: duroxide::INITIAL_EXECUTION_ID,
            };
            let key = format!("{}-s{}", self.commit, event.event_id());
            PartitionKey::new(&child)?;
            let message = MessageDoc::new(&child, self.envelope(key.clone(), self.now, Receipt::Long), &start)?;
            let intent = IntentDoc::new(self.fork.id, &key, self.store.repair_due(), message);
            ops.push(StagedOp::create(&intent.id, &intent)?);
        }
        Ok(())
    }

    /// Results that were obtained after the cut of an execution that has ended, and belong to what is scheduled after it.
    fn kept_results(&self, instance: &mut InstanceDoc, ops: &mut Vec<StagedOp>) -> Result<(), Failure> {
        let events = &self.fork.events;
        let mut count = 0;
        for n in &self.fork.reopened.reused {
            let event = &events[*n];
            let Some((of, result)) = kept_of(events, event) else {
                continue;
            };
            let call = KeptCall {
                execution: self.fork.execution,
                of,
                order: [event.timestamp_ms, *n as u64],
            };
            let kept = KeptResultDoc::new(self.fork.id, &format!("{}:{n}", self.commit), &call, result);
            ops.push(StagedOp::create(&kept.id, &kept)?);
            count += 1;
        }
        instance.set_kept_results(count);
        Ok(())
    }
}
