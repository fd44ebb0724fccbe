//! Forking: a new instance from a point of another one's history, with edited results, input or version, to try something beside
//! production. `recovery::fork` makes it. The source is only read, whatever it is.
//!
//! | source | fork |
//! |---|---|
//! | no instance, or not begun, or no such execution | not found |
//! | any other | made; of an execution that has ended, its last turn is not taken over, but runs again |
//! | the new id is taken | taken |
//! | an earlier execution of an instance with keys | refused: the keys as they were then are not kept |

use super::rewind::{PlannedStep, steps};
use crate::due::Due;
use crate::error::Failure;
use crate::model::{HistoryDoc, chain_of};
use crate::read;
use crate::recovery::{self, Fork};
use crate::reopen;
use crate::store::Store;
use cosmos::PartitionKey;
use duroxide::{Event, EventKind};

/// What an operator asks for.
#[derive(Clone, Debug, Default)]
pub struct ForkRequest<'a> {
    /// The source.
    pub instance: &'a str,
    /// The id of the fork.
    pub new_id: &'a str,
    /// The execution of the source; the current one by default.
    pub execution: Option<u64>,
    /// The last event that is taken over; all of them by default.
    pub at: Option<u64>,
    /// Results of activities and children, or data of events, by the ids of their events. A failure becomes a result.
    pub results: Vec<(u64, String)>,
    /// Another input.
    pub input: Option<&'a str>,
    /// Another version of the orchestration.
    pub version: Option<&'a str>,
    /// Only say what would run.
    pub dry_run: bool,
}

/// What became of a request to fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkOutcome {
    /// It was made, and runs.
    Forked,
    /// It would be made: this was a dry run.
    Planned,
    /// There is no such instance, or no such execution.
    NotFound,
    /// An instance has the new id.
    Taken,
    /// The request makes no sense: why.
    Invalid(String),
    /// It cannot be forked: why.
    Impossible(String),
}

/// What a fork does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForkPlan {
    /// The execution of the source.
    pub execution: u64,
    /// The last event that is taken over.
    pub at: u64,
    /// Results, events and timers at the end that the fork takes in its first turn.
    pub delivered: Vec<PlannedStep>,
    /// Activities that run again.
    pub activities: Vec<PlannedStep>,
    /// Timers that it waits for.
    pub timers: Vec<PlannedStep>,
    /// Children that are started again, under ids of the fork.
    pub children: Vec<PlannedStep>,
    /// Results that are used when the code schedules the same activities again.
    pub reused: Vec<PlannedStep>,
}

/// The answer to a request to fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkResult {
    /// What became of it.
    pub outcome: ForkOutcome,
    /// What it does, or would do.
    pub plan: Option<ForkPlan>,
    /// Who has something to do: wake them.
    pub due: Vec<Due>,
}

fn refused(outcome: ForkOutcome) -> ForkResult {
    ForkResult {
        outcome,
        plan: None,
        due: Vec::new(),
    }
}

/// Forks an instance, or says what that would do.
pub(crate) async fn fork(store: &Store, request: &ForkRequest<'_>) -> Result<ForkResult, Failure> {
    let (Ok(pk), Ok(new)) = (PartitionKey::new(request.instance), PartitionKey::new(request.new_id)) else {
        return Ok(refused(ForkOutcome::NotFound));
    };
    let Some(source) = read::instance(store, &pk).await? else {
        return Ok(refused(ForkOutcome::NotFound));
    };
    let execution = request.execution.unwrap_or(source.current.execution);
    let Some((events, last_turn, is_over)) = history(store, &pk, execution).await? else {
        return Ok(refused(ForkOutcome::NotFound));
    };
    let keys = read::keys(store, &pk).await?.kv;
    if execution != source.current.execution && !keys.is_empty() {
        let why = format!("the keys as execution {execution} found them are not kept: fork the current execution");
        return Ok(refused(ForkOutcome::Impossible(why)));
    }
    let (events, last_turn, is_over) = taken_over(events, request.at, last_turn, is_over);
    let events = match edited(events, request) {
        Ok(events) => events,
        Err(why) => return Ok(refused(ForkOutcome::Invalid(why))),
    };
    let cut = match is_over {
        true => reopen::default_cut(&events, last_turn),
        false => reopen::settle(&events, events.len()),
    };
    let reopened = reopen::reopen(&events, cut, last_turn);
    let of = |positions: &[usize]| steps(&events, positions, request.new_id);
    let plan = ForkPlan {
        execution,
        at: events.last().map_or(0, Event::event_id),
        delivered: of(&reopened.delivered),
        activities: of(&reopened.activities),
        timers: of(&reopened.timers),
        children: of(&reopened.children),
        reused: of(&reopened.reused),
    };
    let is_taken = store.fence(&new).await?.is_some_and(|found| found.doc.is_taken());
    if is_taken || request.dry_run {
        let outcome = if is_taken {
            ForkOutcome::Taken
        } else {
            ForkOutcome::Planned
        };
        let plan = Some(plan);
        return Ok(ForkResult {
            plan,
            ..refused(outcome)
        });
    }
    let fork = Fork {
        source: &source,
        execution,
        events,
        reopened,
        keys,
        id: request.new_id,
    };
    Ok(match recovery::fork(store, &fork).await? {
        Some(due) => ForkResult {
            outcome: ForkOutcome::Forked,
            plan: Some(plan),
            due,
        },
        None => refused(ForkOutcome::Taken),
    })
}

