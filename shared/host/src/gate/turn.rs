//! One turn through the gate.

use super::cycle::{Ended, Outcome};
use super::open::Claim;
use super::{Gate, not_open};
use crate::budget::Budget;
use crate::notifier::Delayed;
use crate::plan::{Orchestration, Planner};
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, ProviderError, ScheduledActivityIdentifier,
    WorkItem,
};
use duroxide::{ErrorDetails, Event, EventKind, PoisonMessageType};
use duroxide_cosmos::Fetched;
use std::time::Duration;
use tokio::time::Instant;

/// What the runtime commits.
pub(super) struct TurnResult {
    pub execution: u64,
    pub events: Vec<Event>,
    pub work: Vec<WorkItem>,
    pub messages: Vec<WorkItem>,
    pub metadata: ExecutionMetadata,
    pub cancelled: Vec<ScheduledActivityIdentifier>,
}

impl Gate {
    /// Waits for a ticket whose turn can be claimed.
    pub(super) async fn next_turn(
        &self,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> (OrchestrationItem, String, u32) {
        self.open.leave_seat();
        loop {
            let ticket = self.turns.next().await;
            if !ticket.budget.fits(self.limits.turn_reserve) {
                ticket.answer(Outcome::Deferred);
                continue;
            }
            let asked = Instant::now();
            let fetch = self.directed.fetch_turn(&ticket.target, lock_timeout, filter);
            match Self::within(ticket.budget, "fetch_turn", fetch).await {
                Ok(Fetched::Nothing) => ticket.answer(Outcome::Nothing),
                Ok(Fetched::Busy { until_ms }) => ticket.answer(Outcome::Busy { until_ms }),
                Ok(Fetched::Foreign { why }) => ticket.fail(why),
                Err(error) => ticket.fail(error.to_string()),
                Ok(Fetched::Ready(turn)) => {
                    let (_, budget, answer) = ticket.split();
                    let claim = Claim {
                        instance: turn.item.instance.clone(),
                        execution: turn.item.execution_id,
                        step: turn.turn,
                        attempt: turn.attempt,
                        more: turn.more,
                        session: None,
                        of: started(&turn.item.history),
                        budget,
                        since: asked,
                    };
                    self.open.open(&turn.lock_token, claim, answer);
                    return (turn.item, turn.lock_token, turn.attempt);
                }
            }
        }
    }

    pub(super) async fn commit_turn(&self, token: &str, result: TurnResult) -> Result<(), ProviderError> {
        const OPERATION: &str = "ack_orchestration_item";
        let claim = self.open.claim(token).ok_or_else(|| not_open(OPERATION))?;
        let of = started(&result.events).or(claim.of);
        let mut planner = Planner::new(self.clock.now_ms(), self.limits.wakeup_reach);
        result.messages.iter().for_each(|item| planner.message(item, None));
        result.work.iter().for_each(|item| planner.work(item, of.as_ref()));
        let ended = ended(&result.metadata);
        let poisoned = result.events.iter().any(is_poison);
        let execution = result.execution;
        let commit = self.inner.ack_orchestration_item(
            token,
            result.execution,
            result.events,
            result.work,
            result.messages,
            result.metadata,
            result.cancelled,
        );
        let done = Self::within(claim.budget, OPERATION, commit).await;
        let wakeups = planner.finish(self.clock.now_ms(), self.directed.consistency_token());
        match &done {
            Ok(()) => self.open.close_with(token, Outcome::Committed, |cycle| {
                cycle.execution = Some(execution);
                cycle.ended = ended;
                cycle.poisoned = poisoned;
                cycle.wakeups = wakeups;
            }),
            Err(error) => self.commit_failed(token, claim.budget, error, wakeups),
        }
        done
    }

    /// A commit was tried, of a turn or an activity, and the runtime is told that it failed.
    pub(super) fn commit_failed(&self, token: &str, budget: Budget, error: &ProviderError, owed: Vec<Delayed>) {
        let error = error.to_string();
        self.open.note(token, &error, owed);
        if budget.is_spent() {
            // The runtime would now commit a failure in its place, with the same lock: a closed cycle refuses that.
            self.open.close(token, Outcome::Failed { error });
        }
    }

    pub(super) async fn abandon_turn(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "abandon_orchestration_item";
        let claim = self.open.claim(token).ok_or_else(|| not_open(OPERATION))?;
        let abandon = self.inner.abandon_orchestration_item(token, delay, ignore_attempt);
        let done = Self::within(claim.budget, OPERATION, abandon).await;
        self.open.close(token, released(&done, delay));
        done
    }

    pub(super) async fn renew_turn(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        const OPERATION: &str = "renew_orchestration_item_lock";
        let claim = self.open.claim(token).ok_or_else(|| not_open(OPERATION))?;
        let renew = self.inner.renew_orchestration_item_lock(token, extend_for);
        Self::within(claim.budget, OPERATION, renew).await
    }
}

/// The outcome of giving something back.
pub(super) fn released(done: &Result<(), ProviderError>, delay: Option<Duration>) -> Outcome {
    match done {
        Ok(()) => Outcome::Abandoned {
            delay: delay.unwrap_or_default(),
        },
        Err(error) => Outcome::Failed {
            error: error.to_string(),
        },
    }
}

/// The orchestration whose start these events tell of.
fn started(events: &[Event]) -> Option<Orchestration> {
    events.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted { name, version, .. } => Some(Orchestration {
            name: name.clone(),
            version: version.clone(),
        }),
        _ => None,
    })
}

fn ended(metadata: &ExecutionMetadata) -> Option<Ended> {
    match metadata.status.as_deref()? {
        "Completed" => Some(Ended::Completed),
        "Failed" => Some(Ended::Failed {
            error: metadata.output.clone().unwrap_or_default(),
        }),
        "ContinuedAsNew" => Some(Ended::ContinuedAsNew),
        _ => None,
    }
}

/// An orchestration that fails by its activity's poison is not poison itself: that was counted with the activity.
fn is_poison(event: &Event) -> bool {
    let EventKind::OrchestrationFailed { details } = &event.kind else {
        return false;
    };
    let ErrorDetails::Poison { message_type, .. } = details else {
        return false;
    };
    !matches!(message_type, PoisonMessageType::Activity { .. })
}
