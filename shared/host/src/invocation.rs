//! One invocation: a batch of wakeups, served together.
//!
//! Wakeups for one target lead to one step, and to one more for each moment within the next second at which more of it is due
//! (`waiting`). Different targets are served at once, as far as there are dispatchers. Each
//! record is answered by itself: a malformed or failed one does not fail the others of its batch.
//!
//! Wakeups of the steps for one turn are one message where they come at the same moment (`notifier/coalesce.rs`). A probe of
//! maintenance (`maintenance/queues.rs`) is noted beside the steps, and never delays or fails one.
//!
//! Each step is a span with the fields of its target and, at its end, of what was claimed, so that every log line of
//! the step can be found by instance.

mod batch;
mod in_time;

use crate::budget::Budget;
use crate::disposition::{Disposition, disposition};
use crate::environment::{Environment, Role};
use crate::event::{BatchResponse, SqsEvent, SqsRecord};
use crate::gate::{Ended, Outcome, Step, StepTarget, TurnTarget};
use crate::metrics::Metric;
use crate::notifier::{Coalescer, Delayed, UnderWay};
use crate::wakeup::{Probe, Wakeup, recent_consistency_token};
use duroxide_cosmos::{BlockCause, Target};
use futures::future::{BoxFuture, join_all};
use futures::join;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument as _;
use tracing::field::Empty;

/// How much of the margin between the budget's end and the deadline may be used to send wakeups.
const LAST_WAKEUPS: Duration = Duration::from_millis(150);

/// A probe is noted so much later even if steps are still under way: an activity may take minutes.
const NOTE_AFTER: Duration = Duration::from_secs(10);

/// How long noting a probe may take.
const NOTE_TIME: Duration = Duration::from_secs(2);

/// So many wakeups for one turn in a batch are a rush.
const RUSH: usize = 3;

/// The records of one batch with the same target.
#[derive(Debug)]
struct Group {
    target: Target,
    wakeups: Vec<Wakeup>,
    messages: Vec<String>,
    /// A record of it was delivered before.
    is_redelivered: bool,
    /// How long it has waited for its due time.
    waited: Duration,
}

/// What became of the records of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// They are served, as far as they were due.
    Served,
    /// They are served, and nothing of their target is due later.
    Ended,
    /// They must come again.
    Failed,
}

impl Environment {
    /// Serves a batch within the budget, and answers which records must come again.
    pub async fn serve(&self, event: SqsEvent, budget: Budget) -> BatchResponse {
        self.served.begin(budget.timeout());
        if self.role == Role::Worker {
            self.gate.warn_of_long_limits(budget);
        }
        let mut failed = Vec::new();
        let groups = self.grouped(event.records, &mut failed);
        let probes = probes_of(&groups);
        let (wait, wakeups) = (self.waits.invocation(), Coalescer::new(self.notifier.clone()));
        // All of them are entered before the first is served.
        let entered: Vec<(Group, UnderWay)> = groups.into_iter().map(|group| (group, wakeups.enter())).collect();
        let served = entered
            .into_iter()
            .map(|(group, under_way)| self.serve_group(group, under_way, &wait, budget));
        let (ended, steps) = oneshot::channel::<()>();
        let served = async {
            let served = join_all(served).await;
            drop(ended);
            served
        };
        let (served, ()) = join!(served, self.note(probes, steps, budget));
        failed.extend(served.into_iter().flatten());
        BatchResponse::of(failed)
    }

    async fn take_step(&self, group: &Group, under_way: UnderWay, budget: Budget) -> Taken {
        let span = tracing::info_span!(
            "step",
            instance = group.target.instance(),
            activity = group.target.activity(),
            activity_name = group.target.activity_name(),
            turn = Empty,
            execution = Empty,
            attempt = Empty,
        );
        self.step(group, under_way, budget).instrument(span).await
    }