/// The events of an execution, where its last turn begins, and whether it has ended; `None` when there is no such execution.
async fn history(
    store: &Store,
    pk: &PartitionKey,
    execution: u64,
) -> Result<Option<(Vec<Event>, usize, bool)>, Failure> {
    const REREADS: u32 = 20;
    for _ in 0..REREADS {
        let Some(state) = read::execution_state(store, pk, execution).await? else {
            return Ok(None);
        };
        let past = read::past(store, pk, execution).await?;
        let docs = chain_of(&state.head, past.history);
        if docs.iter().map(|doc| doc.events.len() as u64).sum::<u64>() == state.events && state.events > 0 {
            let last = docs.iter().find(|doc| doc.commit == state.head);
            let last_turn = last.map_or(0, |doc| doc.offset as usize);
            return Ok(Some((decoded(pk, &docs)?, last_turn, state.status.is_terminal())));
        }
        if state.events == 0 {
            return Ok(None);
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Err(Failure::stale(pk, "its history cannot be read yet"))
}

fn decoded(pk: &PartitionKey, docs: &[HistoryDoc]) -> Result<Vec<Event>, Failure> {
    let raw = docs.iter().flat_map(|doc| &doc.events);
    raw.map(|event| {
        serde_json::from_str(event.get()).map_err(|error| Failure::Corrupt {
            instance: pk.as_str().to_owned(),
            reason: format!("an event cannot be decoded by this build: {error}"),
        })
    })
    .collect()
}

/// The events up to the last one that is taken over, where the last turn of them begins, and whether they have the end.
fn taken_over(mut events: Vec<Event>, at: Option<u64>, last_turn: usize, is_over: bool) -> (Vec<Event>, usize, bool) {
    let Some(at) = at else {
        return (events, last_turn, is_over);
    };
    let length = events.iter().take_while(|event| event.event_id() <= at).count().max(1);
    let ends = is_over && length > last_turn;
    if ends {
        // The last turn is one whole: it has the end of the execution.
        return (events, last_turn, true);
    }
    events.truncate(length);
    (events, length, false)
}

/// The events with what the operator has edited, as those of the new instance.
fn edited(mut events: Vec<Event>, request: &ForkRequest<'_>) -> Result<Vec<Event>, String> {
    for (id, result) in &request.results {
        let event = events
            .iter_mut()
            .find(|event| event.event_id() == *id)
            .ok_or_else(|| format!("event {id} is not taken over"))?;
        event.kind = match &event.kind {
            EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. } => {
                let result = result.clone();
                EventKind::ActivityCompleted { result }
            }
            EventKind::SubOrchestrationCompleted { .. } | EventKind::SubOrchestrationFailed { .. } => {
                let result = result.clone();
                EventKind::SubOrchestrationCompleted { result }
            }
            EventKind::ExternalEvent { name, .. } => EventKind::ExternalEvent {
                name: name.clone(),
                data: result.clone(),
            },
            EventKind::QueueEventDelivered { name, .. } => EventKind::QueueEventDelivered {
                name: name.clone(),
                data: result.clone(),
            },
            _ => {
                return Err(format!(
                    "event {id} has no result: it is none of an activity, a child, an event or a message"
                ));
            }
        };
    }
    for event in &mut events {
        request.new_id.clone_into(&mut event.instance_id);
        match &mut event.kind {
            EventKind::OrchestrationStarted {
                version,
                input,
                parent_instance,
                parent_id,
                parent_execution_id,
                ..
            } => {
                (*parent_instance, *parent_id, *parent_execution_id) = (None, None, None);
                if let Some(other) = request.input {
                    other.clone_into(input);
                }
                if let Some(other) = request.version {
                    semver::Version::parse(other).map_err(|error| format!("'{other}' is no version: {error}"))?;
                    other.clone_into(version);
                }
            }
            // A child with an id of its own belongs to the source.
            EventKind::SubOrchestrationScheduled { instance, .. }
                if !duroxide::build_child_instance_id("", instance).starts_with("::") =>
            {
                *instance = format!("{}::{instance}", request.new_id);
            }
            _ => {}
        }
    }
    Ok(events)
}
