//! The types of the directed calls: what a fetch returns and what a commit promises.

use crate::due::{Due, Target, WorkVersion};
use crate::model::{Attempt, Blocked, Orchestration, WorkDoc};
use cosmos::Etag;
use duroxide::providers::{OrchestrationItem, ProviderError, WorkItem};
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a directed fetch found.
#[derive(Clone, Debug)]
pub enum Fetched<T> {
    /// The caller may run it: it has claimed it, or (a turn) it may be the first to commit it.
    Ready(T),
    /// Nothing is due, or not for a caller with these tags. The wakeup was stale and may be dropped if the reader has the
    /// writer's consistency token (see [`crate::CosmosProvider::absorb_consistency_token`]). Without it a lagging replica
    /// may have answered; a later sweep finds what it did not show.
    Nothing,
    /// Another process has the claim, or was faster. Retry the wakeup: that process may have fetched before the message
    /// arrived.
    Busy {
        /// When the claim expires, unless it is released earlier (Unix ms).
        until_ms: u64,
    },
    /// The fetch has completed a commit that another process left unfinished: wake these, and fetch again.
    RolledForward {
        /// Who has something to do now.
        due: Vec<Due>,
    },
    /// The turn was given up, and its orchestration has failed: its history is too large to be loaded. The fetch has
    /// committed that.
    GivenUp(GivenUpTurn),
    /// This build cannot go on with it, and the fetch has noted that: send a wakeup for the end of the pause.
    Blocked(Blocked),
    /// This build could not go on with it, and waits before it tries again. What came meanwhile waits with it.
    StillBlocked {
        /// When it is tried again (Unix ms).
        until_ms: u64,
    },
    /// An operator has paused the instance: nothing of it begins until it is resumed, which wakes everything that waits. Drop the
    /// wakeup.
    Paused {
        /// Something has come since that is not parked yet.
        is_late: bool,
    },
    /// Something is due that this build cannot run. Keep the wakeup: another build must serve it.
    Foreign {
        /// The reason, and what to do.
        why: String,
    },
}

impl<T> Fetched<T> {
    /// The same, with what was claimed turned into something else.
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Fetched<U> {
        match self {
            Fetched::Ready(item) => Fetched::Ready(f(item)),
            Fetched::Nothing => Fetched::Nothing,
            Fetched::Busy { until_ms } => Fetched::Busy { until_ms },
            Fetched::RolledForward { due } => Fetched::RolledForward { due },
            Fetched::GivenUp(turn) => Fetched::GivenUp(turn),
            Fetched::Blocked(blocked) => Fetched::Blocked(blocked),
            Fetched::StillBlocked { until_ms } => Fetched::StillBlocked { until_ms },
            Fetched::Paused { is_late } => Fetched::Paused { is_late },
            Fetched::Foreign { why } => Fetched::Foreign { why },
        }
    }
}

/// A claimed turn.
#[derive(Clone, Debug)]
pub struct TurnItem {
    /// What duroxide runs.
    pub item: OrchestrationItem,
    /// The token for ack, abandon and renew.
    pub lock_token: String,
    /// The highest attempt count among the messages of the turn, this fetch included.
    pub attempt: u32,
    /// The number of this turn in its execution, from 1; turns without events do not count.
    pub turn: u64,
    /// More messages are due than one turn takes: another turn must follow, and no other wakeup announces it.
    pub more: bool,
    /// Why the turn could not be committed before.
    pub blocked: Option<Blocked>,
    /// The instance has ended: nothing of it is replayed, and its messages are only consumed.
    pub is_over: bool,
    /// The instance is paused, and the turn is there only because a message cancels it: commit the cancellation without a replay.
    pub is_paused: bool,
}

/// A turn that was given up by its fetch.
#[derive(Clone, Debug)]
pub struct GivenUpTurn {
    /// The execution that has failed.
    pub execution: u64,
    /// The error that it failed with.
    pub error: String,
    /// The highest attempt count among the messages of the turn, this fetch included.
    pub attempt: u32,
    /// Who has something to do now: wake them.
    pub due: Vec<Due>,
    /// More messages are due: another turn must follow, and no other wakeup announces it.
    pub more: bool,
}

/// A claimed work item.
#[derive(Clone, Debug)]
pub struct ClaimedWork {
    /// What duroxide runs.
    pub item: WorkItem,
    /// The token for ack, abandon and renew.
    pub lock_token: String,
    /// How often the item has been fetched, this time included.
    pub attempt: u32,
    /// Why it could not be run before.
    pub blocked: Option<Blocked>,
    /// The orchestration that scheduled it, if its writer noted it.
    pub orchestration: Option<Orchestration>,
    /// The attempts before, as far as they are known: the newest ones, the oldest first.
    pub earlier: Vec<Attempt>,
}

/// A commit that is about to be written.
pub struct PendingCommit<'a> {
    /// Who has something to do once it is written. It is known before, because the outcome may never be: wake them unless
    /// it is certain that nothing was written.
    pub due: Vec<Due>,
    /// Writes it; nothing happens before this is awaited.
    pub done: Pin<Box<dyn Future<Output = Result<(), ProviderError>> + Send + 'a>>,
    /// What is certain of it, known before `done` ends: what follows (publishing, delivering) may be cut off, and others
    /// complete it.
    pub decided: Decided,
}

/// What is certain of a commit: whether it was written, and in which versions.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    written: Arc<Mutex<Option<HashMap<String, Etag>>>>,
    raced: Arc<AtomicBool>,
    /// Who has something to do beside those that the decision names.
    also: Arc<Mutex<Vec<Due>>>,
}

impl Decided {
    fn etags(&self) -> MutexGuard<'_, Option<HashMap<String, Etag>>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The commit was written.
    pub(crate) fn set(&self) {
        self.etags().get_or_insert_default();
    }

    /// The commit was written, these documents in these versions.
    pub(crate) fn wrote(&self, etags: HashMap<String, Etag>) {
        self.etags().get_or_insert_default().extend(etags);
    }

    /// Another turn of the instance was committed first.
    pub(crate) fn set_raced(&self) {
        self.raced.store(true, Ordering::Release);
    }

    /// The commit makes this one due as well.
    pub(crate) fn adds(&self, due: Due) {
        let mut also = self.also.lock().unwrap_or_else(PoisonError::into_inner);
        if !also.contains(&due) {
            also.push(due);
        }
    }

    /// Whether it is certain that the commit was written.
    pub fn is_set(&self) -> bool {
        self.etags().is_some()
    }

    /// Whether it is certain that the commit was not and will never be written, because another turn of the instance was
    /// committed first. Only a turn that was fetched without a claim can lose like this. The runtime must not hear of it:
    /// it would commit a failure of the orchestration instead.
    pub fn is_raced(&self) -> bool {
        self.raced.load(Ordering::Acquire)
    }

    /// The same targets, and those that only the commit knows; the activities with the versions of their work items, as far as the
    /// commit has learned them.
    pub fn with_versions(&self, mut due: Vec<Due>) -> Vec<Due> {
        let etags = self.etags();
        for Due { target, .. } in &mut due {
            if let Target::Work(work) = target {
                let etag = etags
                    .as_ref()
                    .and_then(|etags| etags.get(&WorkDoc::id_of(&work.identifier())));
                work.written = etag.cloned().map(WorkVersion::of);
            }
        }
        due.extend(self.also.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        due
    }
}

impl fmt::Debug for PendingCommit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCommit")
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}
