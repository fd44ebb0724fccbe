//! Pausing and resuming an instance, alone or with its descendants. `recovery::park` has the mechanics and the races.
//!
//! | found | pause | resume |
//! |---|---|---|
//! | no instance | not found | not found |
//! | pending, running, blocked, between two executions | paused; a turn under way is fenced off, and runs again after resume | not paused: wakes what waits |
//! | a claim, an unfinished commit, an expired deletion | ended, published, given up first | the same |
//! | paused | nothing changes: who was first has paused it | resumed |
//! | ended | ended | ended |
//! | being deleted | being deleted | being deleted |
//!
//! Both verbs can be repeated: a repetition completes what a crash left, and a repeated resume sends wakeups again that were lost.
//!
//! **Trees** go from the root downwards. A paused instance commits nothing, so it starts no more children; the starts that it still
//! owes are delivered at once (`recovery::deliver_starts`), then its children are listed and paused, and so on. So when the call has
//! succeeded, every descendant is paused that an up-to-date replica shows. A child may have begun in between. A call that fails
//! has paused a part from the root downwards; another call continues.

use super::list;
use crate::due::Due;
use crate::error::Failure;
use crate::model::{PausePhase, Paused};
use crate::recovery::{self, AT_ONCE, Progress, Queued, apply, roll_forward};
use crate::store::{Fence, Store};
use cosmos::PartitionKey;
use futures::future::try_join_all;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// How often, and how long apart, one instance is tried while others write it.
const ATTEMPTS: u32 = 200;
const WAIT: Duration = Duration::from_millis(10);

/// What became of a request to pause or resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseOutcome {
    /// It was paused or resumed.
    Changed,
    /// It was paused, or not paused, before.
    Unchanged,
    /// There is no such instance.
    NotFound,
    /// The instance has ended.
    Ended,
    /// The instance is being deleted.
    Deleting,
}

/// What became of a request to pause or resume an instance, with its descendants if they were to be included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseResult {
    /// What became of the instance itself.
    pub outcome: PauseOutcome,
    /// How many instances were changed, it and its descendants.
    pub changed: u64,
    /// Who has something to do: wake them.
    pub due: Vec<Due>,
}

/// What to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb<'a> {
    Pause {
        reason: Option<&'a str>,
        /// Names the call, so that a repetition of it knows its own pause; `None`: only its own retries do.
        call: Option<&'a str>,
    },
    Resume,
}

/// Pauses or resumes an instance.
pub(crate) async fn change(store: &Store, root: &str, verb: Verb<'_>, tree: bool) -> Result<PauseResult, Failure> {
    let mut result = one(store, root, verb).await?;
    let is_there = matches!(result.outcome, PauseOutcome::Changed | PauseOutcome::Unchanged);
    let mut seen = HashSet::from([root.to_owned()]);
    if tree && is_there {
        descend(store, verb, &mut seen, &mut result).await?;
    }
    if is_there && matches!(verb, Verb::Pause { .. }) {
        // Only what does not belong to the tree goes on.
        result.due.retain(|due| !seen.contains(due.target.instance()));
    }
    Ok(result)
}

/// The same for the descendants of the instance in `seen`, level by level.
async fn descend(
    store: &Store,
    verb: Verb<'_>,
    seen: &mut HashSet<String>,
    result: &mut PauseResult,
) -> Result<(), Failure> {
    let limit = Instant::now() + store.prune_time;
    let mut level: Vec<String> = seen.iter().cloned().collect();
    while !level.is_empty() {
        if matches!(verb, Verb::Pause { .. }) {
            for some in level.chunks(AT_ONCE) {
                let owed = some
                    .iter()
                    .map(|id| async { recovery::deliver_starts(store, &PartitionKey::new(id)?).await });
                let due = try_join_all(owed).await?;
                result.due.extend(due.into_iter().flatten());
            }
        }
        level = list::children_of(store, &level).await?;
        level.retain(|child| seen.insert(child.clone()));
        for some in level.chunks(AT_ONCE) {
            if Instant::now() >= limit {
                return Err(Failure::OutOfTime(store.prune_time));
            }
            for child in try_join_all(some.iter().map(|id| one(store, id, verb))).await? {
                result.changed += child.changed;
                result.due.extend(child.due);
            }
        }
    }
    Ok(())
}