    async fn step(&self, group: &Group, under_way: UnderWay, budget: Budget) -> Taken {
        let started = Instant::now();
        let tokens = group
            .wakeups
            .iter()
            .filter_map(|wakeup| wakeup.consistency_token.as_deref());
        tokens.for_each(|token| self.store.absorb_consistency_token(token));
        for wakeup in group.wakeups.iter().filter(|wakeup| !wakeup.late.is_empty()) {
            self.store.absorb_late_usage(wakeup.target.instance(), &wakeup.late);
        }
        let mut step = self.serve_step(group, group.step(), budget).await;
        if step.outcome == Outcome::Raced {
            self.metrics.count(Metric::Raced, 1);
            // The winner may have read before this group's message came. Who claims cannot lose again.
            let raced = std::mem::replace(&mut step, self.serve_step(group, group.claiming(), budget).await);
            step.wakeups.extend(raced.wakeups);
        }
        let disposition = group.disposition(&step, self.clock.now_ms());
        let again = match disposition {
            Disposition::Served | Disposition::Failed => None,
            Disposition::Again(delay) => Some(self.again(group, &step.outcome, delay)),
        };
        // That for this record comes first: without it the record fails.
        let mut wakeups = Vec::from_iter(again.clone());
        wakeups.append(&mut step.wakeups);
        let sent = wakeups.len();
        let not_sent = under_way.notify(budget.left() + LAST_WAKEUPS, wakeups).await;
        let lost = not_sent
            .iter()
            .any(|lost| again.iter().any(|delayed| delayed.wakeup == lost.wakeup));
        self.report(group, &step, sent, started.elapsed());
        if lost || disposition == Disposition::Failed {
            return Taken::Failed;
        }
        // Nothing of an activity that was committed is due later.
        match step.outcome == Outcome::Committed && group.target.activity().is_some() {
            true => Taken::Ended,
            false => Taken::Served,
        }
    }

    /// A step of an instance goes through the gate. That of a batch needs no runtime.
    async fn serve_step(&self, group: &Group, step: Option<StepTarget>, budget: Budget) -> Step {
        match (step, &group.target) {
            (Some(step), _) => self.gate.serve(step, budget).await,
            (None, target) => {
                let step: BoxFuture<'_, Step> = Box::pin(self.batch_step(target, &group.wakeups, budget));
                step.await
            }
        }
    }

