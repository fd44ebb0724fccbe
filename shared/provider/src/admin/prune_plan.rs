//! Deciding how executions are pruned: which documents one batch deletes. No I/O.

use crate::batch::BATCH_OPS;
use serde::Deserialize;
use std::collections::HashMap;

/// How many documents one batch deletes: it also replaces the lock and the instance document.
pub(super) const GROUP: usize = BATCH_OPS - 1;

/// An earlier execution that is to be pruned.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct Earlier {
    pub id: String,
    #[serde(rename = "_etag")]
    pub etag: String,
    pub execution: u64,
    pub events: u64,
}

/// A history document.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Piece {
    pub id: String,
    pub execution: u64,
}

/// What to write next.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// One batch that deletes whole executions.
    Delete {
        executions: Vec<Earlier>,
        history: Vec<String>,
    },
    /// An execution with more documents than one batch deletes: only these of its history.
    Empty { execution: Earlier, history: Vec<String> },
}

/// Plans for executions in ascending order and their history documents in the same order. When there are `more` history
/// documents than these, the last execution that has one, and those after it, are not known completely. They come in a
/// later plan, as does everything behind an execution that is emptied.
pub(super) fn plan(executions: Vec<Earlier>, history: Vec<Piece>, more: bool) -> Vec<Step> {
    let known_before = history.last().filter(|_| more).map(|piece| piece.execution);
    let mut pieces: HashMap<u64, Vec<String>> = HashMap::new();
    for piece in history {
        pieces.entry(piece.execution).or_default().push(piece.id);
    }
    let mut steps = Vec::new();
    let (mut group, mut ids) = (Vec::new(), Vec::new());
    let mut large = None;
    for execution in executions {
        let is_known = known_before.is_none_or(|before| execution.execution < before);
        let own = pieces.remove(&execution.execution).unwrap_or_default();
        if !is_known || own.len() >= GROUP {
            large = Some((execution, own));
            break;
        }
        if group.len() + ids.len() + own.len() >= GROUP {
            steps.push(Step::Delete {
                executions: std::mem::take(&mut group),
                history: std::mem::take(&mut ids),
            });
        }
        group.push(execution);
        ids.extend(own);
    }
    if !group.is_empty() {
        steps.push(Step::Delete {
            executions: group,
            history: ids,
        });
    }
    match large {
        // It is read again, with all that belongs to it, when those before it are gone.
        Some((execution, history)) if steps.is_empty() => steps.push(Step::Empty { execution, history }),
        _ => {}
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executions(numbers: std::ops::RangeInclusive<u64>) -> Vec<Earlier> {
        let one = |execution| Earlier {
            id: format!("x:{execution}"),
            etag: "e".to_owned(),
            execution,
            events: 3,
        };
        numbers.map(one).collect()
    }

    fn history(counts: &[(u64, usize)]) -> Vec<Piece> {
        let of = |(execution, count): &(u64, usize)| {
            let execution = *execution;
            (0..*count).map(move |n| Piece {
                id: format!("h:{execution}:{n}"),
                execution,
            })
        };
        counts.iter().flat_map(of).collect()
    }

    /// The executions of each step, and how many documents it deletes.
    fn shape(steps: &[Step]) -> Vec<(Vec<u64>, usize)> {
        let one = |step: &Step| match step {
            Step::Delete { executions, history } => {
                let numbers: Vec<u64> = executions.iter().map(|one| one.execution).collect();
                let documents = numbers.len() + history.len();
                (numbers, documents)
            }
            Step::Empty { execution, history } => (vec![execution.execution], history.len()),
        };
        steps.iter().map(one).collect()
    }

    #[test]
    fn executions_share_batches_oldest_first_and_none_is_too_large() {
        let counts: Vec<(u64, usize)> = (1..=100).map(|n| (n, 2)).collect();
        let steps = plan(executions(1..=100), history(&counts), false);
        let shape = shape(&steps);
        assert!(shape.iter().all(|(_, documents)| *documents <= GROUP), "{shape:?}");
        let numbers: Vec<u64> = shape.into_iter().flat_map(|(numbers, _)| numbers).collect();
        assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
        assert_eq!(steps.len(), 300_usize.div_ceil(GROUP / 3 * 3));
    }

    #[test]
    fn an_execution_without_history_is_deleted_too() {
        assert_eq!(
            shape(&plan(executions(1..=2), history(&[(2, 1)]), false)),
            [(vec![1, 2], 3)]
        );
    }

    #[test]
    fn what_is_not_known_completely_waits_for_the_next_plan() {
        let known = history(&[(1, 2), (2, 2)]);
        assert_eq!(shape(&plan(executions(1..=3), known, true)), [(vec![1], 3)]);
    }

    #[test]
    fn an_execution_that_fits_no_batch_is_emptied_when_it_is_the_oldest() {
        let counts = [(1, 1), (2, GROUP), (3, 1)];
        assert_eq!(shape(&plan(executions(1..=3), history(&counts), false)), [(vec![1], 2)]);
        let steps = plan(executions(2..=3), history(&counts[1..]), false);
        assert!(matches!(steps[..], [Step::Empty { .. }]), "{steps:?}");
        let unknown = plan(executions(1..=3), history(&[(1, 5)]), true);
        assert!(matches!(unknown[..], [Step::Empty { .. }]), "{unknown:?}");
        let fits = plan(executions(2..=3), history(&[(2, GROUP - 1)]), false);
        assert_eq!(shape(&fits), [(vec![2], GROUP), (vec![3], 1)]);
    }

    #[test]
    fn nothing_is_planned_for_nothing() {
        assert!(plan(Vec::new(), Vec::new(), false).is_empty());
    }
}