async fn one(store: &Store, instance: &str, verb: Verb<'_>) -> Result<PauseResult, Failure> {
    let ended = |outcome: PauseOutcome, due: Vec<Due>| PauseResult {
        changed: u64::from(outcome == PauseOutcome::Changed),
        outcome,
        due,
    };
    // An id that cannot be a partition key is that of no instance.
    let Ok(pk) = PartitionKey::new(instance) else {
        return Ok(ended(PauseOutcome::NotFound, Vec::new()));
    };
    let call = match verb {
        Verb::Pause { call: Some(call), .. } => call.to_owned(),
        _ => store.ids.unique(),
    };
    let mut rolled = Vec::new();
    for _ in 0..ATTEMPTS {
        let fence = store.fence(&pk).await?;
        let Some(fence) = fence.filter(|fence| fence.doc.is_taken()) else {
            return Ok(ended(PauseOutcome::NotFound, rolled));
        };
        let is_deleting = fence.doc.lock.deleting.is_some();
        let phase = fence.doc.paused().map(|paused| paused.phase);
        let is_over = fence.doc.current.status.is_over();
        let is_resuming = phase == Some(PausePhase::Resuming) && fence.doc.lock.unfinished.is_none() && !is_over;
        match roll_forward(store, &pk, &fence).await? {
            Progress::Clean => {}
            Progress::Underway { .. } if is_deleting => return Ok(ended(PauseOutcome::Deleting, rolled)),
            Progress::Underway { .. } => {
                tokio::time::sleep(WAIT).await;
                continue;
            }
            // A resumption lists everything that waits.
            Progress::Changed { due } if matches!(verb, Verb::Pause { .. }) => {
                rolled.extend(due);
                continue;
            }
            Progress::Changed { due } if is_resuming => return Ok(ended(PauseOutcome::Changed, due)),
            Progress::Changed { .. } => continue,
        }
        if is_over {
            return Ok(ended(PauseOutcome::Ended, rolled));
        }
        let done = match verb {
            Verb::Pause { reason, .. } => pause(store, &pk, &fence, (&call, reason)).await?,
            Verb::Resume => resume(store, &pk, &fence).await?,
        };
        if let Some((outcome, due)) = done {
            rolled.extend(due);
            return Ok(ended(outcome, rolled));
        }
        tokio::time::sleep(WAIT).await;
    }
    Err(Failure::busy(&pk))
}

/// Pauses an instance that has not ended. `None` when something was written meanwhile.
async fn pause(
    store: &Store,
    pk: &PartitionKey,
    fence: &Fence,
    (call, reason): (&str, Option<&str>),
) -> Result<Option<(PauseOutcome, Vec<Due>)>, Failure> {
    if let Some(paused) = fence.doc.paused() {
        let outcome = match paused.call == call {
            // The answer to our own write was lost.
            true => PauseOutcome::Changed,
            false => PauseOutcome::Unchanged,
        };
        return Ok(Some((outcome, Vec::new())));
    }
    let queued = Queued::read(store, pk).await?;
    let now = store.now();
    let paused = Paused::begun(call, reason, now);
    // A turn under way is fenced off: it has no effect before its commit, and the attempt does not count.
    let mut done = fence.doc.with(|lock| lock.release(true));
    done.updated_at = now;
    let mut begun = done.clone();
    begun.set_paused(Some(paused.in_phase(PausePhase::Parking)), store.repair_due());
    done.set_paused(Some(paused), store.repair_due());
    let applied = apply(store, pk, fence, (&begun, &done), queued.parking(now)?).await?;
    Ok(applied.map(|_| (PauseOutcome::Changed, Vec::new())))
}

/// Resumes an instance that has not ended, or lists what waits in one that is not paused. `None` when something was written meanwhile.
async fn resume(store: &Store, pk: &PartitionKey, fence: &Fence) -> Result<Option<(PauseOutcome, Vec<Due>)>, Failure> {
    let mut queued = Queued::read(store, pk).await?;
    let now = store.now();
    let Some(paused) = fence.doc.paused() else {
        let due = queued.due(&fence.doc, now, &Default::default());
        return Ok(Some((PauseOutcome::Unchanged, due)));
    };
    let ops = queued.resume(now)?;
    let mut begun = fence.doc.clone();
    begun.set_paused(Some(paused.in_phase(PausePhase::Resuming)), store.repair_due());
    let mut done = fence.doc.clone();
    done.updated_at = now;
    done.set_paused(None, store.repair_due());
    let applied = apply(store, pk, fence, (&begun, &done), ops).await?;
    Ok(applied.map(|etags| (PauseOutcome::Changed, queued.due(&done, now, &etags))))
}
