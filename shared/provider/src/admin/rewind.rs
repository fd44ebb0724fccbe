//! Rewinding an instance that has failed. `recovery::rewind` has the mechanics and the races, `reopen` the decision.
//!
//! | found | rewind |
//! |---|---|
//! | no instance | not found |
//! | failed, cancelled, given up | rewound |
//! | the same, with a parent that exists | refused, because the parent has its failure: rewind the parent, which rewinds its failed children; or rewind it alone, and its parent is not told of its end |
//! | rewound before by the same call | repeated: nothing changes, whatever it is now |
//! | completed, pending, running, blocked, paused, between two executions | not failed |
//! | being deleted | being deleted |
//! | an unfinished commit, an expired deletion | completed, given up first |

use crate::due::Due;
use crate::error::Failure;
use crate::model::Status;
use crate::recovery::{self, Cut, Done, Loaded, Order, Refused, child_of, clean_fence};
use crate::store::Store;
use cosmos::PartitionKey;
use duroxide::{Event, EventKind};
use std::collections::HashMap;

/// What an operator asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct RewindRequest<'a> {
    /// The instance.
    pub instance: &'a str,
    /// Rewind to before this event, instead of to before the failure.
    pub before: Option<u64>,
    /// Run activities again whose results were obtained after that event, instead of using these results when the code schedules
    /// the same activities again.
    pub discard_results: bool,
    /// Rewind a child without its parent.
    pub alone: bool,
    /// Why. It is kept with what was undone.
    pub reason: Option<&'a str>,
    /// Recognises a repetition: of characters that a document id may have, at most 100.
    pub call: Option<&'a str>,
    /// Only say what would happen.
    pub dry_run: bool,
}

/// What became of a request to rewind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewindOutcome {
    /// It was rewound, and goes on.
    Rewound,
    /// It was rewound before by the same call.
    Repeated,
    /// It would be rewound: this was a dry run.
    Planned,
    /// There is no such instance.
    NotFound,
    /// It has not failed.
    NotFailed,
    /// It is being deleted.
    Deleting,
    /// Its parent, which this names, has its failure.
    HasParent(String),
    /// Children that exist were started after that event.
    StartedChildren(Vec<String>),
    /// It cannot be rewound: why.
    Impossible(String),
}

/// What a step of a plan is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "duroxide's own words")]
pub enum StepKind {
    Activity,
    Timer,
    Child,
    Event,
    Queue,
}

impl StepKind {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            StepKind::Activity => "activity",
            StepKind::Timer => "timer",
            StepKind::Child => "child",
            StepKind::Event => "event",
            StepKind::Queue => "queue",
        }
    }
}

/// Something that a rewind or a fork keeps, does again or loses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    /// What it is.
    pub kind: StepKind,
    /// The event of the history: the one that scheduled it, or that delivered it.
    pub event: u64,
    /// The name of the activity, event or queue; the id of the child; empty for a timer.
    pub name: String,
    /// How often the same activity has failed in this execution.
    pub failures: u64,
}

/// What a rewind does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewindPlan {
    /// The execution that goes on.
    pub execution: u64,
    /// The first event that is undone.
    pub before: u64,
    /// How many events are kept.
    pub kept: u64,
    /// How many events are undone.
    pub undone: u64,
    /// Results, events and timers after that event that are kept: they are delivered again.
    pub delivered: Vec<PlannedStep>,
    /// Activities that run again.
    pub activities: Vec<PlannedStep>,
    /// Timers that are waited for again.
    pub timers: Vec<PlannedStep>,
    /// Children that it waits for again: the failed ones are rewound.
    pub children: Vec<PlannedStep>,
    /// Results of activities that the code schedules again: an activity with the same name and input gets them, and does not run.
    pub reused: Vec<PlannedStep>,
    /// Failures that are kept: the code has handled them, or fails by them again.
    pub kept_failures: Vec<PlannedStep>,
}

/// The answer to a request to rewind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewindResult {
    /// What became of it.
    pub outcome: RewindOutcome,
    /// What it does, or would do.
    pub plan: Option<RewindPlan>,
    /// Who has something to do: wake them.
    pub due: Vec<Due>,
}

impl RewindResult {
    fn refused(outcome: RewindOutcome) -> Self {
        RewindResult {
            outcome,
            plan: None,
            due: Vec::new(),
        }
    }
}

/// Rewinds an instance, or says what that would do.
pub(crate) async fn rewind(store: &Store, request: &RewindRequest<'_>) -> Result<RewindResult, Failure> {
    // What another operator has begun may be completed on the way.
    let mut rolled = Vec::new();
    let mut result = asked(store, request, &mut rolled).await?;
    result.due.extend(rolled);
    Ok(result)
}

