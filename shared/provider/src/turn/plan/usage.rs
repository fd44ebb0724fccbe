//! What a turn adds to the usage of its instance. Pure.

use super::{Planner, TurnUsage};
use crate::model::{InstanceDoc, LateUsage, Usage};

impl Planner<'_> {
    /// Adds what the turn and its messages have used. Returns the late usage that was awaited, and is counted now.
    pub(super) fn count(&self, instance: &mut InstanceDoc) -> Vec<LateUsage> {
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
}
