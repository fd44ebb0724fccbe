//! The timers of an execution whose messages wait: tracked in its state, so that its last turn can delete them. No I/O.
//!
//! A timer that lost a race leaves no trace in duroxide. Its message has a deterministic id, so that the state needs no more than
//! the timer's number, and nobody has to read anything to delete it.

use crate::model::{ExecutionState, MessageDoc};
use duroxide::providers::WorkItem;
use std::collections::HashSet;

/// Keeps track of the open timers: those of `consumed` messages are closed, those of the turn's `messages` are new. Returns the
/// ids of the messages that wait for nobody, because the execution has ended.
pub(super) fn track(state: &mut ExecutionState, consumed: &[MessageDoc], messages: &[WorkItem]) -> Vec<String> {
    let consumed: HashSet<&str> = consumed.iter().map(|message| message.id.as_str()).collect();
    let execution = state.execution;
    let id_of = |timer: u64| MessageDoc::timer_id(execution, timer);
    let mut open = std::mem::take(&mut state.open_timers);
    open.retain(|timer| !consumed.contains(id_of(*timer).as_str()));
    if state.status.is_terminal() {
        return open.into_iter().map(id_of).collect();
    }
    state.open_timers = open;
    for (of, timer) in messages.iter().filter_map(timer_of) {
        if of == execution {
            state.open_timer(timer);
        }
    }
    Vec::new()
}

/// The execution and the id of a timer.
pub(super) fn timer_of(item: &WorkItem) -> Option<(u64, u64)> {
    match item {
        WorkItem::TimerFired { execution_id, id, .. } => Some((*execution_id, *id)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Envelope, Receipt, Status};

    fn timer(execution_id: u64, id: u64) -> WorkItem {
        WorkItem::TimerFired {
            instance: "i".to_owned(),
            execution_id,
            id,
            fire_at_ms: 500,
        }
    }

    fn fired(id: u64) -> MessageDoc {
        let envelope = Envelope {
            id: MessageDoc::timer_name(1, id),
            queued_at: 0,
            arrival: String::new(),
            due_at: 500,
            receipt: Receipt::None,
        };
        MessageDoc::new("i", envelope, &timer(1, id)).unwrap()
    }

    fn state(timers: impl IntoIterator<Item = u64>) -> ExecutionState {
        let mut state = ExecutionState::new(1, 0);
        let timers: Vec<WorkItem> = timers.into_iter().map(|id| timer(1, id)).collect();
        assert_eq!(track(&mut state, &[], &timers), [""; 0]);
        state
    }

    #[test]
    fn a_timer_is_open_until_its_message_is_consumed() {
        let mut state = state([2, 3]);
        assert_eq!(state.open_timers, [2, 3]);
        assert_eq!(track(&mut state, &[fired(2)], &[timer(1, 4)]), [""; 0]);
        assert_eq!(state.open_timers, [3, 4]);
    }

    #[test]
    fn a_timer_of_another_execution_is_not_tracked() {
        let mut state = state([2]);
        track(&mut state, &[], &[timer(2, 7)]);
        assert_eq!(state.open_timers, [2]);
    }

    #[test]
    fn when_the_execution_has_ended_what_is_open_waits_for_nobody() {
        let mut state = state([2, 3, 4]);
        state.status = Status::Completed;
        assert_eq!(track(&mut state, &[fired(2)], &[timer(1, 5)]), ["m:t:1:3", "m:t:1:4"]);
        assert!(state.open_timers.is_empty());
    }

    #[test]
    fn the_number_of_timers_that_are_tracked_is_bounded() {
        let mut state = state(2..1_002);
        assert_eq!(state.open_timers.len(), 500);
        state.status = Status::Failed;
        assert_eq!(track(&mut state, &[fired(2)], &[]).len(), 499);
    }
}
