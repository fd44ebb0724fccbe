//! Runs one workload on one side, with duroxide's own runtime.
//!
//! Counting begins when the runtime is up and ends with the last orchestration. The status is read through the other listener,
//! and only after all activities have run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{Client, ClientError};
use futures::future::try_join_all;

use crate::arena::{Arena, DISPATCHERS, Side};
use crate::measure::{End, Measure};
use crate::processor::ProcessorTime;
use crate::trace;
use crate::workflows::{Progress, activities, orchestrations};
use crate::workload::Workload;

/// The pause between the start of the runtime and counting, in which both sides poll once.
const WARM_UP: Duration = Duration::from_millis(500);

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Into how many parts the peer divides its queue.
    pub peer_slots: u32,
    /// The limit for one workload on one side.
    pub limit: Duration,
    /// Whether to print every request.
    pub log: bool,
}

/// Runs the workload once.
pub async fn run(workload: &Workload, side: Side, settings: Settings) -> Result<Measure> {
    let limit = settings.limit;
    let arena = Arena::open(side, settings.peer_slots).await?;
    let provider = arena.provider().await?;
    let watcher = Client::new(arena.watcher().await?);
    let progress = Arc::new(Progress::default());
    let options = RuntimeOptions {
        orchestration_concurrency: DISPATCHERS as usize,
        worker_concurrency: DISPATCHERS as usize,
        ..RuntimeOptions::default()
    };
    let runtime =
        Runtime::start_with_options(Arc::clone(&provider), activities(&progress), orchestrations(), options).await;
    tokio::time::sleep(WARM_UP).await;
    arena.listener().reset();
    let (started, spent) = (Instant::now(), ProcessorTime::now());
    let client = Client::new(provider);
    let all =
        async {
            try_join_all((0..workload.instances).map(|index| {
                client.start_orchestration(instance(index), workload.orchestration, workload.input.clone())
            }))
            .await?;
            progress
                .reached((workload.instances * workload.activities) as u64)
                .await;
            answers(workload, &watcher, limit).await
        };
    let end = match tokio::time::timeout(limit, all).await {
        Ok(end) => end?,
        Err(_) => End::DidNotFinish,
    };
    let took = started.elapsed();
    let spent = ProcessorTime::now().since(spent);
    let mut measure = Measure::new(&workload.name, side, workload.instances, &arena.listener().counts()).took(took);
    measure.processor_seconds = (spent.emulator, spent.rest);
    measure.activities_run = progress.run();
    measure.end = end;
    if settings.log {
        trace::print(&arena.listener().log(), started);
    }
    runtime.shutdown(None).await;
    Ok(measure)
}

fn instance(index: usize) -> String {
    format!("bench-{index}")
}

/// Compares every output with the expected one.
async fn answers(workload: &Workload, watcher: &Client, limit: Duration) -> Result<End> {
    for index in 0..workload.instances {
        match watcher.wait_for_orchestration(&instance(index), limit).await {
            Ok(OrchestrationStatus::Completed { output, .. }) if output == workload.answer => {}
            Ok(other) => return Ok(End::Wrong(format!("{}: {other:?}", instance(index)))),
            Err(ClientError::Timeout) => return Ok(End::DidNotFinish),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(End::Right)
}
