//! One invocation: a batch of rings, served together.
//!
//! Rings for one target are one cycle. Different targets are served at once, as far as there are dispatchers. Each
//! record is answered for by itself: a malformed or failed one does not spoil the others of its batch.

use crate::budget::Budget;
use crate::doorbell::Delayed;
use crate::environment::{Environment, Role};
use crate::event::{BatchResponse, SqsEvent, SqsRecord};
use crate::gate::{Cycle, Ended, Outcome};
use crate::meter;
use crate::ring::{Ring, Target};
use crate::verdict::{Verdict, verdict};
use futures::future::join_all;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How far ringing may reach into the margin between the budget's end and the deadline.
const LAST_RINGS: Duration = Duration::from_millis(150);

/// The records of one batch that ring for the same target.
#[derive(Debug)]
struct Group {
    target: Target,
    rings: Vec<Ring>,
    messages: Vec<String>,
}

impl Environment {
    /// Serves a batch within the budget, and answers which records must come again.
    pub async fn serve(&self, event: SqsEvent, budget: Budget) -> BatchResponse {
        let mut failed = Vec::new();
        let groups = self.grouped(event.records, &mut failed);
        let served = groups.into_iter().map(|group| self.serve_group(group, budget));
        failed.extend(join_all(served).await.into_iter().flatten());
        BatchResponse::of(failed)
    }

    /// One cycle, and the ids of its records if they must come again.
    async fn serve_group(&self, group: Group, budget: Budget) -> Vec<String> {
        let started = Instant::now();
        let sessions = group.rings.iter().filter_map(|ring| ring.session.as_deref());
        sessions.for_each(|session| self.directed.absorb_session(session));
        let asked_ms = self.clock.now_ms();
        let mut cycle = self.gate.serve(group.target.clone(), budget).await;
        let verdict = verdict(&cycle.outcome, cycle.more, group.tries(), self.clock.now_ms());
        let again = match verdict {
            Verdict::Failed => Vec::new(),
            Verdict::Served => self.early(&group, asked_ms),
            Verdict::Again(delay) => {
                let mut again = self.early(&group, asked_ms);
                again.push(self.again(&group, &cycle.outcome, delay));
                again
            }
        };
        // Those for this record come first: without them it fails.
        let mut rings = again.clone();
        rings.append(&mut cycle.rings);
        let owed = rings.len();
        let not_rung = self.ringer.ring_within(budget.left() + LAST_RINGS, rings).await;
        let lost = not_rung
            .iter()
            .any(|lost| again.iter().any(|delayed| delayed.ring == lost.ring));
        self.tell(&group, &cycle, owed, started.elapsed());
        if lost || verdict == Verdict::Failed {
            group.messages
        } else {
            Vec::new()
        }
    }

    /// The rings that came before their time, for that time.
    fn early(&self, group: &Group, asked_ms: u64) -> Vec<Delayed> {
        let mut dues: Vec<u64> = group.rings.iter().filter_map(|ring| ring.due_ms).collect();
        dues.retain(|due| *due > asked_ms);
        dues.sort_unstable();
        dues.dedup();
        let ring_at = |due: u64| {
            let mut ring = Ring::to(group.target.clone());
            ring.session = self.directed.session_token();
            ring.due_ms = Some(due);
            let delay = Duration::from_millis(due.saturating_sub(self.clock.now_ms()));
            Delayed { ring, delay }
        };
        dues.into_iter().map(ring_at).collect()
    }

    fn again(&self, group: &Group, outcome: &Outcome, delay: Duration) -> Delayed {
        let mut ring = Ring::to(group.target.clone());
        ring.session = self.directed.session_token();
        match outcome {
            Outcome::Busy { .. } | Outcome::Deferred => ring.tries = group.tries().saturating_add(1),
            // What was given back is not due before: a ring that comes early must know it.
            Outcome::Abandoned { .. } | Outcome::TimedOut if !delay.is_zero() => {
                ring.due_ms = Some(self.clock.now_ms().saturating_add(delay.as_millis() as u64));
            }
            _ => {}
        }
        Delayed { ring, delay }
    }

