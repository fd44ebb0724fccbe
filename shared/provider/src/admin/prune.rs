//! Pruning earlier executions: a commit without a turn, so it is fenced like one and may be of any size.

use crate::error::Failure;
use crate::model::{ExecutionDoc, InstanceDoc, StagedOp, is_terminal};
use crate::store::Store;
use crate::turn::{Commit, HeldTurn, HeldTurns, Plan};
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

impl Store {
    /// Removes what `options` names of one instance; never its current execution.
    pub(crate) async fn prune(&self, pk: &PartitionKey, options: &PruneOptions) -> Result<PruneResult, Failure> {
        self.known_instance(pk).await?;
        let turn = self.hold(pk).await?;
        match self.prune_held(&turn, options).await {
            Ok(Some(result)) => Ok(result),
            Ok(None) => {
                self.release_turn(&turn, None, true).await?;
                Ok(PruneResult {
                    instances_processed: 1,
                    ..PruneResult::default()
                })
            }
            Err(failure) => {
                if let Err(error) = self.release_turn(&turn, None, true).await {
                    tracing::warn!(instance = pk.as_str(), %error, "a hold was not given back; it will expire");
                }
                Err(failure)
            }
        }
    }

    /// `None` when there is nothing to prune.
    async fn prune_held(&self, turn: &HeldTurn, options: &PruneOptions) -> Result<Option<PruneResult>, Failure> {
        let pk = &turn.pk;
        let mut instance = turn
            .instance
            .clone()
            .ok_or_else(|| Failure::NoInstance(pk.as_str().to_owned()))?;
        let query = Query::new("SELECT * FROM c WHERE c.type = 'execution'");
        let earlier = self.container.query::<ExecutionDoc>(pk, &query).await?;
        let doomed = choose(earlier, options);
        if doomed.is_empty() {
            return Ok(None);
        }
        let executions: HashSet<u64> = doomed.iter().map(|doc| doc.state.execution).collect();
        let events: u64 = doomed.iter().map(|doc| doc.state.events).sum();
        let query = Query::new("SELECT c.id, c.execution FROM c WHERE c.type IN ('history', 'execution')");
        let pieces = self.container.query::<Piece>(pk, &query).await?;
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
        Commit::of(self, &HeldTurns::default(), turn)?.apply(&plan).await?;
        Ok(Some(PruneResult {
            instances_processed: 1,
            executions_deleted: doomed.len() as u64,
            events_deleted: events,
        }))
    }

    /// Prunes every instance that the filter names.
    pub(crate) async fn prune_bulk(
        &self,
        filter: &InstanceFilter,
        options: &PruneOptions,
    ) -> Result<PruneResult, Failure> {
        let (mut total, mut failed) = (PruneResult::default(), None);
        for instance in self.matching(filter, |_| true).await? {
            match self.prune(&PartitionKey::new(&instance)?, options).await {
                Ok(one) => {
                    total.instances_processed += one.instances_processed;
                    total.executions_deleted += one.executions_deleted;
                    total.events_deleted += one.events_deleted;
                }
                // Deleted since it was listed.
                Err(Failure::NoInstance(_)) => {}
                Err(failure) => {
                    tracing::warn!(instance, %failure, "an instance is not pruned; the others are");
                    failed = Some(failure);
                }
            }
        }
        match failed {
            Some(failure) if total.instances_processed == 0 => Err(failure),
            _ => Ok(total),
        }
    }
}

/// The executions to remove. The current one is not among `earlier`; it counts as the first of those to keep.
fn choose(mut earlier: Vec<ExecutionDoc>, options: &PruneOptions) -> Vec<ExecutionDoc> {
    let keep = options.keep_last.map_or(0, |keep| (keep as usize).saturating_sub(1));
    earlier.sort_by_key(|doc| std::cmp::Reverse(doc.state.execution));
    earlier
        .into_iter()
        .skip(keep)
        .filter(|doc| is_terminal(&doc.state.status))
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
    use crate::model::ExecutionState;

    fn execution(execution: u64, completed_at: Option<u64>) -> ExecutionDoc {
        let mut state = ExecutionState::new(execution, 0);
        state.completed_at = completed_at;
        if completed_at.is_some() {
            state.status = "ContinuedAsNew".to_owned();
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
