//! One turn through the gate.

use super::block;
use super::ending;
use super::open::{Claim, Ending};
use super::others::Kindred;
use super::request::StepRequest;
use super::step::{Ended, Outcome, Step};
use super::{Gate, TurnTarget, not_open};
use crate::budget::Budget;
use crate::notifier::Delayed;
use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem, Provider as _, ProviderError};
use duroxide::{ErrorDetails, Event, EventKind, PoisonMessageType};
use duroxide_cosmos::{Block, BlockCause, Blocked, Due, Fetched, GivenUpTurn, TurnDecision, TurnItem};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many unfinished commits one fetch completes: each is rare, and a second one can only be newer.
const ROLL_FORWARDS: u32 = 3;

impl Gate {
    /// Waits for a request whose turn can be claimed.
    pub(super) async fn next_turn(
        &self,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> (OrchestrationItem, String, u32) {
        self.open.close_abandoned();
        loop {
            let request = self.turns.next().await;
            if !request.budget.fits(self.turn_reserve()) {
                request.answer(Outcome::Deferred);
                continue;
            }
            let since = Instant::now();
            let (fetched, due) = self.fetch_rolled(&request, lock_timeout, filter).await;
            let request = request.waking(self.wakeups(due));
            match fetched {
                Ok(Fetched::Nothing) => request.answer(Outcome::Nothing),
                Ok(Fetched::Busy { until_ms }) => request.answer(Outcome::Busy { until_ms }),
                Ok(Fetched::Blocked(blocked)) => request.answer(Outcome::Blocked { block: Some(blocked) }),
                Ok(Fetched::StillBlocked { .. }) => request.answer(Outcome::Blocked { block: None }),
                Ok(Fetched::Paused { .. }) => request.answer(Outcome::Paused),
                Ok(Fetched::GivenUp(turn)) => request.done(self.given_up(turn)),
                // Others left more unfinished than one fetch completes.
                Ok(Fetched::RolledForward { .. }) => request.answer(Outcome::Busy { until_ms: 0 }),
                Ok(Fetched::Foreign { why }) => request.fail(why),
                Err(error) => request.fail(error.to_string()),
                Ok(Fetched::Ready(turn)) => {
                    let (_, budget, answer) = request.split();
                    let claim = Claim {
                        instance: turn.item.instance.clone(),
                        execution: turn.item.execution_id,
                        number: turn.turn,
                        attempt: turn.attempt,
                        more: turn.more,
                        affinity_session: None,
                        orchestration: None,
                        ending: self.ending_of(&turn),
                        parent: ending::parent_of(&turn.item),
                        activity: None,
                        kindred: self.kindred(turn.blocked.as_ref(), Kindred::Turns),
                        budget,
                        since,
                    };
                    let ends = claim.ending.is_some();
                    self.open.open(&turn.lock_token, claim, answer);
                    let Some(block) = self.block_before(&turn, ends) else {
                        return (turn.item, turn.lock_token, turn.attempt);
                    };
                    self.block_turn(&turn.lock_token, &block).await;
                }
            }
        }
    }

    /// Fetches, again after each commit that the fetch had to complete in another's place. Also returns whom that made due.
    async fn fetch_rolled(
        &self,
        request: &StepRequest<TurnTarget>,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> (Result<Fetched<TurnItem>, ProviderError>, Vec<Due>) {
        let mut all = Vec::new();
        for _ in 0..ROLL_FORWARDS {
            let fetch = self.fetch_turn(&request.target, lock_timeout, filter);
            match Self::within(request.budget, "fetch_turn", fetch).await {
                Ok(Fetched::RolledForward { due }) => all.extend(due),
                fetched => return (fetched, all),
            }
        }
        (Ok(Fetched::RolledForward { due: Vec::new() }), all)
    }

    async fn fetch_turn(
        &self,
        turn: &TurnTarget,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Fetched<TurnItem>, ProviderError> {
        let (store, instance) = (&self.store, turn.instance.as_str());
        match turn.claims {
            true => store.fetch_turn(instance, lock_timeout, filter).await,
            false => store.begin_turn(instance, turn.execution, lock_timeout, filter).await,
        }
    }

    /// The step of a turn that its fetch has given up and committed.
    fn given_up(&self, turn: GivenUpTurn) -> Step {
        Step {
            execution: Some(turn.execution),
            attempt: Some(turn.attempt),
            ended: Some(Ended::Failed { error: turn.error }),
            given_up: true,
            more: turn.more,
            wakeups: self.wakeups(turn.due),
            ..Step::not_begun(Outcome::Committed)
        }
    }

    /// What ends the instance if the turn is blocked: a message cancels it, or nobody has registered it for long. Of an instance that
    /// has ended, it is what consumes its messages.
    fn ending_of(&self, turn: &TurnItem) -> Option<Ending> {
        if turn.is_over {
            let nothing = ending::consumed(&turn.item);
            return nothing.map(|nothing| Ending::Decided(Arc::new(nothing)));
        }
        let blocked = turn.blocked.as_ref().filter(|blocked| self.is_kept_too_long(blocked));
        let given_up = blocked
            .and_then(|blocked| ending::given_up(&turn.item, &format!("{}; {}", blocked.reason, self.kept_for())));
        let decided = ending::cancelled(&turn.item).or(given_up).map(Arc::new);
        let unread = || ending::cancelled_unread(&turn.item).map(Ending::Unread);
        decided.map(Ending::Decided).or_else(unread)
    }

    /// How long nobody has registered what is given up.
    pub(super) fn kept_for(&self) -> String {
        format!("nobody did within {} days", self.limits.unknown_kept.as_secs() / 86_400)
    }

    /// Whether nobody has registered it for so long that it is given up.
    pub(super) fn is_kept_too_long(&self, blocked: &Blocked) -> bool {
        let kept = self.limits.unknown_kept.as_millis() as u64;
        blocked.cause == BlockCause::UnknownName && self.clock.now_ms() >= blocked.since.saturating_add(kept)
    }

    /// Why this build does not run the turn. That of a paused instance is there to end it: none of its code is run.
    fn block_before(&self, turn: &TurnItem, ends: bool) -> Option<Block> {
        if turn.is_paused && ends {
            return Some(Block {
                cause: BlockCause::History,
                reason: "it is paused and was cancelled, and its history cannot be read".to_owned(),
            });
        }
        let blocked_here = turn
            .blocked
            .as_ref()
            .is_some_and(|blocked| self.store.is_this_build(&blocked.build));
        block::before(turn, &self.registered.orchestrations, &self.limits, blocked_here)
    }

    /// Blocks the instance of an open step, or ends it where that is asked for or due, and ends the step.
    async fn block_turn(&self, token: &str, block: &Block) {
        const OPERATION: &str = "block_turn";
        let Some(claim) = self.open.claim(token) else { return };
        let done = async {
            if let Some(ending) = self.ending(token, &claim, block).await? {
                // Its commit ends the step.
                self.write_turn(token, ending).await?;
                return Ok(None);
            }
            let blocked = self.store.block_turn(token, block);
            let blocked = Self::within(claim.budget, OPERATION, blocked).await?;
            Ok(Some(match blocked {
                Some(blocked) => Outcome::Blocked { block: Some(blocked) },
                None => Outcome::Raced,
            }))
        };
        let done: Result<Option<Outcome>, ProviderError> = done.await;
        let failed = |error: ProviderError| {
            let error = error.to_string();
            Some(Outcome::Failed { error })
        };
        if let Some(outcome) = done.unwrap_or_else(failed) {
            self.open.close(token, outcome);
        }
    }

    /// What ends the instance, if that is to be committed in place of this block.
    async fn ending(&self, token: &str, claim: &Claim, block: &Block) -> Result<Option<TurnDecision>, ProviderError> {
        match &claim.ending {
            Some(Ending::Decided(ending)) => {
                let is_due = ending.given_up.is_none() || block.cause == BlockCause::UnknownName;
                Ok(is_due.then(|| TurnDecision::clone(ending)))
            }
            Some(Ending::Unread(reason)) => {
                let decided = self.store.cancellation_of(token, reason);
                Self::within(claim.budget, "cancellation_of", decided).await
            }
            None => Ok(None),
        }
    }

    /// The runtime wants to commit a turn.
    pub(super) async fn commit_turn(&self, token: &str, decision: TurnDecision) -> Result<(), ProviderError> {
        match block::after(&decision, &self.limits) {
            Some(block) => {
                self.block_turn(token, &block).await;
                // On an error the runtime would commit a failure of the orchestration.
                Ok(())
            }
            None => self.write_turn(token, decision).await,
        }
    }

    async fn write_turn(&self, token: &str, mut decision: TurnDecision) -> Result<(), ProviderError> {
        const OPERATION: &str = "ack_orchestration_item";
        let claim = self.open.claim(token).ok_or_else(|| not_open(OPERATION))?;
        if self.open.has_failed(token) {
            // The store refused the turn, and the runtime commits a failure in its place, without a word to the parent.
            ending::tell_parent(&mut decision, claim.parent.as_ref());
        }
        let ended = ended(&decision);
        let given_up = decision.given_up.is_some() || decision.events.iter().any(is_poison);
        let execution = decision.execution;
        let commit = self.store.commit_turn(token, decision);
        let done = Self::committed(claim.budget, OPERATION, commit.done, &commit.decided).await;
        if commit.decided.is_raced() {
            self.open.close(token, Outcome::Raced);
            return Ok(());
        }
        let mut wakeups = self.wakeups(commit.decided.with_versions(commit.due));
        match &done {
            Ok(()) => {
                // Any build can end an instance that it cannot run.
                if !given_up && !matches!(ended, Some(Ended::Cancelled { .. })) {
                    wakeups.extend(self.wakeups_of_others(&claim).await);
                }
                self.open.close_with(token, Outcome::Committed, |step| {
                    step.execution = Some(execution);
                    step.ended = ended;
                    step.given_up = given_up;
                    step.wakeups.extend(wakeups);
                });
            }
            Err(error) => self.commit_failed(token, claim.budget, error, wakeups),
        }
        done
    }

    /// A commit was tried, of a turn or an activity, and the runtime gets an error for it.
    pub(super) fn commit_failed(&self, token: &str, budget: Budget, error: &ProviderError, wakeups: Vec<Delayed>) {
        let error = error.to_string();
        self.open.note_failed_commit(token, &error, wakeups);
        if budget.is_spent() {
            // The runtime would now commit a failure in its place, with the same lock: a closed step refuses that.
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
        let abandon = self.store.abandon_orchestration_item(token, delay, ignore_attempt);
        let done = Self::within(claim.budget, OPERATION, abandon).await;
        self.open.close(token, released(&done, delay));
        done
    }

    pub(super) async fn renew_turn(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        const OPERATION: &str = "renew_orchestration_item_lock";
        let claim = self.open.claim(token).ok_or_else(|| not_open(OPERATION))?;
        let renew = self.store.renew_orchestration_item_lock(token, extend_for);
        Self::within(claim.budget, OPERATION, renew).await
    }
}

/// The outcome of a release.
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

fn ended(decision: &TurnDecision) -> Option<Ended> {
    let output = || decision.metadata.output.clone().unwrap_or_default();
    match decision.metadata.status.as_deref()? {
        "Completed" => Some(Ended::Completed),
        "Failed" if decision.is_cancelled() => Some(Ended::Cancelled { reason: output() }),
        "Failed" => Some(Ended::Failed { error: output() }),
        "ContinuedAsNew" => Some(Ended::ContinuedAsNew),
        _ => None,
    }
}

/// An orchestration that fails because its activity was given up was not itself given up: the activity was counted.
fn is_poison(event: &Event) -> bool {
    let EventKind::OrchestrationFailed { details } = &event.kind else {
        return false;
    };
    let ErrorDetails::Poison { message_type, .. } = details else {
        return false;
    };
    !matches!(message_type, PoisonMessageType::Activity { .. })
}
