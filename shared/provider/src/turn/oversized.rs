//! Histories that are too large to be loaded.
//!
//! duroxide copies a history several times, so one that has grown without a limit exhausts the memory of its process, and
//! that of the turns beside it, at every attempt. Its size is in the instance document and known before it is read: above
//! the limit the fetch itself commits that the orchestration has failed, without reading the history. It is a turn's
//! commit like any other: it consumes the messages, cancels the activities, answers the parent (`unread`), and writes a dead letter
//! with the messages. A process with a build does not give up: it blocks the instance, or cancels it if a message says so.
//!
//! An execution that has ended is never given up, because nothing of it is replayed: duroxide gets the end of its history,
//! which says so.

use super::claimed::{ClaimedTurn, ClaimedTurns};
use super::commit::{Commit, settle};
use super::item::Claim;
use super::unread;
use crate::error::Failure;
use crate::given_up;
use crate::model::{ExecutionState, InstanceDoc, MessageDoc};
use crate::read::{self, Past};
use crate::recovery;
use crate::store::Store;
use crate::types::GivenUpTurn;
use cosmos::PartitionKey;
use duroxide::providers::WorkItem;

/// How much of an execution's history a turn needs and may load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Whole,
    /// It has ended, and is too large.
    Tail,
    /// It runs, and is too large: the turn is given up.
    Nothing,
}

impl Load {
    pub(super) fn of(state: &ExecutionState, limit: u64) -> Load {
        match (state.event_bytes > limit, state.status.is_terminal()) {
            (false, _) => Load::Whole,
            (true, true) => Load::Tail,
            (true, false) => Load::Nothing,
        }
    }

    /// Reads that much, and the keys.
    pub(super) async fn read(store: &Store, pk: &PartitionKey, state: &ExecutionState) -> Result<Past, Failure> {
        match Load::of(state, store.history_limit) {
            Load::Whole => read::past(store, pk, state.execution).await,
            Load::Tail => read::tail(store, pk, state).await,
            Load::Nothing => Ok(Past::default()),
        }
    }

    fn is_tail(self) -> bool {
        self == Load::Tail
    }

    /// Whether that much was read.
    pub(super) fn is_read(self, past: &Past, instance: &InstanceDoc) -> bool {
        let is_whole = || past.has_history_of(&instance.current) && past.has_keys_of(instance);
        self == Load::Nothing || (!past.has_foreign_key && self.is_tail() == past.is_tail && is_whole())
    }
}

/// Fails the orchestration of a claimed turn.
pub(super) async fn give_up(
    store: &Store,
    turns: &ClaimedTurns,
    claim: Claim<'_>,
    items: &[(MessageDoc, WorkItem)],
) -> Result<GivenUpTurn, Failure> {
    let Claim {
        pk,
        nonce,
        fence,
        more,
        until,
        expires,
        spending,
    } = claim;
    let instance = &fence.doc;
    let execution = instance.current.execution;
    let error = reason(instance, store.history_limit);
    let attempts = items
        .iter()
        .filter_map(|(message, _)| fence.doc.lock.attempts.get(&message.id));
    let attempt = attempts.max().copied().unwrap_or(1);
    let kept = items.iter().map(|(message, _)| message.item.clone()).collect();
    let given_up = given_up::of_history(error.clone(), instance, attempt, kept);
    let decision = unread::failed(store, pk, instance, &error).await?;
    let due = decision.due();
    let turn = ClaimedTurn {
        pk: pk.clone(),
        nonce,
        fence,
        kv: Vec::new(),
        messages: items.iter().map(|(message, _)| message.clone()).collect(),
        more,
        until,
        expires,
        spending,
    };
    let commit = Commit::of(store, turns, &turn)?.giving_up(given_up);
    let committed = commit.run(decision).await?;
    tracing::error!(
        instance = pk.as_str(),
        execution,
        error,
        "an orchestration was given up"
    );
    recovery::deliver(store, pk, &committed.plan.intents).await;
    settle(store, &committed);
    Ok(GivenUpTurn {
        execution,
        error,
        attempt,
        due,
        more,
    })
}

pub(super) fn reason(instance: &InstanceDoc, limit: u64) -> String {
    let state = &instance.current;
    format!(
        "the history of orchestration '{}', instance '{}', execution {}, has {} bytes in {} events, over the limit of {limit}: \
         continue as new before it grows so large, or keep results small (store them elsewhere and return a reference); \
         a function with more memory, or a higher DUROXIDE_HISTORY_LIMIT_BYTES, raises the limit",
        instance.name.as_deref().unwrap_or("(without a name)"),
        instance.pk,
        state.execution,
        state.event_bytes,
        state.events,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Status;

    #[test]
    fn only_a_running_execution_with_a_history_over_the_limit_is_given_up() {
        let mut state = ExecutionState::new(1, 0);
        state.event_bytes = 100;
        let of = |status: Status, limit: u64| {
            let mut state = state.clone();
            state.status = status;
            Load::of(&state, limit)
        };
        assert_eq!(of(Status::Running, 100), Load::Whole);
        assert_eq!(of(Status::Running, 99), Load::Nothing);
        for ended in [Status::Completed, Status::Failed, Status::ContinuedAsNew] {
            assert_eq!((of(ended.clone(), 100), of(ended, 99)), (Load::Whole, Load::Tail));
        }
    }
}