    /// Notes for maintenance which probes came through their queue: when the steps of this batch have ended, because those of
    /// the batches before it have probably begun by then. One that cannot be noted counts as lost: the next run sends another.
    async fn note(&self, probes: BTreeSet<Probe>, steps: oneshot::Receiver<()>, budget: Budget) {
        if probes.is_empty() {
            return;
        }
        // Neither the end of the steps nor that of the time is an error.
        drop(tokio::time::timeout(NOTE_AFTER.min(budget.left() / 2), steps).await);
        let limit = NOTE_TIME.min(budget.left());
        let noted = probes.into_iter().map(|Probe { queue, sent_ms }| async move {
            let note = self.store.note_probe(&queue, sent_ms);
            let error = match tokio::time::timeout(limit, note).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the store did not answer in time".to_owned(),
            };
            tracing::warn!(
                queue,
                error,
                "a probe of maintenance could not be noted; the next run sends another"
            );
        });
        join_all(noted).await;
    }

    fn again(&self, group: &Group, outcome: &Outcome, delay: Duration) -> Delayed {
        let target = match outcome {
            // Nothing was written.
            Outcome::Deferred => group.target.clone(),
            _ => group.target.without_version(),
        };
        let mut wakeup = Wakeup::to(target);
        wakeup.consistency_token = recent_consistency_token(&self.store);
        match outcome {
            Outcome::Busy { .. } | Outcome::Deferred => wakeup.tries = group.tries().saturating_add(1),
            // What was released is not due before: a wakeup that comes early must know it.
            Outcome::Blocked { .. } | Outcome::Abandoned { .. } | Outcome::TimedOut if !delay.is_zero() => {
                wakeup.due_ms = Some(self.clock.now_ms().saturating_add(delay.as_millis() as u64));
            }
            _ => {}
        }
        Delayed { wakeup, delay }.with_late_usage(&self.store)
    }

    /// Groups the records by target. Those that are no wakeups for this function have failed.
    fn grouped(&self, records: Vec<SqsRecord>, failed: &mut Vec<String>) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut places: HashMap<Identity, usize> = HashMap::new();
        for record in records {
            let wakeup = match self.accepted(&record.body) {
                Ok(wakeup) => wakeup,
                Err(reason) => {
                    tracing::error!(
                        message_id = record.message_id,
                        bytes = record.body.len(),
                        reason,
                        "a message was refused; it goes to the dead-letter queue"
                    );
                    self.metrics.count(Metric::MalformedWakeups, 1);
                    failed.push(record.message_id);
                    continue;
                }
            };
            let place = *places.entry(Identity::of(&wakeup.target)).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Group {
                    target: wakeup.target.clone(),
                    wakeups: Vec::new(),
                    messages: Vec::new(),
                    is_redelivered: false,
                    waited: Duration::ZERO,
                });
            }
            groups[place].is_redelivered |= record.is_redelivered();
            // A wakeup that was sent later knows that the work item was written since.
            if groups[place].target != wakeup.target {
                groups[place].target = groups[place].target.without_version();
            }
            groups[place].wakeups.push(wakeup);
            groups[place].messages.push(record.message_id);
        }
        groups
    }

    fn accepted(&self, body: &str) -> Result<Wakeup, String> {
        let wakeup = Wakeup::decode(body).map_err(|error| error.to_string())?;
        match (self.role, &wakeup.target) {
            (Role::Orchestrator, Target::Turn { .. } | Target::Batch { .. }) | (Role::Worker, Target::Work(_)) => {
                Ok(wakeup)
            }
            (Role::Orchestrator, Target::Work(_)) => Err(misrouted("work", "orchestrator")),
            (Role::Worker, Target::Turn { .. }) => Err(misrouted("turn", "worker")),
            (Role::Worker, Target::Batch { .. }) => Err(misrouted("batch", "worker")),
        }
    }

    /// One log line and the counts of one step.
    fn report(&self, group: &Group, step: &Step, wakeups: usize, duration: Duration) {
        let span = tracing::Span::current();
        span.record("execution", step.execution);
        span.record("attempt", step.attempt);
        let steps = match (self.role, &group.target) {
            (_, Target::Batch { .. }) => Metric::BatchSteps,
            (Role::Orchestrator, _) => {
                span.record("turn", step.number);
                Metric::Turns
            }
            (Role::Worker, _) => Metric::Activities,
        };
        self.metrics.count(steps, 1);
        self.metrics.count(step.outcome.metric(), 1);
        let outcome = step.outcome.name();
        let duration_ms = duration.as_millis() as u64;
        if step.outcome == Outcome::Deferred {
            tracing::warn!(
                tries = group.tries(),
                "too little time was left to begin: give the function a timeout well above its reserves \
                 (DUROXIDE_TURN_RESERVE_MS, DUROXIDE_CANCEL_GRACE_MS, DUROXIDE_COMMIT_RESERVE_MS)"
            );
        }
        if let Outcome::Blocked { block: Some(block) } = &step.outcome {
            self.metrics.count(blocked_by(block.cause), 1);
            tracing::warn!(
                cause = block.cause.name(),
                reason = block.reason,
                build = block.build,
                tries = block.tries,
                "this build cannot go on: nothing was committed, and another build can go on"
            );
        }
        if let Outcome::Failed { error } = &step.outcome {
            tracing::error!(outcome, error, duration_ms, "a step failed");
        } else {
            tracing::info!(
                outcome,
                records = group.messages.len(),
                wakeups,
                waited_ms = group.waited.as_millis() as u64,
                duration_ms,
                "a step ended"
            );
        }
        if let Some(Ended::Failed { error }) = &step.ended {
            self.metrics.count(Metric::OrchestrationsFailed, 1);
            tracing::error!(error, "an orchestration failed");
        }
        if let Some(Ended::Cancelled { reason }) = &step.ended {
            self.metrics.count(Metric::OrchestrationsCancelled, 1);
            tracing::info!(reason, "an orchestration was cancelled");
        }
        if step.given_up {
            self.metrics.count(Metric::GivenUp, 1);
            if self.role == Role::Worker {
                self.metrics.count(Metric::ActivitiesGivenUp, 1);
            }
            tracing::error!("given up: it was tried as often as allowed");
        }
    }
}

