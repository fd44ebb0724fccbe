//! Pruning earlier executions: a commit without a turn. It is fenced like one and may have any size.

use super::info::known_instance;
use super::list;
use crate::error::Failure;
use crate::model::sql::{EXECUTION, HISTORY};
use crate::model::{ExecutionDoc, InstanceDoc, StagedOp};
use crate::store::Store;
use crate::turn::{self, ClaimedTurn, ClaimedTurns, Commit, Plan};
use cosmos::{PartitionKey, Query};
use duroxide::providers::{InstanceFilter, PruneOptions, PruneResult};
use serde::Deserialize;
use std::collections::HashSet;

/// A document of an earlier execution.
#[derive(Debug, Deserialize)]
struct Piece {
    id: String,
    execution: u64,
}

/// Removes the executions of one instance that `options` selects; never the current one.
pub(crate) async fn prune(store: &Store, pk: &PartitionKey, options: &PruneOptions) -> Result<PruneResult, Failure> {
    known_instance(store, pk).await?;
    let turn = turn::claim_idle(store, pk).await?;
    match prune_claimed(store, &turn, options).await {
        Ok(Some(result)) => Ok(result),
        Ok(None) => {
            turn::release(store, &turn, None, true).await?;
            Ok(PruneResult {
                instances_processed: 1,
                ..PruneResult::default()
            })
        }
        Err(failure) => {
            if let Err(error) = turn::release(store, &turn, None, true).await {
                tracing::warn!(instance = pk.as_str(), %error, "a claim was not released; it will expire");
            }
            Err(failure)
        }
    }
}

/// `None` when there is nothing to prune.
async fn prune_claimed(
    store: &Store,
    turn: &ClaimedTurn,
    options: &PruneOptions,
) -> Result<Option<PruneResult>, Failure> {
    let pk = &turn.pk;
    let mut instance = turn
        .instance
        .clone()
        .ok_or_else(|| Failure::NoInstance(pk.as_str().to_owned()))?;
    let query = Query::new(format!("SELECT * FROM c WHERE c.type = {EXECUTION}"));
    let earlier = store.container.query::<ExecutionDoc>(pk, &query).await?;
    let doomed = choose(earlier, options);
    if doomed.is_empty() {
        return Ok(None);
    }
    let executions: HashSet<u64> = doomed.iter().map(|doc| doc.state.execution).collect();
    let events: u64 = doomed.iter().map(|doc| doc.state.events).sum();
    let query = Query::new(format!(
        "SELECT c.id, c.execution FROM c WHERE c.type IN ({HISTORY}, {EXECUTION})"
    ));
    let pieces = store.container.query::<Piece>(pk, &query).await?;
    let rest = pieces
        .into_iter()
        .filter(|piece| executions.contains(&piece.execution))
        .map(|piece| StagedOp::discard(&piece.id))
        .collect();
    instance.executions = instance.executions.saturating_sub(doomed.len() as u64);
    instance.earlier_events = instance.earlier_events.saturating_sub(events);
    instance.commit.clone_from(&turn.nonce);
    let plan = Plan {
        commit: turn.nonce.clone(),
        state: vec![StagedOp::upsert(InstanceDoc::ID, &instance)?],
        history: Vec::new(),
        rest,
        consumed: Vec::new(),
        intents: Vec::new(),
        work: Vec::new(),
    };
    Commit::of(store, &ClaimedTurns::default(), turn)?.apply(&plan).await?;
    Ok(Some(PruneResult {
        instances_processed: 1,
        executions_deleted: doomed.len() as u64,
        events_deleted: events,
    }))
}

/// Prunes every instance that matches.
pub(crate) async fn prune_bulk(
    store: &Store,
    filter: &InstanceFilter,
    options: &PruneOptions,
) -> Result<PruneResult, Failure> {
    let (mut total, mut failed) = (PruneResult::default(), None);
    for instance in list::matching(store, filter, |_| true).await? {
        match prune(store, &PartitionKey::new(&instance)?, options).await {
            Ok(one) => {
                total.instances_processed += one.instances_processed;
                total.executions_deleted += one.executions_deleted;
                total.events_deleted += one.events_deleted;
            }
            // Deleted since it was listed.
            Err(Failure::NoInstance(_)) => {}
            Err(failure) => {
                tracing::warn!(instance, %failure, "an instance was not pruned; bulk pruning continues with the others");
                failed = Some(failure);
            }
        }
    }
    match failed {
        Some(failure) if total.instances_processed == 0 => Err(failure),
        _ => Ok(total),
    }
}

/// The executions to remove. The current one is not among `earlier`; it counts as the first of those to keep.
fn choose(mut earlier: Vec<ExecutionDoc>, options: &PruneOptions) -> Vec<ExecutionDoc> {
    let keep = options.keep_last.map_or(0, |keep| (keep as usize).saturating_sub(1));
    earlier.sort_by_key(|doc| std::cmp::Reverse(doc.state.execution));
    earlier
        .into_iter()
        .skip(keep)
        .filter(|doc| doc.state.status.is_terminal())
        .filter(|doc| {
            options
                .completed_before
                .is_none_or(|before| doc.state.completed_at.is_some_and(|at| at < before))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ExecutionState, Status};

    fn execution(execution: u64, completed_at: Option<u64>) -> ExecutionDoc {
        let mut state = ExecutionState::new(execution, 0);
        state.completed_at = completed_at;
        if completed_at.is_some() {
            state.status = Status::ContinuedAsNew;
        }
        ExecutionDoc::new("i", state)
    }

    fn chosen(keep_last: Option<u32>, completed_before: Option<u64>) -> Vec<u64> {
        let earlier = (1..=4).map(|n| execution(n, Some(n * 100))).collect();
        let options = PruneOptions {
            keep_last,
            completed_before,
        };
        choose(earlier, &options)
            .iter()
            .map(|doc| doc.state.execution)
            .collect()
    }

    #[test]
    fn the_current_execution_counts_as_the_first_to_keep() {
        assert_eq!(chosen(None, None), [4, 3, 2, 1]);
        assert_eq!(chosen(Some(0), None), chosen(Some(1), None));
        assert_eq!(chosen(Some(3), None), [2, 1]);
        assert_eq!(chosen(Some(9), None), [0u64; 0]);
    }

    #[test]
    fn both_criteria_must_hold() {
        assert_eq!(chosen(None, Some(300)), [2, 1]);
        assert_eq!(chosen(Some(4), Some(300)), [1]);
    }

    #[test]
    fn an_execution_that_still_runs_is_never_chosen() {
        assert!(choose(vec![execution(1, None)], &PruneOptions::default()).is_empty());
    }
}
