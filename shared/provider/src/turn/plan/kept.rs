//! Results and events that a rewind or a fork has kept, for what a turn schedules or subscribes to again. Pure.

use super::Planner;
use crate::error::Failure;
use crate::model::{CompletedAttempts, Envelope, InstanceDoc, Kept, KeptResultDoc, MessageDoc, Receipt, StagedOp};
use crate::store::check_size;
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};

impl Planner<'_> {
    /// Queues the result of an activity that a rewind has kept, in place of its work item. Returns whether there is one.
    pub(super) fn reuse(&mut self, item: &WorkItem) -> Result<bool, Failure> {
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
    pub(super) fn reuse_events(&mut self, execution: u64, events: &[Event]) -> Result<(), Failure> {
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
    pub(super) fn count_kept(&self, instance: &mut InstanceDoc) {
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
}
