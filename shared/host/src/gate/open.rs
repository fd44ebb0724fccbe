//! The steps that are under way: from the fetch that claimed until the request is answered.
//!
//! A step is known by its lock token, and by the task of the dispatcher that executes it. duroxide drops some of its
//! abandons unsent, so the runtime may give a step up silently: it has, when the same dispatcher fetches again. The
//! task also distinguishes the runtime's own reads for a step from those of user code, which runs on other tasks.

use super::others::Kindred;
use super::reason::Allowed;
use super::request::{Answer, reply};
use super::step::{Outcome, Step};
use crate::budget::Budget;
use crate::notifier::Delayed;
use duroxide_cosmos::{Attempt, Orchestration, TurnDecision};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::task;
use tokio::time::Instant;

/// A claimed turn or activity.
#[derive(Debug)]
pub(super) struct OpenStep {
    pub claim: Claim,
    pub answer: oneshot::Sender<Step>,
    /// The last error that the runtime got for it.
    pub error: Option<String>,
    /// The wakeups for what its fetch has made due, and those of its commit, once one was tried. The commit may have been applied although the runtime got an
    /// error, so they are sent even when the step fails. A wakeup too many finds nothing.
    pub wakeups: Vec<Delayed>,
    /// Why a running activity was stopped.
    pub stopped: Option<Stop>,
    dispatcher: Option<task::Id>,
}

/// What is known of a claim from the beginning.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub instance: String,
    pub execution: u64,
    /// The number of the turn, or the activity's id.
    pub number: u64,
    pub attempt: u32,
    pub more: bool,
    /// The affinity session of an activity.
    pub affinity_session: Option<String>,
    /// The orchestration of an activity, if its work item names it.
    pub orchestration: Option<Orchestration>,
    /// What ends the instance of a turn that cannot be run, instead of blocking it.
    pub ending: Option<Ending>,
    /// The parent that waits for the instance of a turn.
    pub parent: Option<Parent>,
    pub activity: Option<ActivityClaim>,
    /// What to wake if this is committed, because another build had blocked it.
    pub kindred: Option<Kindred>,
    pub budget: Budget,
    pub since: Instant,
}

/// What ends an instance that cannot be run.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    Decided(Arc<TurnDecision>),
    /// A message cancels it for this reason, and nobody here can read its history: the store knows the rest.
    Unread(String),
}

/// The call of a parent that a child answers.
#[derive(Clone, Debug)]
pub(super) struct Parent {
    pub instance: String,
    pub execution: u64,
    pub call: u64,
}

/// What is known of a claimed activity, besides.
#[derive(Clone, Debug)]
pub(super) struct ActivityClaim {
    pub name: String,
    /// After this many attempts it is given up.
    pub most_attempts: u32,
    /// The attempts before this one.
    pub earlier: Vec<Attempt>,
    /// When this attempt began (Unix ms).
    pub began_ms: u64,
    /// When the attempt has to stop, and why.
    pub stop_at: Instant,
    pub stop: Stop,
    pub allowed: Allowed,
    /// The work item as duroxide's poison error shows it, if there is to be one.
    pub poison: Option<String>,
}

/// Why a running activity was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The invocation ends.
    BudgetSpent,
    /// The time limit of the activity is over.
    TimeLimit,
    /// The lock was lost: the orchestration cancelled the activity, or another environment claimed it.
    LockLost,
    /// The lock could not be renewed in time. It may still be unclaimed.
    LockExpired,
}

#[derive(Debug, Default)]
pub(super) struct OpenSteps(Mutex<HashMap<String, OpenStep>>);

impl OpenSteps {
    /// Opens a step of the calling dispatcher.
    pub(super) fn open(&self, token: &str, claim: Claim, answer: Answer) {
        let open = OpenStep {
            claim,
            answer: answer.to,
            error: None,
            wakeups: answer.wakeups,
            stopped: None,
            dispatcher: task::try_id(),
        };
        self.lock().insert(token.to_owned(), open);
    }

    pub(super) fn claim(&self, token: &str) -> Option<Claim> {
        self.lock().get(token).map(|open| open.claim.clone())
    }

    /// Why the activity was stopped, if it was.
    pub(super) fn stopped(&self, token: &str) -> Option<Stop> {
        self.lock().get(token).and_then(|open| open.stopped)
    }

    /// Whether the runtime got an error for the step.
    pub(super) fn has_failed(&self, token: &str) -> bool {
        self.lock().get(token).is_some_and(|open| open.error.is_some())
    }

    pub(super) fn stop(&self, token: &str, why: Stop) {
        if let Some(open) = self.lock().get_mut(token) {
            open.stopped = Some(why);
        }
    }

    /// Notes a commit that failed as far as the runtime knows.
    pub(super) fn note_failed_commit(&self, token: &str, error: &str, wakeups: Vec<Delayed>) {
        if let Some(open) = self.lock().get_mut(token) {
            open.error = Some(error.to_owned());
            open.wakeups.extend(wakeups);
        }
    }

    /// Ends a step and answers its request.
    pub(super) fn close(&self, token: &str, outcome: Outcome) {
        self.close_with(token, outcome, |_| {});
    }

    pub(super) fn close_with(&self, token: &str, outcome: Outcome, detail: impl FnOnce(&mut Step)) {
        let Some(open) = self.lock().remove(token) else {
            return;
        };
        let mut step = Step {
            execution: Some(open.claim.execution),
            number: Some(open.claim.number),
            attempt: Some(open.claim.attempt),
            more: open.claim.more,
            wakeups: open.wakeups,
            ..Step::not_begun(outcome)
        };
        detail(&mut step);
        reply(open.answer, step);
    }

    /// The calling dispatcher fetches again: whatever it had open, it has given up.
    pub(super) fn close_abandoned(&self) {
        let Some(dispatcher) = task::try_id() else {
            return;
        };
        let left: Vec<(String, Option<String>)> = self
            .lock()
            .iter()
            .filter(|(_, open)| open.dispatcher == Some(dispatcher))
            .map(|(token, open)| (token.clone(), open.error.clone()))
            .collect();
        for (token, error) in left {
            let error = error.unwrap_or_else(|| "the runtime gave the step up without a reason".to_owned());
            self.close(&token, Outcome::Failed { error });
        }
    }

    /// The claim of the step that the calling dispatcher executes.
    pub(super) fn of_this_dispatcher(&self) -> Option<Claim> {
        let dispatcher = task::try_id()?;
        let open = self.lock();
        open.values()
            .find(|open| open.dispatcher == Some(dispatcher))
            .map(|open| open.claim.clone())
    }

    /// The affinity sessions of activities that are under way, in invocations that have not ended.
    pub(super) fn affinity_sessions(&self) -> Vec<(String, Budget)> {
        let open = self.lock();
        let mut sessions: Vec<(String, Budget)> = open
            .values()
            .filter(|open| !open.claim.budget.is_spent())
            .filter_map(|open| Some((open.claim.affinity_session.clone()?, open.claim.budget)))
            .collect();
        sessions.sort_by(|a, b| a.0.cmp(&b.0));
        sessions.dedup_by(|a, b| a.0 == b.0);
        sessions
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, OpenStep>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
