//! One activity through the gate.
//!
//! The runtime's activity manager renews the lock now and then, and stops the activity when a renewal fails. That is
//! the gate's only way to stop a running activity: it does not answer a renewal, but keeps renewing at its own pace, and
//! answers with an error when the activity has to stop, because the lock is lost or the budget nearly spent. The
//! runtime then cancels the activity's token, waits for the grace period, and acks without a result, which in duroxide
//! means "drop the work item". Only a cancelled work item may be dropped: for the other reasons to stop, the gate
//! releases it instead.
//!
//! An activity that was tried as often as allowed is given up (`given_up`) before it would run once more.

use super::block;
use super::open::{ActivityClaim, Claim, Stop};
use super::others::Kindred;
use super::reason::Allowed;
use super::step::{Outcome, Step};
use super::turn::released;
use super::{Gate, not_open};
use crate::budget::Budget;
use crate::config::OnActivityGivenUp;
use duroxide::providers::{Provider as _, ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use duroxide_cosmos::{Block, Blocked, ClaimedWork, Fetched, PendingCommit, WorkTarget};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The pause between two attempts to renew a lock while the store does not answer.
const RENEW_AGAIN: Duration = Duration::from_secs(1);
/// How soon a released activity may be tried again.
pub(super) const RELEASE_DELAY: Duration = Duration::from_secs(1);

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
                // Only the fetch of a turn gives up or rolls forward.
                Ok(Fetched::Nothing | Fetched::GivenUp(_) | Fetched::RolledForward { .. }) => {
                    request.answer(Outcome::Nothing)
                }
                Ok(Fetched::Blocked(blocked)) => request.answer(Outcome::Blocked { block: Some(blocked) }),
                Ok(Fetched::StillBlocked { .. }) => request.answer(Outcome::Blocked { block: None }),
                Ok(Fetched::Paused { .. }) => request.answer(Outcome::Paused),
                Ok(Fetched::Busy { until_ms }) => request.answer(Outcome::Busy { until_ms }),
                Ok(Fetched::Foreign { why }) => request.fail(why),
                Err(error) => request.fail(error.to_string()),
                Ok(Fetched::Ready(work)) => {
                    let (target, budget, answer) = request.split();
                    let Some((claim, activity)) = self.claim(&work, budget, since) else {
                        // The runtime would panic on it. Its lock expires, and nobody runs it.
                        let error = format!("`{}` has a work item that is no activity", target.instance);
                        answer.reply(Step::failed(error));
                        continue;
                    };
                    self.open.open(&work.lock_token, claim.clone(), answer);
                    if let Some(block) = block::unknown_activity(&self.registered.activities, &activity.name) {
                        let owner = session.map(|session| session.owner_id.as_str());
                        self.block_work(&work, &claim, &activity, (block, owner)).await;
                        continue;
                    }
                    if work.attempt <= activity.most_attempts {
                        return (work.item, work.lock_token, work.attempt);
                    }
                    if let Err(error) = self.give_up(&work.lock_token, &claim, &activity, None).await {
                        let error = error.to_string();
                        self.open.close(&work.lock_token, Outcome::Failed { error });
                    }
                }
            }
        }
    }

    /// Blocks an activity that this build does not register, or gives it up if nobody has for long, and ends its step.
    async fn block_work(
        &self,
        work: &ClaimedWork,
        claim: &Claim,
        activity: &ActivityClaim,
        (block, owner): (Block, Option<&str>),
    ) {
        let (token, is_kept) = (&work.lock_token, |blocked: &Blocked| !self.is_kept_too_long(blocked));
        let blocked = match work.blocked.as_ref().is_none_or(is_kept) {
            true => {
                let blocked = self.store.block_work(token, &block, owner);
                Self::within(claim.budget, "block_work", blocked).await.map(Some)
            }
            false => {
                let reason = format!("{}; {}", block.reason, self.kept_for());
                let tried = claim.attempt.saturating_sub(1);
                let failed = self.fail_work(token, claim, activity, (reason, tried, None)).await;
                failed.map(|()| None)
            }
        };
        match blocked {
            Ok(Some(blocked)) => self.open.close(token, Outcome::Blocked { block: Some(blocked) }),
            // The commit has ended the step.
            Ok(None) => {}
            Err(error) => {
                let error = error.to_string();
                self.open.close(token, Outcome::Failed { error });
            }
        }
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
        let commit = self.store.complete_work(token, Some(completion));
        self.commit_work(token, &claim, commit, false).await
    }

    pub(super) async fn commit_work(
        &self,
        token: &str,
        claim: &Claim,
        commit: PendingCommit<'_>,
        given_up: bool,
    ) -> Result<(), ProviderError> {
        let done = Self::committed(claim.budget, "ack_work_item", commit.done, &commit.decided).await;
        let mut wakeups = self.wakeups(commit.due);
        match &done {
            Ok(()) => {
                if !given_up {
                    wakeups.extend(self.wakeups_of_others(claim).await);
                }
                self.open.close_with(token, Outcome::Committed, |step| {
                    step.given_up = given_up;
                    step.wakeups = wakeups;
                });
            }
            Err(error) => self.commit_failed(token, claim.budget, error, wakeups),
        }
        done
    }

    /// The runtime has stopped the activity and would drop its work item.
    async fn stop_work(&self, token: &str, claim: &Claim) -> Result<(), ProviderError> {
        match self.open.stopped(token) {
            Some(Stop::BudgetSpent | Stop::TimeLimit) => self.stop_late_work(token, claim).await,
            // It may be unclaimed: another wakeup tries it, and finds nothing if it is gone.
            Some(Stop::LockExpired) => {
                tracing::warn!(
                    instance = claim.instance,
                    activity = claim.number,
                    "an activity was stopped, because its lock could not be renewed in time"
                );
                let delay = RELEASE_DELAY;
                self.open.close(token, Outcome::Abandoned { delay });
                Ok(())
            }
            Some(Stop::LockLost) | None => {
                tracing::info!(
                    instance = claim.instance,
                    activity = claim.number,
                    "an activity was stopped: its orchestration does not wait for it any more, or another environment runs it"
                );
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
        if let Some(activity) = claim.activity.as_ref()
            && !ignore_attempt
            && !self.open.has_failed(token)
        {
            tracing::warn!(
                instance = claim.instance,
                execution = claim.execution,
                activity = claim.number,
                activity_name = activity.name,
                attempt = claim.attempt,
                most_attempts = activity.most_attempts,
                "this function does not register the activity; it is released, so that another build may run it"
            );
        }
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
        let activity = claim.activity.as_ref().ok_or_else(|| not_open(OPERATION))?;
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
                () = sleep_until(activity.stop_at) => {
                    self.open.stop(token, activity.stop);
                    return Err(ProviderError::permanent(OPERATION, "the activity takes longer than it may"));
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

    /// What is known of the activity that was claimed; `None` if it is none.
    fn claim(&self, work: &ClaimedWork, budget: Budget, since: Instant) -> Option<(Claim, ActivityClaim)> {
        let WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            name,
            session_id,
            tag,
            ..
        } = &work.item
        else {
            return None;
        };
        let limit = self.limits.activities.of(name);
        let budget_end = budget.end_less(self.stop_reserve());
        let limited = limit.time.map(|time| (Instant::now() + time, time));
        let (stop_at, stop, allowed) = match limited.filter(|(end, _)| *end < budget_end) {
            Some((end, time)) => (end, Stop::TimeLimit, Allowed::Limit(time)),
            None => (budget_end, Stop::BudgetSpent, Allowed::WorkerTimeout(budget.timeout())),
        };
        let shows_item = self.limits.on_activity_given_up == OnActivityGivenUp::FailOrchestration;
        let activity = ActivityClaim {
            name: name.clone(),
            most_attempts: limit.attempts.unwrap_or(self.limits.max_attempts),
            earlier: work.earlier.clone(),
            began_ms: self.clock.now_ms(),
            stop_at,
            stop,
            allowed,
            poison: shows_item.then(|| serde_json::to_string(&work.item).unwrap_or_default()),
        };
        let claim = Claim {
            instance: instance.clone(),
            execution: *execution_id,
            number: *id,
            attempt: work.attempt,
            more: false,
            affinity_session: session_id.clone(),
            orchestration: work.orchestration.clone(),
            ending: None,
            parent: None,
            activity: Some(activity.clone()),
            kindred: self.kindred(work.blocked.as_ref(), Kindred::Works { tag: tag.clone() }),
            budget,
            since,
        };
        Some((claim, activity))
    }
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
