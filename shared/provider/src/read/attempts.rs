//! The attempts of the activities of one execution: of completed ones from the history documents, of open ones from their work
//! items.

use super::execution_state;
use crate::error::Failure;
use crate::model::sql::{HISTORY, WORK_ITEM};
use crate::model::{Attempt, Blocked, CompletedAttempts, Listed, WorkDoc};
use crate::store::Store;
use cosmos::{PartitionKey, Query};
use duroxide::providers::WorkItem;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What is known of the attempts of one activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityAttempts {
    /// The activity's id in its execution.
    pub activity: u64,
    /// The attempts that have ended: the newest ones, the oldest first.
    pub ended: Vec<Attempt>,
    /// What is known of an activity that has not completed.
    pub open: Option<OpenActivity>,
}

/// An activity that has not completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenActivity {
    /// Its name.
    pub name: String,
    /// How often it was begun.
    pub attempts: u32,
    /// When the attempt began that runs now (Unix ms).
    pub began: Option<u64>,
    /// When it is due, or when the lock of the attempt that runs expires (Unix ms).
    pub due_at: u64,
    /// Why it cannot be run: no worker that has tried registers it. Its instance runs all the same.
    pub blocked: Option<Blocked>,
}

/// The activities of an execution that were begun, by id.
pub(crate) async fn attempts(
    store: &Store,
    pk: &PartitionKey,
    execution: u64,
) -> Result<Vec<ActivityAttempts>, Failure> {
    let completed = Query::new(format!(
        "SELECT c.commit, c.prev, c.offset, c.attempts FROM c WHERE c.type = {HISTORY} AND c.execution = @execution"
    ))
    .param("@execution", execution);
    let completed = async { Ok(store.container.query::<AttemptsOf>(pk, &completed).await?) };
    let state = execution_state(store, pk, execution);
    let (completed, open, state) = futures::try_join!(completed, open_items(store, pk), state)?;
    let completed = in_chain(completed, &state.map(|state| state.head).unwrap_or_default());
    Ok(all_attempts(completed, open, execution, store.now()))
}

/// What a history document has of the attempts.
#[derive(Deserialize)]
struct AttemptsOf {
    commit: String,
    prev: String,
    offset: u64,
    #[serde(default)]
    attempts: Vec<CompletedAttempts>,
}

/// The attempts of the chain that ends at `head`, in its order: what a rewind has undone does not count.
fn in_chain(documents: Vec<AttemptsOf>, head: &str) -> Vec<CompletedAttempts> {
    let prevs: HashMap<String, String> = documents
        .iter()
        .map(|of| (of.commit.clone(), of.prev.clone()))
        .collect();
    let (mut chain, mut at) = (HashSet::new(), head);
    while let Some(prev) = prevs.get(at)
        && chain.insert(at)
    {
        at = prev;
    }
    let mut documents: Vec<AttemptsOf> = documents.into_iter().collect();
    documents.retain(|of| chain.contains(of.commit.as_str()));
    documents.sort_by_key(|of| of.offset);
    documents.into_iter().flat_map(|of| of.attempts).collect()
}

/// The work items of an instance: the activities that have not completed.
pub(super) async fn open_items(store: &Store, pk: &PartitionKey) -> Result<Vec<Listed<WorkDoc>>, Failure> {
    let open = Query::new(format!("SELECT * FROM c WHERE c.type = {WORK_ITEM}"));
    Ok(store.container.query::<Listed<WorkDoc>>(pk, &open).await?)
}

/// Both kinds of activities, by id.
pub(super) fn all_attempts(
    completed: Vec<CompletedAttempts>,
    open: Vec<Listed<WorkDoc>>,
    execution: u64,
    now: u64,
) -> Vec<ActivityAttempts> {
    // An activity that completes between the two reads is in both, or in neither until the next turn.
    let mut activities: BTreeMap<u64, ActivityAttempts> = open
        .into_iter()
        .filter_map(|item| match item {
            Listed::Known(work) => open_activity(&work, execution, now),
            // A newer release shows it.
            Listed::Foreign(_) => None,
        })
        .map(|activity| (activity.activity, activity))
        .collect();
    activities.extend(completed.into_iter().map(|of| {
        let ended = of.log.attempts().to_vec();
        let activity = ActivityAttempts {
            activity: of.activity,
            ended,
            open: None,
        };
        (of.activity, activity)
    }));
    activities.into_values().collect()
}

fn open_activity(work: &WorkDoc, execution: u64, now_ms: u64) -> Option<ActivityAttempts> {
    let (of, activity) = WorkDoc::numbers_of(&work.id)?;
    let name = match serde_json::from_str(work.item.get()) {
        Ok(WorkItem::ActivityExecute { name, .. }) => name,
        _ => return None,
    };
    (of == execution).then(|| ActivityAttempts {
        activity,
        ended: work.log().attempts().to_vec(),
        open: Some(OpenActivity {
            name,
            attempts: work.attempts,
            began: work.began().filter(|_| work.is_claimed_at(now_ms)),
            due_at: work.due_at,
            blocked: work.blocked.clone().filter(|_| work.parked),
        }),
    })
}
