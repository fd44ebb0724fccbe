//! One activity through the gate.
//!
//! The runtime's activity manager renews the lock now and then, and stops the activity when a renewal fails. That is
//! the gate's only way to stop a running activity: it does not answer a renewal, but keeps renewing at its own pace, and
//! answers with an error when the activity has to stop, because the lock is lost or the budget nearly spent. The
//! runtime then cancels the activity's token, waits for the grace period, and acks without a result, which in duroxide
//! means "drop the work item". Only a cancelled work item may be dropped: for the other reasons to stop, the gate
//! releases it instead.

use super::block;
use super::open::{Claim, Stop};
use super::request::reply;
use super::step::{Outcome, Step};
use super::turn::released;
use super::{Gate, not_open, too_late};
use crate::budget::Budget;
use duroxide::ErrorDetails;
use duroxide::providers::{Provider as _, ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use duroxide_cosmos::{Block, ClaimedWork, Fetched, WorkTarget};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long after its start the runtime first renews an activity's lock. From then on the gate can stop it.
pub(crate) const FIRST_RENEWAL: Duration = Duration::from_secs(1);
/// The pause between two attempts to renew a lock while the store does not answer.
const RENEW_AGAIN: Duration = Duration::from_secs(1);
/// How soon a released activity may be tried again.
const RELEASE_DELAY: Duration = Duration::from_secs(1);

impl Gate {
    /// Waits for a request whose activity can be claimed.
    pub(super) async fn next_work(
        &self,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> (WorkItem, String, u32) {
        self.open.close_abandoned();
        loop {
            let request = self.works.next().await;
            if !request.budget.fits(self.work_reserve()) {
                request.answer(Outcome::Deferred);
                continue;
            }
            if !tags.matches(request.target.tag.as_deref()) {
                let error = misdirected(&request.target, tags);
                request.fail(error);
                continue;
            }
            let since = Instant::now();
            let fetch = self
                .store
                .fetch_written_work(&request.target, lock_timeout, session, tags);
            match Self::within(request.budget, "fetch_work", fetch).await {
                // Only turns are given up by their fetch.
                Ok(Fetched::Nothing | Fetched::GivenUp(_)) => request.answer(Outcome::Nothing),
                Ok(Fetched::Blocked(blocked)) => request.answer(Outcome::Blocked { block: Some(blocked) }),
                Ok(Fetched::Paused { .. }) => request.answer(Outcome::Blocked { block: None }),
                Ok(Fetched::Busy { until_ms }) => request.answer(Outcome::Busy { until_ms }),
                Ok(Fetched::Foreign { why }) => request.fail(why),
                Err(error) => request.fail(error.to_string()),
                Ok(Fetched::Ready(work)) => {
                    let (target, budget, answer) = request.split();
                    match claim(&target, &work, budget, since) {
                        Some(claim) => {
                            self.open.open(&work.lock_token, claim, answer);
                            let Some(block) = self.block_of(&work.item) else {
                                return (work.item, work.lock_token, work.attempt);
                            };
                            self.block_work(&work.lock_token, &block).await;
                        }
                        // The runtime would panic on it. Its lock expires, and nobody runs it.
                        None => reply(
                            answer,
                            Step::failed(format!("`{}` has a work item that is no activity", target.instance)),
                        ),
                    }
                }
            }
        }
    }

    /// Why this build does not run the activity.
    fn block_of(&self, item: &WorkItem) -> Option<Block> {
        match item {
            WorkItem::ActivityExecute { name, .. } => block::unknown_activity(&self.registered.activities, name),
            _ => None,
        }
    }

    /// Blocks the activity of an open step, and ends the step.
    async fn block_work(&self, token: &str, block: &Block) {
        let Some(claim) = self.open.claim(token) else { return };
        let blocked = self.store.block_work(token, block);
        let outcome = match Self::within(claim.budget, "block_work", blocked).await {
            Ok(blocked) => Outcome::Blocked { block: Some(blocked) },
            Err(error) => Outcome::Failed {
                error: error.to_string(),
            },
        };
        self.open.close(token, outcome);
    }

    pub(super) async fn complete_work(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        const OPERATION: &str = "ack_work_item";
        let claim = self.open.claim(token).ok_or_else(|| not_open(OPERATION))?;
        // An activity that stops at once may still reach the runtime with an error: that is not its result, but the
        // effect of being stopped. A result that came just before counts, because the lock is still ours.
        let stopped = self.open.stopped(token).is_some();
        let completion = completion.filter(|completion| !(stopped && is_failure(completion)));
        let Some(completion) = completion else {
            return self.stop_work(token, &claim).await;
        };
        let given_up = is_poison(&completion);
        let commit = self.store.complete_work(token, Some(completion));
        let done = Self::committed(claim.budget, OPERATION, commit.done, &commit.decided).await;
        let wakeups = self.wakeups(commit.due);
        match &done {
            Ok(()) => self.open.close_with(token, Outcome::Committed, |step| {
                step.given_up = given_up;
                step.wakeups = wakeups;
            }),
            Err(error) => self.commit_failed(token, claim.budget, error, wakeups),
        }
        done
    }

    /// The runtime has stopped the activity and would drop its work item.
    async fn stop_work(&self, token: &str, claim: &Claim) -> Result<(), ProviderError> {
        match self.open.stopped(token) {
            Some(Stop::BudgetSpent) => {
                let release = self.store.abandon_work_item(token, Some(RELEASE_DELAY), false);
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
            // It may be unclaimed: another wakeup tries it, and finds nothing if it is gone.
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
        let abandon = self.store.abandon_work_item(token, delay, ignore_attempt);
        let done = Self::within(claim.budget, OPERATION, abandon).await;
        let outcome = match &done {
            // There is nothing to release: the orchestration has ended meanwhile.
            Err(error) if !error.is_retryable() && !claim.budget.is_spent() => Outcome::Cancelled,
            _ => released(&done, delay),
        };
        self.open.close(token, outcome);
        done
    }

    /// Keeps the lock until the activity has to stop. The runtime drops this future when the activity ends.
    pub(super) async fn keep_work(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        const OPERATION: &str = "renew_work_item_lock";
        let claim = self.open.claim(token).ok_or_else(|| not_open(OPERATION))?;
        let stop_at = claim
            .budget
            .end_less(self.limits.cancel_grace + self.limits.commit_reserve);
        let mut locked_until = claim.since + extend_for;
        let mut renew_at = claim.since + extend_for / 3;
        loop {
            let renewal = async {
                sleep_until(renew_at).await;
                let sent = Instant::now();
                let renew = self.store.renew_work_item_lock(token, extend_for);
                // A store that does not answer must not keep the activity running beyond its lock.
                let done = timeout_at(locked_until, renew).await;
                (sent, done.unwrap_or_else(|_| Err(lock_expired(OPERATION))))
            };
            let (sent, renewed) = tokio::select! {
                biased;
                () = sleep_until(stop_at) => {
                    self.open.stop(token, Stop::BudgetSpent);
                    return Err(too_late(OPERATION));
                }
                renewed = renewal => renewed,
            };
            match renewed {
                Ok(()) => {
                    locked_until = sent + extend_for;
                    renew_at = sent + extend_for / 3;
                }
                Err(error) if error.is_retryable() && Instant::now() + RENEW_AGAIN < locked_until => {
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

    /// Renews the affinity sessions of the activities that are under way, and only those.
    pub(super) async fn keep_sessions(&self, owner: &str, extend_for: Duration) -> Result<usize, ProviderError> {
        let claim = SessionFetchConfig {
            owner_id: owner.to_owned(),
            lock_timeout: extend_for,
        };
        let mut renewed = 0;
        for (session, budget) in self.open.affinity_sessions() {
            let renew = self.store.claim_session(&session, &claim);
            match Self::within(budget, "renew_session_lock", renew).await {
                Ok(Fetched::Ready(())) => renewed += 1,
                Ok(_) => tracing::warn!(
                    session,
                    "another environment claimed an affinity session while an activity of it runs here"
                ),
                // The other sessions are renewed all the same.
                Err(error) => tracing::warn!(session, %error, "an affinity session was not renewed"),
            }
        }
        Ok(renewed)
    }
}

fn claim(target: &WorkTarget, work: &ClaimedWork, budget: Budget, since: Instant) -> Option<Claim> {
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
    Some(Claim {
        instance: instance.clone(),
        execution: *execution_id,
        number: *id,
        attempt: work.attempt,
        more: false,
        affinity_session: session_id.clone(),
        orchestration: target.orchestration.clone(),
        ending: None,
        parent: None,
        budget,
        since,
    })
}

fn lock_expired(operation: &str) -> ProviderError {
    ProviderError::retryable(operation, "the store did not answer before the lock expired")
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
