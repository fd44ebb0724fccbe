//! A build that has gone on with what another build had blocked wakes the others of that kind: after a rollback or a fix they need not
//! wait for the ends of their pauses.
//!
//! It costs one query of all partitions, and only after such a commit: at most once a minute in a process. Nothing is lost when it
//! fails: each of them has a wakeup at the end of its pause, which is at most five minutes long.

use super::Gate;
use super::open::Claim;
use crate::notifier::Delayed;
use crate::wakeup::Wakeup;
use duroxide_cosmos::{Blocked, Target};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How many of each physical partition are woken at a time.
const MOST: u32 = 100;
/// How long a process waits before it searches again.
const INTERVAL: Duration = Duration::from_secs(60);
/// How long the search may take: an invocation waits for it.
const SEARCH: Duration = Duration::from_secs(2);

/// What to wake after a commit that goes on with what another build had blocked.
#[derive(Clone, Debug)]
pub(super) enum Kindred {
    Turns,
    Works { tag: Option<String> },
}

impl Kindred {
    fn has(&self, target: &Target) -> bool {
        match (self, target) {
            (Kindred::Turns, Target::Turn { .. }) => true,
            (Kindred::Works { tag }, Target::Work(work)) => work.tag == *tag,
            _ => false,
        }
    }
}

/// When this process last searched.
#[derive(Debug, Default)]
pub(super) struct LastSearch(Mutex<Option<Instant>>);

impl LastSearch {
    /// Whether it is time to search again, which then is noted.
    fn is_due(&self, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now >= last + INTERVAL);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

impl Gate {
    /// What this build goes on with if it commits, where another build could not.
    pub(super) fn kindred(&self, blocked: Option<&Blocked>, of: Kindred) -> Option<Kindred> {
        let is_others = |blocked: &&Blocked| !self.store.is_this_build(&blocked.build);
        blocked.filter(is_others).map(|_| of)
    }

    /// The wakeups for what other builds have blocked, after the commit of this claim.
    pub(super) async fn wakeups_of_others(&self, claim: &Claim) -> Vec<Delayed> {
        let Some(kindred) = &claim.kindred else {
            return Vec::new();
        };
        if claim.budget.is_spent() || !self.searched.is_due(Instant::now()) {
            return Vec::new();
        }
        let end = claim.budget.end().min(Instant::now() + SEARCH);
        let search = timeout_at(end, self.store.blocked_by_others(MOST));
        let mut targets = match search.await {
            Ok(Ok(targets)) => targets,
            Ok(Err(error)) => {
                tracing::warn!(%error, "what other builds have blocked was not found; it goes on at the ends of its pauses");
                return Vec::new();
            }
            Err(_) => return Vec::new(),
        };
        targets.retain(|target| kindred.has(target) && target.instance() != claim.instance);
        if !targets.is_empty() {
            tracing::info!(
                woken = targets.len(),
                "this build goes on with what another one had blocked: it wakes the others"
            );
        }
        targets
            .into_iter()
            .map(|target| Delayed::now(Wakeup::to(target)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_process_searches_once_a_minute() {
        let last = LastSearch::default();
        assert!(last.is_due(Instant::now()));
        assert!(!last.is_due(Instant::now()));
        tokio::time::advance(INTERVAL).await;
        assert!(last.is_due(Instant::now()));
    }
}
