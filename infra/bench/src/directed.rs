//! One orchestration with one activity through directed calls only, as the functions make them. The peer has no such calls.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use duroxide::providers::{ExecutionMetadata, Provider, TagFilter, WorkItem};
use duroxide::{Event, EventKind, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID};
use duroxide_cosmos::{ClaimedWork, CosmosProvider, Due, Fetched, Target, TurnDecision, TurnItem};

use crate::arena::{Arena, Side};
use crate::measure::Measure;
use crate::run::Settings;
use crate::trace;

/// The name of this workload.
pub const NAME: &str = "one activity, directed";
const LOCK: Duration = Duration::from_secs(30);
const INSTANCE: &str = "directed";
const ORCHESTRATION: &str = "OneActivity";
const VERSION: &str = "1.0.0";
const ACTIVITY: u64 = INITIAL_EVENT_ID + 1;

/// Start, turn, activity, turn.
pub async fn run(settings: Settings) -> Result<Measure> {
    let arena = Arena::open(Side::Ours, settings.peer_slots).await?;
    let ours = arena.ours().await?;
    arena.listener().reset();
    let started = Instant::now();
    ours.enqueue_for_orchestrator(start(), None).await?;
    let due = first_turn(&ours).await?;
    activity(&ours, due).await?;
    last_turn(&ours).await?;
    let took = started.elapsed();
    if settings.log {
        trace::print(&arena.listener().log(), started);
    }
    let counts = arena.listener().counts();
    let done = ours.read(INSTANCE).await?;
    if done.len() != 4 {
        bail!("the directed orchestration has {} events instead of 4", done.len());
    }
    Ok(Measure::new(NAME, Side::Ours, 1, &counts).took(took).how("directed"))
}

/// Answers who is due after it.
async fn first_turn(ours: &CosmosProvider) -> Result<Vec<Due>> {
    let turn = turn(ours).await?;
    let events = vec![
        event(
            INITIAL_EVENT_ID,
            None,
            EventKind::OrchestrationStarted {
                name: ORCHESTRATION.to_owned(),
                version: VERSION.to_owned(),
                input: String::new(),
                parent_instance: None,
                parent_id: None,
                parent_execution_id: None,
                carry_forward_events: None,
                initial_custom_status: None,
            },
        ),
        event(
            ACTIVITY,
            None,
            EventKind::ActivityScheduled {
                name: "Greet".to_owned(),
                input: "Lima".to_owned(),
                session_id: None,
                tag: None,
            },
        ),
    ];
    let work = WorkItem::ActivityExecute {
        instance: INSTANCE.to_owned(),
        execution_id: INITIAL_EXECUTION_ID,
        id: ACTIVITY,
        name: "Greet".to_owned(),
        input: "Lima".to_owned(),
        session_id: None,
        tag: None,
    };
    let metadata = ExecutionMetadata {
        orchestration_name: Some(ORCHESTRATION.to_owned()),
        orchestration_version: Some(VERSION.to_owned()),
        ..ExecutionMetadata::default()
    };
    commit(ours, &turn, events, vec![work], metadata).await
}

async fn activity(ours: &CosmosProvider, due: Vec<Due>) -> Result<()> {
    let work = due.into_iter().find_map(|due| match due.target {
        Target::Work(work) => Some(work),
        Target::Turn { .. } | Target::Batch { .. } => None,
    });
    let Some(work) = work else {
        bail!("the first turn scheduled no activity")
    };
    let fetched = ours
        .fetch_written_work(&work, LOCK, None, &TagFilter::DefaultOnly)
        .await?;
    let Fetched::Ready(ClaimedWork { lock_token, .. }) = fetched else {
        bail!("the activity was not found")
    };
    let completed = WorkItem::ActivityCompleted {
        instance: INSTANCE.to_owned(),
        execution_id: INITIAL_EXECUTION_ID,
        id: ACTIVITY,
        result: "Hello, Lima!".to_owned(),
    };
    Ok(ours.ack_work_item(&lock_token, Some(completed)).await?)
}

async fn last_turn(ours: &CosmosProvider) -> Result<()> {
    let turn = turn(ours).await?;
    if turn.item.history.len() != 2 {
        bail!("the second turn has {} events instead of 2", turn.item.history.len());
    }
    let output = "Hello, Lima!".to_owned();
    let events = vec![
        event(
            ACTIVITY + 1,
            Some(ACTIVITY),
            EventKind::ActivityCompleted { result: output.clone() },
        ),
        event(
            ACTIVITY + 2,
            None,
            EventKind::OrchestrationCompleted { output: output.clone() },
        ),
    ];
    let metadata = ExecutionMetadata {
        status: Some("Completed".to_owned()),
        output: Some(output),
        ..ExecutionMetadata::default()
    };
    commit(ours, &turn, events, Vec::new(), metadata).await?;
    Ok(())
}

async fn turn(ours: &CosmosProvider) -> Result<TurnItem> {
    match ours
        .begin_turn(INSTANCE, Some(INITIAL_EXECUTION_ID), LOCK, None)
        .await?
    {
        Fetched::Ready(turn) if turn.item.messages.len() == 1 => Ok(turn),
        other => bail!("the turn was not found: {other:?}"),
    }
}

async fn commit(
    ours: &CosmosProvider,
    turn: &TurnItem,
    events: Vec<Event>,
    work: Vec<WorkItem>,
    metadata: ExecutionMetadata,
) -> Result<Vec<Due>> {
    let decision = TurnDecision {
        execution: INITIAL_EXECUTION_ID,
        events,
        work,
        metadata,
        ..TurnDecision::default()
    };
    let commit = ours.commit_turn(&turn.lock_token, decision);
    commit.done.await?;
    Ok(commit.decided.with_versions(commit.due))
}

fn event(id: u64, source: Option<u64>, kind: EventKind) -> Event {
    Event::with_event_id(id, INSTANCE, INITIAL_EXECUTION_ID, source, kind)
}

fn start() -> WorkItem {
    WorkItem::StartOrchestration {
        instance: INSTANCE.to_owned(),
        orchestration: ORCHESTRATION.to_owned(),
        input: String::new(),
        version: Some(VERSION.to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: INITIAL_EXECUTION_ID,
    }
}