fn blocked_by(cause: BlockCause) -> Metric {
    match cause {
        BlockCause::UnknownName => Metric::BlockedUnknownName,
        BlockCause::Nondeterminism => Metric::BlockedNondeterminism,
        BlockCause::Panic => Metric::BlockedPanic,
        BlockCause::Crash => Metric::BlockedCrash,
        BlockCause::History | BlockCause::Unknown => Metric::BlockedHistory,
    }
}

/// The probes of a batch, each once.
fn probes_of(groups: &[Group]) -> BTreeSet<Probe> {
    let wakeups = groups.iter().flat_map(|group| &group.wakeups);
    wakeups.filter_map(|wakeup| wakeup.probe.clone()).collect()
}

impl Group {
    /// The part of it that these wakeups are.
    fn part(&self, wakeups: Vec<Wakeup>) -> Group {
        Group {
            target: self.target.clone(),
            messages: self.messages.clone(),
            wakeups,
            ..*self
        }
    }

    /// The step of an instance that it asks for. A turn that may have ended its process before is claimed and counted. One whose wakeups
    /// come fast is claimed, because other invocations have some of them too: all but one would run it in vain.
    fn step(&self) -> Option<StepTarget> {
        let is_suspicious = |wakeup: &Wakeup| wakeup.tries > 0 || wakeup.overdue;
        let is_rush = self.wakeups.len() >= RUSH;
        self.step_with(is_rush || self.is_redelivered || self.wakeups.iter().any(is_suspicious))
    }

    /// The same step, claimed in any case.
    fn claiming(&self) -> Option<StepTarget> {
        self.step_with(true)
    }

    fn step_with(&self, claims: bool) -> Option<StepTarget> {
        Some(match &self.target {
            Target::Turn { instance } => StepTarget::Turn(TurnTarget {
                instance: instance.clone(),
                execution: self.wakeups.iter().filter_map(|wakeup| wakeup.execution).max(),
                claims,
            }),
            Target::Work(work) => StepTarget::Work(work.clone()),
            Target::Batch { .. } => return None,
        })
    }

    fn disposition(&self, step: &Step, now_ms: u64) -> Disposition {
        // The wakeup of a probe for an item that was held back: whoever is busy with the item has the item's own wakeup.
        let is_extra = |wakeup: &Wakeup| wakeup.probe.is_some() && !wakeup.overdue;
        if matches!(step.outcome, Outcome::Busy { .. }) && self.wakeups.iter().all(is_extra) {
            return Disposition::Served;
        }
        disposition(&step.outcome, step.more, self.tries(), now_ms)
    }

    fn tries(&self) -> u32 {
        self.wakeups.iter().map(|wakeup| wakeup.tries).min().unwrap_or(0)
    }
}

/// What makes two wakeups one step: the rest of them may differ.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    instance: String,
    activity: Option<(u64, u64)>,
    batch: Option<String>,
}

impl Identity {
    fn of(target: &Target) -> Identity {
        let (activity, batch) = match target {
            Target::Turn { .. } => (None, None),
            Target::Work(work) => (Some((work.execution, work.activity)), None),
            Target::Batch { id } => (None, Some(id.clone())),
        };
        Identity {
            instance: target.instance().to_owned(),
            activity,
            batch,
        }
    }
}

fn misrouted(kind: &str, role: &str) -> String {
    format!("a {kind} wakeup came to the {role} function: check the queues of the event source mappings")
}
