//! Histories that are too large to be loaded.
//!
//! duroxide copies a history several times, so one that has grown without a limit exhausts the memory of its process, and
//! that of the turns beside it, at every attempt. Its size is in the instance document and known before it is read: above
//! the limit the fetch itself commits that the orchestration has failed, without reading the history. It is a turn's
//! commit like any other: it consumes the messages, cancels the activities, answers the parent, and writes a dead letter
//! with the messages.
//!
//! An execution that has ended is never given up, because nothing of it is replayed: duroxide gets the end of its history,
//! which says so.

use super::claimed::{ClaimedTurn, ClaimedTurns};
use super::commit::Commit;
use super::item::Claim;
use crate::due::TurnDecision;
use crate::error::Failure;
use crate::given_up;
use crate::model::sql::WORK;
use crate::model::{ExecutionState, InstanceDoc, MessageDoc, WorkDoc};
use crate::read::{self, Past};
use crate::recovery;
use crate::store::Store;
use crate::types::GivenUpTurn;
use cosmos::{PartitionKey, Query};
use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind};

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
    let decision = failure(store, pk, instance, &error).await?;
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

/// What a turn that fails with this error decides. A parent can handle it, as any failure of a child.
async fn failure(
    store: &Store,
    pk: &PartitionKey,
    instance: &InstanceDoc,
    error: &str,
) -> Result<TurnDecision, Failure> {
    let state = &instance.current;
    let details = ErrorDetails::Application {
        kind: AppErrorKind::OrchestrationFailed,
        message: error.to_owned(),
        retryable: false,
    };
    let failed = EventKind::OrchestrationFailed {
        details: details.clone(),
    };
    let event_id = state.last_event_id + 1;
    Ok(TurnDecision {
        execution: state.execution,
        events: vec![Event::with_event_id(
            event_id,
            pk.as_str(),
            state.execution,
            None,
            failed,
        )],
        messages: answer(store, instance, details).await?.into_iter().collect(),
        metadata: ExecutionMetadata {
            status: Some("Failed".to_owned()),
            output: Some(error.to_owned()),
            ..ExecutionMetadata::default()
        },
        cancelled: activities(store, pk).await?,
        given_up: None,
        work: Vec::new(),
    })
}

/// The message to the parent, if there is one.
async fn answer(store: &Store, instance: &InstanceDoc, details: ErrorDetails) -> Result<Option<WorkItem>, Failure> {
    let (Some(parent), Some(call)) = (&instance.parent, &instance.parent_call) else {
        return Ok(None);
    };
    let parent_execution_id = match call.execution {
        Some(execution) => execution,
        None => {
            let parent = read::instance(store, &PartitionKey::new(parent)?).await?;
            parent.map_or(duroxide::INITIAL_EXECUTION_ID, |parent| parent.current.execution)
        }
    };
    Ok(Some(WorkItem::SubOrchFailed {
        parent_instance: parent.clone(),
        parent_execution_id,
        parent_id: call.id,
        details,
    }))
}

/// The activities of the instance that have not completed.
async fn activities(store: &Store, pk: &PartitionKey) -> Result<Vec<ScheduledActivityIdentifier>, Failure> {
    let query = Query::new(format!("SELECT VALUE c.id FROM c WHERE c.queue = {WORK}"));
    let ids = store.container.query::<String>(pk, &query).await?;
    let numbers = ids.iter().filter_map(|id| WorkDoc::numbers_of(id));
    let activity = |(execution_id, activity_id)| ScheduledActivityIdentifier {
        instance: pk.as_str().to_owned(),
        execution_id,
        activity_id,
    };
    Ok(numbers.map(activity).collect())
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
