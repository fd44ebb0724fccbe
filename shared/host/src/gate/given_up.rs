//! Activities that took too long, and those that were tried as often as allowed.
//!
//! An attempt that is stopped for its time is released, to be tried again. After the last one the gate completes the activity
//! itself, with a failure that its orchestration can handle, and the same batch writes the dead letter. `reason` has the text.

use super::open::{ActivityClaim, Claim, Stop};
use super::reason::{Allowed, reason};
use super::step::Outcome;
use super::work::RELEASE_DELAY;
use super::{Gate, not_open};
use duroxide::providers::{ProviderError, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails, PoisonMessageType};
use duroxide_cosmos::{Attempt, AttemptEnd, GivenUpWork};

impl Gate {
    /// The activity took longer than it may: it is released, or given up if that was its last attempt.
    pub(super) async fn stop_late_work(&self, token: &str, claim: &Claim) -> Result<(), ProviderError> {
        let activity = claim.activity.as_ref().ok_or_else(|| not_open("ack_work_item"))?;
        tracing::warn!(
            instance = claim.instance,
            execution = claim.execution,
            activity = claim.number,
            activity_name = activity.name,
            attempt = claim.attempt,
            most_attempts = activity.most_attempts,
            limit_ms = match activity.allowed {
                Allowed::Limit(limit) => limit,
                Allowed::WorkerTimeout(_) => activity.stop_at.duration_since(claim.since),
            }
            .as_millis() as u64,
            by = match activity.stop {
                Stop::TimeLimit => "the activity's time limit",
                _ => "the function's timeout less its reserves",
            },
            "an activity timed out"
        );
        if claim.attempt >= activity.most_attempts {
            let given_up = self.give_up(token, claim, activity, Some(AttemptEnd::TimedOut)).await;
            if given_up.is_ok() || claim.budget.is_spent() {
                return given_up;
            }
            // It is released instead, and the next attempt is not begun but given up.
        }
        let release = self.store.release_timed_out_work(token, RELEASE_DELAY);
        let done = Self::within(claim.budget, "ack_work_item", release).await;
        let outcome = match &done {
            Ok(()) => Outcome::TimedOut,
            Err(error) => Outcome::Failed {
                error: format!("the activity took too long and was not released: {error}"),
            },
        };
        self.open.close(token, outcome);
        done
    }

    /// Completes an activity that was tried as often as allowed with a failure that says why. `last` is how the attempt of this
    /// claim ended, if it was begun.
    pub(super) async fn give_up(
        &self,
        token: &str,
        claim: &Claim,
        activity: &ActivityClaim,
        last: Option<AttemptEnd>,
    ) -> Result<(), ProviderError> {
        let mut attempts = activity.earlier.clone();
        attempts.extend(last.map(|end| Attempt {
            number: claim.attempt,
            began: activity.began_ms,
            ended: self.clock.now_ms(),
            end,
        }));
        let tried = claim.attempt - u32::from(last.is_none());
        let reason = reason(&activity.name, tried, &attempts, activity.allowed);
        self.fail_work(token, claim, activity, (reason, tried, last)).await
    }

    /// Completes an activity with a failure that says why it is given up, after so many attempts. The end is that of the attempt
    /// of this claim, if it was begun.
    pub(super) async fn fail_work(
        &self,
        token: &str,
        claim: &Claim,
        activity: &ActivityClaim,
        (reason, tried, last): (String, u32, Option<AttemptEnd>),
    ) -> Result<(), ProviderError> {
        tracing::warn!(
            instance = claim.instance,
            execution = claim.execution,
            activity = claim.number,
            activity_name = activity.name,
            reason,
            "an activity is given up"
        );
        let failure = WorkItem::ActivityFailed {
            instance: claim.instance.clone(),
            execution_id: claim.execution,
            id: claim.number,
            details: failure_of(claim, activity, &reason),
        };
        let given_up = GivenUpWork {
            name: activity.name.clone(),
            reason,
            attempts: tried,
            end: last,
        };
        let commit = self.store.give_up_work(token, failure, given_up);
        self.commit_work(token, claim, commit, true).await
    }
}

/// The failure of an activity that is given up, for its orchestration.
fn failure_of(claim: &Claim, activity: &ActivityClaim, reason: &str) -> ErrorDetails {
    match &activity.poison {
        None => ErrorDetails::Application {
            kind: AppErrorKind::ActivityFailed,
            message: reason.to_owned(),
            retryable: false,
        },
        Some(item) => ErrorDetails::Poison {
            attempt_count: claim.attempt,
            max_attempts: activity.most_attempts,
            message_type: PoisonMessageType::Activity {
                instance: claim.instance.clone(),
                execution_id: claim.execution,
                activity_name: activity.name.clone(),
                activity_id: claim.number,
            },
            message: item.clone(),
        },
    }
}
