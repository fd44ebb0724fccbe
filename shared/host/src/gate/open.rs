//! The cycles that are under way: from the fetch that claimed until the ticket's answer.
//!
//! A cycle is known by its lock token, and by its *seat*: the dispatcher's task. The runtime may give a cycle up
//! without a word to the provider (duroxide drops some of its abandons unsent); that its dispatcher fetches again is
//! the sign. The seat also tells the runtime's own reads for a cycle from those of user code, which runs elsewhere.

use super::cycle::{Cycle, Outcome};
use super::ticket::reply;
use crate::budget::Budget;
use crate::notifier::Delayed;
use crate::plan::Orchestration;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::task;
use tokio::time::Instant;

/// A claimed turn or activity.
#[derive(Debug)]
pub(super) struct Open {
    pub claim: Claim,
    pub answer: oneshot::Sender<Cycle>,
    /// What the runtime was last told about it.
    pub trouble: Option<String>,
    /// What its commit makes due, once one was tried: it may have been applied although the runtime was told otherwise,
    /// so these are notified even when the cycle fails. A wakeup too many finds nothing.
    pub owed: Vec<Delayed>,
    /// Why a running activity was told to stop.
    pub stopped: Option<Stop>,
    seat: Option<task::Id>,
}

/// What is known of a claim from the beginning.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub instance: String,
    pub execution: u64,
    pub step: u64,
    pub attempt: u32,
    pub more: bool,
    /// The session of an activity.
    pub session: Option<String>,
    /// The orchestration, if it is known.
    pub of: Option<Orchestration>,
    pub budget: Budget,
    pub since: Instant,
}

/// Why a running activity was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The invocation ends.
    BudgetSpent,
    /// The lock was taken away: the orchestration cancelled it, or another holds it.
    LockLost,
    /// The lock could not be renewed in time. Nobody may have taken it.
    LockExpired,
}

#[derive(Debug, Default)]
pub(super) struct OpenCycles(Mutex<HashMap<String, Open>>);

impl OpenCycles {
    /// Opens a cycle on the calling dispatcher's seat.
    pub(super) fn open(&self, token: &str, claim: Claim, answer: oneshot::Sender<Cycle>) {
        let open = Open {
            claim,
            answer,
            trouble: None,
            owed: Vec::new(),
            stopped: None,
            seat: task::try_id(),
        };
        self.lock().insert(token.to_owned(), open);
    }

    pub(super) fn claim(&self, token: &str) -> Option<Claim> {
        self.lock().get(token).map(|open| open.claim.clone())
    }

    /// Why the activity was told to stop, if it was.
    pub(super) fn stopped(&self, token: &str) -> Option<Stop> {
        self.lock().get(token).and_then(|open| open.stopped)
    }

    pub(super) fn stop(&self, token: &str, why: Stop) {
        if let Some(open) = self.lock().get_mut(token) {
            open.stopped = Some(why);
        }
    }

    /// A commit was tried, and the runtime is told that it failed.
    pub(super) fn note(&self, token: &str, trouble: &str, owed: Vec<Delayed>) {
        if let Some(open) = self.lock().get_mut(token) {
            open.trouble = Some(trouble.to_owned());
            open.owed.extend(owed);
        }
    }

    /// Ends a cycle: its holder gets the answer.
    pub(super) fn close(&self, token: &str, outcome: Outcome) {
        self.close_with(token, outcome, |_| {});
    }

    pub(super) fn close_with(&self, token: &str, outcome: Outcome, detail: impl FnOnce(&mut Cycle)) {
        let Some(open) = self.lock().remove(token) else {
            return;
        };
        let mut cycle = Cycle {
            execution: Some(open.claim.execution),
            step: Some(open.claim.step),
            attempt: Some(open.claim.attempt),
            more: open.claim.more,
            wakeups: open.owed,
            ..Cycle::not_begun(outcome)
        };
        detail(&mut cycle);
        reply(open.answer, cycle);
    }

    /// The dispatcher fetches again: what it had open, it has given up.
    pub(super) fn leave_seat(&self) {
        let Some(seat) = task::try_id() else {
            return;
        };
        let left: Vec<(String, Option<String>)> = self
            .lock()
            .iter()
            .filter(|(_, open)| open.seat == Some(seat))
            .map(|(token, open)| (token.clone(), open.trouble.clone()))
            .collect();
        for (token, trouble) in left {
            let error = trouble.unwrap_or_else(|| "the runtime gave the cycle up without a reason".to_owned());
            self.close(&token, Outcome::Failed { error });
        }
    }

    /// The claim of the cycle that the calling dispatcher executes.
    pub(super) fn on_this_seat(&self) -> Option<Claim> {
        let seat = task::try_id()?;
        let open = self.lock();
        open.values()
            .find(|open| open.seat == Some(seat))
            .map(|open| open.claim.clone())
    }

    /// The sessions of activities that are under way, in invocations that still go on.
    pub(super) fn sessions(&self) -> Vec<(String, Budget)> {
        let open = self.lock();
        let mut sessions: Vec<(String, Budget)> = open
            .values()
            .filter(|open| !open.claim.budget.is_spent())
            .filter_map(|open| Some((open.claim.session.clone()?, open.claim.budget)))
            .collect();
        sessions.sort_by(|a, b| a.0.cmp(&b.0));
        sessions.dedup_by(|a, b| a.0 == b.0);
        sessions
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
