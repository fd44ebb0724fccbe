//! One activity through the gate.
//!
//! The runtime's activity manager renews the lock now and then, and reads a failed renewal as "stop". The gate turns
//! that into its one handle on a running activity: a renewal is *held* instead of answered, renewing at the gate's own
//! pace, and fails at the very moment when the activity has to be told, be it that the lock is lost or the budget is
//! nearly spent. The runtime then cancels the activity's token, waits for its grace period, and acks without a result,
//! which in duroxide means "drop the work item". Only a work item that nobody wants may be dropped: for the other
//! reasons to stop, the gate gives it back instead.

use super::cycle::Outcome;
use super::open::{Claim, Stop};
use super::ticket::reply;
use super::turn::released;
use super::{Cycle, Gate, not_open, too_late};
use crate::budget::Budget;
use crate::environment::FIRST_RENEWAL;
use crate::plan::{Orchestration, Planner};
use crate::wakeup::WorkTarget;
use duroxide::ErrorDetails;
use duroxide::providers::{ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use duroxide_cosmos::{ClaimedWork, Fetched};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The pause between two attempts to renew a lock while the store is away.
const RENEW_AGAIN: Duration = Duration::from_secs(1);
/// How soon a released activity may be tried again.
const RELEASE_DELAY: Duration = Duration::from_secs(1);

impl Gate {
    /// Waits for a ticket whose activity can be claimed.
    pub(super) async fn next_work(
        &self,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> (WorkItem, String, u32) {
        self.open.leave_seat();
        let reserve = self.limits.cancel_grace + self.limits.commit_reserve + FIRST_RENEWAL;
        loop {
            let ticket = self.works.next().await;
            if !ticket.budget.fits(reserve) {
                ticket.answer(Outcome::Deferred);
                continue;
            }
            if !tags.matches(ticket.target.tag.as_deref()) {
                let error = misdirected(&ticket.target, tags);
                ticket.fail(error);
                continue;
            }
            let activity = ticket.target.identifier();
            let asked = Instant::now();
            let fetch = self.directed.fetch_work(&activity, lock_timeout, session, tags);
            match Self::within(ticket.budget, "fetch_work", fetch).await {
                Ok(Fetched::Nothing) => ticket.answer(Outcome::Nothing),
                Ok(Fetched::Busy { until_ms }) => ticket.answer(Outcome::Busy { until_ms }),
                Ok(Fetched::Foreign { why }) => ticket.fail(why),
                Err(error) => ticket.fail(error.to_string()),
                Ok(Fetched::Ready(work)) => {
                    let (target, budget, answer) = ticket.split();
                    match claim(&target, &work, budget, asked) {
                        Some(claim) => {
                            self.open.open(&work.lock_token, claim, answer);
                            return (work.item, work.lock_token, work.attempt);
                        }
                        // The runtime panics on anything else in this queue; its lock runs out, and nobody runs it.
                        None => reply(
                            answer,
                            Cycle::failed(format!("`{}` has a work item that is no activity", target.instance)),
                        ),
                    }
                }
            }
        }
    }

    pub(super) async fn complete_work(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        const OPERATION: &str = "ack_work_item";
        let claim = self.open.claim(token).ok_or_else(|| not_open(OPERATION))?;
        // An activity that stops as soon as it is told may still be heard by the runtime: what it then says is not its
        // result, but that it was told. One that had just come to its end counts, for the lock is still held.
        let stopped = self.open.stopped(token).is_some();
        let completion = completion.filter(|completion| !(stopped && is_failure(completion)));
        let Some(completion) = completion else {
            return self.stop_work(token, &claim).await;
        };
        let mut planner = Planner::new(self.clock.now_ms(), self.limits.wakeup_reach);
        planner.message(&completion, None);
        let poisoned = is_poison(&completion);
        let complete = self.inner.ack_work_item(token, Some(completion));
        let done = Self::within(claim.budget, OPERATION, complete).await;
        let wakeups = planner.finish(self.clock.now_ms(), self.directed.consistency_token());
        match &done {
            Ok(()) => self.open.close_with(token, Outcome::Committed, |cycle| {
                cycle.poisoned = poisoned;
                cycle.wakeups = wakeups;
            }),
            Err(error) => self.commit_failed(token, claim.budget, error, wakeups),
        }
        done
    }

    /// The runtime has stopped the activity and would drop its work item.
    async fn stop_work(&self, token: &str, claim: &Claim) -> Result<(), ProviderError> {
        match self.open.stopped(token) {
            Some(Stop::BudgetSpent) => {
                let release = self.inner.abandon_work_item(token, Some(RELEASE_DELAY), false);
                let done = Self::within(claim.budget, "ack_work_item", release).await;
                let outcome = match &done {
                    Ok(()) => Outcome::TimedOut,
                    Err(error) => Outcome::Failed {
                        error: format!("the activity outlived the invocation and was not released: {error}"),
                    },
                };
                self.open.close(token, outcome);
                done
            }
            // It may be unclaimed: a wakeup finds out, and finds nothing if it is gone.
            Some(Stop::LockExpired) => {
                let delay = RELEASE_DELAY;
                self.open.close(token, Outcome::Abandoned { delay });
                Ok(())
            }
            Some(Stop::LockLost) | None => {
                self.open.close(token, Outcome::Cancelled);
                Ok(())
            }
        }
    }

    pub(super) async fn abandon_work(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "abandon_work_item";
        let claim = self.open.claim(token).ok_or_else(|| not_open(OPERATION))?;
        let abandon = self.inner.abandon_work_item(token, delay, ignore_attempt);
        let done = Self::within(claim.budget, OPERATION, abandon).await;
        let outcome = match &done {
            // There is nothing to give back: the orchestration has ended meanwhile, as happens to whoever loses a race.
            Err(error) if !error.is_retryable() && !claim.budget.is_spent() => Outcome::Cancelled,
            _ => released(&done, delay),
        };
        self.open.close(token, outcome);
        done
    }

    /// Keeps the lock until the activity must be told to stop. The runtime drops this future when the activity ends.
    pub(super) async fn hold_work(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        const OPERATION: &str = "renew_work_item_lock";
        let claim = self.open.claim(token).ok_or_else(|| not_open(OPERATION))?;
        let told_at = claim
            .budget
            .end_less(self.limits.cancel_grace + self.limits.commit_reserve);
        let mut held_until = claim.since + extend_for;
        let mut renew_at = claim.since + extend_for / 3;
        loop {
            let renewal = async {
                sleep_until(renew_at).await;
                let asked = Instant::now();
                let renew = self.inner.renew_work_item_lock(token, extend_for);
                // A store that does not answer must not keep the activity from hearing that its lock is over.
                let done = timeout_at(held_until, renew).await;
                (asked, done.unwrap_or_else(|_| Err(lock_over(OPERATION))))
            };
            let (asked, renewed) = tokio::select! {
                biased;
                () = sleep_until(told_at) => {
                    self.open.stop(token, Stop::BudgetSpent);
                    return Err(too_late(OPERATION));
                }
                renewed = renewal => renewed,
            };
            match renewed {
                Ok(()) => {
                    held_until = asked + extend_for;
                    renew_at = asked + extend_for / 3;
                }
                Err(error) if error.is_retryable() && Instant::now() + RENEW_AGAIN < held_until => {
                    tracing::warn!(instance = claim.instance, %error, "a lock was not renewed; trying again");
                    renew_at = Instant::now() + RENEW_AGAIN;
                }
                Err(error) => {
                    let why = match error.is_retryable() {
                        true => Stop::LockExpired,
                        false => Stop::LockLost,
                    };
                    self.open.stop(token, why);
                    return Err(error);
                }
            }
        }
    }

    /// Extends the sessions of the activities that are under way, and only those.
    pub(super) async fn hold_sessions(&self, owner: &str, extend_for: Duration) -> Result<usize, ProviderError> {
        let claim = SessionFetchConfig {
            owner_id: owner.to_owned(),
            lock_timeout: extend_for,
        };
        let mut held = 0;
        for (session, budget) in self.open.sessions() {
            let hold = self.directed.hold_session(&session, &claim);
            match Self::within(budget, "renew_session_lock", hold).await {
                Ok(Fetched::Ready(())) => held += 1,
                Ok(_) => tracing::warn!(session, "a session was taken over while an activity of it runs here"),
                // One session's trouble is not the others'.
                Err(error) => tracing::warn!(session, %error, "a session was not renewed"),
            }
        }
        Ok(held)
    }
}

fn claim(target: &WorkTarget, work: &ClaimedWork, budget: Budget, asked: Instant) -> Option<Claim> {
    let WorkItem::ActivityExecute {
        instance,
        execution_id,
        id,
        session_id,
        ..
    } = &work.item
    else {
        return None;
    };
    let of = match (&target.orchestration, &target.version) {
        // Only what was notified for this very instance: an undirected fetch may have found another's.
        (Some(name), Some(version)) if target.instance == *instance => Some(Orchestration {
            name: name.clone(),
            version: version.clone(),
        }),
        _ => None,
    };
    Some(Claim {
        instance: instance.clone(),
        execution: *execution_id,
        step: *id,
        attempt: work.attempt,
        more: false,
        session: session_id.clone(),
        of,
        budget,
        since: asked,
    })
}

fn lock_over(operation: &str) -> ProviderError {
    ProviderError::retryable(operation, "the store did not answer before the lock was over")
}

fn misdirected(target: &WorkTarget, tags: &TagFilter) -> String {
    let tag = target.tag.as_deref().unwrap_or("(none)");
    format!(
        "activity {} of `{}` has the tag {tag}, which this worker does not serve ({tags:?}): set WORKER_TAGS of this \
         function, or give the tag a queue of its own in WORKER_TAG_QUEUE_URLS",
        target.activity, target.instance
    )
}

fn is_failure(completion: &WorkItem) -> bool {
    matches!(completion, WorkItem::ActivityFailed { .. })
}

fn is_poison(completion: &WorkItem) -> bool {
    matches!(
        completion,
        WorkItem::ActivityFailed {
            details: ErrorDetails::Poison { .. },
            ..
        }
    )
}
