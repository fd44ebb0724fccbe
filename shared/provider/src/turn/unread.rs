//! Ending an instance without its history: it is too large, or nobody here can read it.
//!
//! Replay would know what to cancel and whom to answer. Here other documents say it: the work items have the activities, the
//! instance document the parent, and the children name their parent. A child whose start waits for its delivery is found as
//! an intent. One that was started a moment ago may be missed by a lagging replica: it runs on, and its result finds nobody.

use crate::due::TurnDecision;
use crate::error::Failure;
use crate::model::sql::{INSTANCE, INTENT, WORK};
use crate::model::{InstanceDoc, IntentDoc, Status, WorkDoc};
use crate::read;
use crate::store::Store;
use cosmos::{PartitionKey, Query};
use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind};
use serde::Deserialize;
use std::collections::BTreeSet;

/// What a turn that fails with this error decides. A parent can handle it, as any failure of a child.
pub(super) async fn failed(
    store: &Store,
    pk: &PartitionKey,
    instance: &InstanceDoc,
    error: &str,
) -> Result<TurnDecision, Failure> {
    let details = ErrorDetails::Application {
        kind: AppErrorKind::OrchestrationFailed,
        message: error.to_owned(),
        retryable: false,
    };
    ended(store, pk, instance, details, Vec::new()).await
}

/// What a turn decides that cancels the instance, with its children. `None` when its execution has ended.
pub(crate) async fn cancelled(
    store: &Store,
    pk: &PartitionKey,
    instance: &InstanceDoc,
    reason: &str,
) -> Result<Option<TurnDecision>, Failure> {
    if !instance.exists() || instance.current.status.is_terminal() {
        return Ok(None);
    }
    let requested = EventKind::OrchestrationCancelRequested {
        reason: reason.to_owned(),
    };
    let details = ErrorDetails::Application {
        kind: AppErrorKind::Cancelled {
            reason: reason.to_owned(),
        },
        message: String::new(),
        retryable: false,
    };
    let mut decision = ended(store, pk, instance, details, vec![requested]).await?;
    let cancel = |instance| WorkItem::CancelInstance {
        instance,
        // The word of duroxide.
        reason: "parent canceled".to_owned(),
    };
    decision
        .messages
        .extend(children(store, pk).await?.into_iter().map(cancel));
    Ok(Some(decision))
}

async fn ended(
    store: &Store,
    pk: &PartitionKey,
    instance: &InstanceDoc,
    details: ErrorDetails,
    mut kinds: Vec<EventKind>,
) -> Result<TurnDecision, Failure> {
    let state = &instance.current;
    kinds.push(EventKind::OrchestrationFailed {
        details: details.clone(),
    });
    let ids = state.last_event_id + 1..;
    let event = |(id, kind)| Event::with_event_id(id, pk.as_str(), state.execution, None, kind);
    Ok(TurnDecision {
        execution: state.execution,
        events: ids.zip(kinds).map(event).collect(),
        metadata: ExecutionMetadata {
            status: Some(Status::Failed.to_string()),
            output: Some(details.display_message()),
            ..ExecutionMetadata::default()
        },
        messages: answer(store, instance, details).await?.into_iter().collect(),
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

/// A child as far as it matters here.
#[derive(Deserialize)]
struct Child {
    pk: String,
    status: Status,
}

/// The children that have not ended, and those that are about to be started. One query of all partitions, and one of its own.
async fn children(store: &Store, pk: &PartitionKey) -> Result<BTreeSet<String>, Failure> {
    let query = Query::new(format!(
        "SELECT c.pk, c.status FROM c WHERE c.type = {INSTANCE} AND c.parent = @parent"
    ));
    let children = store
        .container
        .scan::<Child>(&query.param("@parent", pk.as_str()))
        .await?;
    let running = children.into_iter().filter(|child| !child.status.is_over());
    let query = Query::new(format!("SELECT * FROM c WHERE c.type = {INTENT}"));
    let intents = store.container.query::<IntentDoc>(pk, &query).await?;
    let starts = |intent: &IntentDoc| intent.message.starts().is_some_and(|start| start.parent.is_some());
    let starting = intents.into_iter().filter(starts).map(|intent| intent.message.pk);
    Ok(running.map(|child| child.pk).chain(starting).collect())
}