async fn asked(store: &Store, request: &RewindRequest<'_>, rolled: &mut Vec<Due>) -> Result<RewindResult, Failure> {
    // An id that cannot be a partition key is that of no instance.
    let Ok(pk) = PartitionKey::new(request.instance) else {
        return Ok(RewindResult::refused(RewindOutcome::NotFound));
    };
    let own = store.ids.unique();
    let call = request.call.unwrap_or(&own);
    let Some(fence) = clean_fence(store, &pk, rolled).await? else {
        let marked = store
            .fence(&pk)
            .await?
            .is_some_and(|fence| fence.doc.lock.deleting.is_some());
        let outcome = if marked {
            RewindOutcome::Deleting
        } else {
            RewindOutcome::NotFound
        };
        return Ok(RewindResult::refused(outcome));
    };
    let is_repeated = fence.doc.rewinds.has(call);
    if !is_repeated && fence.doc.current.status != Status::Failed {
        return Ok(RewindResult::refused(RewindOutcome::NotFailed));
    }
    let mut order = Order {
        call,
        reason: request.reason,
        before: request.before,
        discard_results: request.discard_results,
        detached: false,
    };
    let mut plan = None;
    if !is_repeated {
        let parent = fence.doc.parent.clone();
        let parent = match parent {
            Some(parent) if exists(store, &parent).await? => Some(parent),
            Some(_) => {
                // Nobody is left to hear of its end.
                order.detached = true;
                None
            }
            None => None,
        };
        order.detached |= parent.is_some();
        match planned(store, &pk, fence, &order).await? {
            Ok(made) => plan = Some(made),
            Err(outcome) => return Ok(RewindResult::refused(outcome)),
        }
        if let Some(parent) = parent.filter(|_| !request.alone) {
            let outcome = RewindOutcome::HasParent(parent);
            return Ok(RewindResult {
                plan,
                ..RewindResult::refused(outcome)
            });
        }
    }
    if request.dry_run {
        let outcome = if is_repeated {
            RewindOutcome::Repeated
        } else {
            RewindOutcome::Planned
        };
        return Ok(RewindResult {
            plan,
            ..RewindResult::refused(outcome)
        });
    }
    let (outcome, due) = match recovery::rewind(store, &pk, &order, rolled).await? {
        Done::Rewound { due } if is_repeated => (RewindOutcome::Repeated, due),
        Done::Rewound { due } => (RewindOutcome::Rewound, due),
        Done::NotFailed => (RewindOutcome::NotFailed, Vec::new()),
        Done::Deleting => (RewindOutcome::Deleting, Vec::new()),
        Done::Refused(why) => (why.into(), Vec::new()),
    };
    Ok(RewindResult { outcome, plan, due })
}

async fn exists(store: &Store, instance: &str) -> Result<bool, Failure> {
    let Ok(pk) = PartitionKey::new(instance) else {
        return Ok(false);
    };
    let found = store.newest_fence(&pk).await?;
    Ok(found.is_some_and(|found| found.doc.is_taken()))
}

/// What the order would do in this version.
async fn planned(
    store: &Store,
    pk: &PartitionKey,
    fence: crate::store::Fence,
    order: &Order<'_>,
) -> Result<Result<RewindPlan, RewindOutcome>, Failure> {
    let Some(loaded) = Loaded::read(store, pk, fence).await? else {
        return Err(Failure::stale(pk, "its history cannot be read yet"));
    };
    Ok(match Cut::of(&loaded, order) {
        Ok(cut) => Ok(RewindPlan::of(&loaded, &cut)),
        Err(why) => Err(why.into()),
    })
}

impl From<Refused> for RewindOutcome {
    fn from(why: Refused) -> Self {
        match why {
            Refused::StartedChildren(children) => RewindOutcome::StartedChildren(children),
            Refused::Impossible(why) => RewindOutcome::Impossible(why),
        }
    }
}

impl RewindPlan {
    fn of(loaded: &Loaded, cut: &Cut) -> RewindPlan {
        let (events, reopened) = (&loaded.events, &cut.reopened);
        let doc = &loaded.fence.doc;
        let steps = |positions: &[usize]| steps(events, positions, &doc.pk);
        RewindPlan {
            execution: doc.current.execution,
            before: events
                .get(reopened.kept)
                .map_or(doc.current.last_event_id + 1, Event::event_id),
            kept: reopened.kept as u64,
            undone: (events.len() - reopened.kept) as u64,
            delivered: steps(&reopened.delivered),
            activities: steps(&reopened.activities),
            timers: steps(&reopened.timers),
            children: steps(&reopened.children),
            reused: steps(&reopened.reused),
            kept_failures: steps(&reopened.kept_failures),
        }
    }
}

/// These events of a history, for people.
pub(super) fn steps(events: &[Event], positions: &[usize], instance: &str) -> Vec<PlannedStep> {
    let by_id: HashMap<u64, &Event> = events.iter().map(|event| (event.event_id(), event)).collect();
    let failures_of = |name: &str, input: &str| {
        let failed = events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::ActivityFailed { .. }));
        let sources = failed.filter_map(|event| by_id.get(&event.source_event_id?));
        let same = sources.filter(|source| {
            matches!(&source.kind, EventKind::ActivityScheduled { name: of, input: with, .. } if of == name && with == input)
        });
        same.count() as u64
    };
    let step = |n: &usize| {
        let event = events.get(*n)?;
        // What an incoming event belongs to has the name.
        let of = event
            .source_event_id
            .and_then(|source| by_id.get(&source).copied())
            .unwrap_or(event);
        let (kind, name, failures) = match &of.kind {
            EventKind::ActivityScheduled { name, input, .. } => {
                (StepKind::Activity, name.clone(), failures_of(name, input))
            }
            EventKind::TimerCreated { .. } => (StepKind::Timer, String::new(), 0),
            EventKind::SubOrchestrationScheduled { .. } => {
                (StepKind::Child, child_of(of, instance).unwrap_or_default(), 0)
            }
            EventKind::ExternalEvent { name, .. } => (StepKind::Event, name.clone(), 0),
            EventKind::QueueEventDelivered { name, .. } => (StepKind::Queue, name.clone(), 0),
            _ => return None,
        };
        Some(PlannedStep {
            kind,
            event: event.event_id(),
            name,
            failures,
        })
    };
    positions.iter().filter_map(step).collect()
}
