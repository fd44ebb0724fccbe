//! Fetches one turn while many instances wait. A provider that is not counted queues the starts; then one turn is fetched and
//! abandoned, repeatedly.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::{Provider, WorkItem};
use duroxide_cosmos::{CosmosProvider, Fetched};
use futures::{StreamExt, TryStreamExt, stream};

use crate::arena::{Arena, Side};
use crate::measure::{End, Measure};
use crate::run::Settings;
use crate::trace;
use crate::workflows::HELLO_CITIES;

const FETCHES: usize = 20;
const LOCK: Duration = Duration::from_secs(30);
const ENQUEUE_AT_ONCE: usize = 32;
/// Filling is not measured, and takes long: the emulator copies a partition for each batch, and a start is one.
const FILL_LIMITS: u32 = 10;

/// The name of the workload with a backlog of this size.
pub fn name(backlog: usize) -> String {
    format!("fetch, {backlog} queued")
}

/// Measures a side with a backlog of this size.
pub async fn run(backlog: usize, side: Side, settings: Settings) -> Result<Vec<Measure>> {
    let name = name(backlog);
    let arena = Arena::open(side, settings.peer_slots).await?;
    let mut rows = Vec::new();
    let filler = arena.watcher().await?;
    match tokio::time::timeout(FILL_LIMITS * settings.limit, fill(&filler, backlog)).await {
        Ok(filled) => filled?,
        Err(_) => return Ok(vec![unfinished(&name, side, &arena)]),
    }
    let provider = arena.provider().await?;
    rows.push(bounded(&name, side, &arena, settings, |_| undirected(&provider)).await?);
    if side == Side::Ours {
        let ours = arena.ours().await?;
        let directed = |round| directed(&ours, instance(round * backlog / FETCHES));
        rows.push(bounded(&name, side, &arena, settings, directed).await?.how("directed"));
    }
    Ok(rows)
}

/// Counts and times [`FETCHES`] fetches, or as many as fit into half of the limit.
async fn bounded<F: Future<Output = Result<()>>>(
    name: &str,
    side: Side,
    arena: &Arena,
    settings: Settings,
    mut fetch: impl FnMut(usize) -> F,
) -> Result<Measure> {
    arena.listener().reset();
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < FETCHES && started.elapsed() < settings.limit / 2 {
        let began = Instant::now();
        match tokio::time::timeout(settings.limit, fetch(times.len())).await {
            Ok(fetched) => fetched?,
            Err(_) => return Ok(unfinished(name, side, arena)),
        }
        times.push(began.elapsed());
    }
    if settings.log {
        trace::print(&arena.listener().log(), started);
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    Ok(Measure::new(name, side, times.len(), &arena.listener().counts()).took(median))
}

/// No fetch finished in time.
fn unfinished(name: &str, side: Side, arena: &Arena) -> Measure {
    let mut measure = Measure::new(name, side, 1, &arena.listener().counts());
    measure.end = End::DidNotFinish;
    measure
}

fn instance(index: usize) -> String {
    format!("queued-{index}")
}

async fn fill(provider: &Arc<dyn Provider>, backlog: usize) -> Result<()> {
    stream::iter((0..backlog).map(|index| {
        let start = WorkItem::StartOrchestration {
            instance: instance(index),
            orchestration: HELLO_CITIES.to_owned(),
            input: String::new(),
            version: Some("1.0.0".to_owned()),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: INITIAL_EXECUTION_ID,
        };
        provider.enqueue_for_orchestrator(start, None)
    }))
    .buffer_unordered(ENQUEUE_AT_ONCE)
    .try_for_each(|()| async { Ok(()) })
    .await
    .context("the backlog could not be queued")
}

async fn undirected(provider: &Arc<dyn Provider>) -> Result<()> {
    let fetched = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None).await?;
    let Some((item, token, _)) = fetched else {
        bail!("a fetch found nothing, but starts are queued")
    };
    if item.messages.len() != 1 || !item.instance.starts_with("queued-") {
        bail!("a fetch found {} messages of {}", item.messages.len(), item.instance);
    }
    Ok(provider.abandon_orchestration_item(&token, None, true).await?)
}

async fn directed(ours: &Arc<CosmosProvider>, instance: String) -> Result<()> {
    let Fetched::Ready(turn) = ours.fetch_turn(&instance, LOCK, None).await? else {
        bail!("a directed fetch of {instance} found nothing");
    };
    if turn.item.messages.len() != 1 || turn.item.instance != instance {
        bail!("a directed fetch of {instance} found {}", turn.item.instance);
    }
    Ok(ours.abandon_orchestration_item(&turn.lock_token, None, true).await?)
}