    /// Groups the records by target; those that are no rings for this function have failed.
    fn grouped(&self, records: Vec<SqsRecord>, failed: &mut Vec<String>) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut places: HashMap<Identity, usize> = HashMap::new();
        for record in records {
            let ring = match self.accepted(&record.body) {
                Ok(ring) => ring,
                Err(reason) => {
                    tracing::error!(
                        message_id = record.message_id,
                        bytes = record.body.len(),
                        reason,
                        "a message was refused; it goes to the dead-letter queue"
                    );
                    self.meter.malformed();
                    failed.push(record.message_id);
                    continue;
                }
            };
            let place = *places.entry(Identity::of(&ring.target)).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Group {
                    target: ring.target.clone(),
                    rings: Vec::new(),
                    messages: Vec::new(),
                });
            }
            groups[place].rings.push(ring);
            groups[place].messages.push(record.message_id);
        }
        groups
    }

    fn accepted(&self, body: &str) -> Result<Ring, String> {
        let ring = Ring::decode(body).map_err(|error| error.to_string())?;
        match (self.role, &ring.target) {
            (Role::Orchestrator, Target::Turn { .. }) | (Role::Worker, Target::Work(_)) => Ok(ring),
            (Role::Orchestrator, Target::Work(_)) => Err(misrouted("work", "orchestrator")),
            (Role::Worker, Target::Turn { .. }) => Err(misrouted("turn", "worker")),
        }
    }

    /// One line of log and the counts of one cycle.
    fn tell(&self, group: &Group, cycle: &Cycle, rings: usize, duration: Duration) {
        let kind = match self.role {
            Role::Orchestrator => meter::Kind::Turn,
            Role::Worker => meter::Kind::Activity,
        };
        self.meter.cycle(kind, cycle.outcome.name());
        let instance = group.target.instance();
        let (execution, attempt) = (cycle.execution, cycle.attempt);
        let (turn, activity) = match self.role {
            Role::Orchestrator => (cycle.step, None),
            Role::Worker => (None, cycle.step),
        };
        let outcome = cycle.outcome.name();
        let duration_ms = duration.as_millis() as u64;
        if cycle.outcome == Outcome::Deferred {
            tracing::warn!(
                instance,
                tries = group.tries(),
                "too little time was left to begin: give the function a timeout well above its reserves \
                 (DUROXIDE_TURN_RESERVE_MS, DUROXIDE_CANCEL_GRACE_MS, DUROXIDE_COMMIT_RESERVE_MS)"
            );
        }
        if let Outcome::Failed { error } = &cycle.outcome {
            tracing::error!(
                instance,
                execution,
                turn,
                activity,
                attempt,
                outcome,
                error,
                duration_ms,
                "a cycle failed"
            );
        } else {
            tracing::info!(
                instance,
                execution,
                turn,
                activity,
                attempt,
                outcome,
                records = group.messages.len(),
                rings,
                duration_ms,
                "a cycle ended"
            );
        }
        if let Some(Ended::Failed { error }) = &cycle.ended {
            self.meter.orchestration_failed();
            tracing::error!(instance, execution, turn, error, "an orchestration failed");
        }
        if cycle.poisoned {
            self.meter.poisoned();
            tracing::error!(
                instance,
                execution,
                turn,
                activity,
                attempt,
                "tried too often, and given up"
            );
        }
    }
}

impl Group {
    fn tries(&self) -> u32 {
        self.rings.iter().map(|ring| ring.tries).min().unwrap_or(0)
    }
}

/// What makes two rings the same errand: their hints may differ.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    instance: String,
    activity: Option<(u64, u64)>,
}

impl Identity {
    fn of(target: &Target) -> Identity {
        Identity {
            instance: target.instance().to_owned(),
            activity: match target {
                Target::Turn { .. } => None,
                Target::Work(work) => Some((work.execution, work.activity)),
            },
        }
    }
}

fn misrouted(kind: &str, role: &str) -> String {
    format!("a {kind} ring came to the {role} function: check the queues of the event source mappings")
}
