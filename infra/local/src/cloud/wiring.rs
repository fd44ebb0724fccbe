//! The parts of a cloud, made from its options: queues, functions, mappings between them, and the schedule.

use super::options::{CloudError, CloudOptions};
use super::status::Services;
use super::variables::{DEAD_LETTER_QUEUE, ORCHESTRATOR_QUEUE, WORKER_QUEUE};
use crate::lambda::{Function, FunctionSettings, Launcher, ProcessOptions, Spawner};
use crate::mapping::{Mapping, MappingSettings};
use crate::sqs::{QueueSettings, Redrive};
use bytes::Bytes;
use cosmos::{Clock as _, SystemClock};
use duroxide_lambda::log::rfc3339;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// The name of the HTTP API's function.
pub(super) const API: &str = "api";

pub(super) fn queues(options: &CloudOptions) -> Vec<QueueSettings> {
    let queue = |name: &str, redrive: Option<Redrive>| QueueSettings {
        name: name.to_owned(),
        visibility: options.visibility,
        redrive,
    };
    let redrive = Redrive {
        dead_letters: DEAD_LETTER_QUEUE.to_owned(),
        max_receives: options.max_receives,
    };
    vec![
        queue(ORCHESTRATOR_QUEUE, Some(redrive.clone())),
        queue(WORKER_QUEUE, Some(redrive)),
        queue(DEAD_LETTER_QUEUE, None),
    ]
}

pub(super) fn functions(
    options: &CloudOptions,
    variables: &BTreeMap<String, String>,
) -> BTreeMap<&'static str, Arc<Function>> {
    let processes = ProcessOptions {
        spawner: Spawner::start(),
        launcher: options.launcher.clone().map_or(Launcher::Direct, Launcher::Binary),
        logs: options.logs.clone(),
        freeze: options.freeze,
    };
    let function = |name: &'static str, binary: &Path, concurrency: usize| {
        let settings = FunctionSettings {
            name: name.to_owned(),
            binary: binary.to_owned(),
            variables: variables.clone().into_iter().collect(),
            timeout: options.timeout,
            concurrency,
            idle: options.idle,
        };
        (name, Function::new(settings, processes.clone()))
    };
    let mut functions = BTreeMap::from([
        function("orchestrator", &options.functions.orchestrator, options.concurrency),
        function("worker", &options.functions.worker, options.concurrency),
        function("maintenance", &options.functions.maintenance, 1),
    ]);
    functions.extend(
        options
            .functions
            .api
            .iter()
            .map(|api| function(API, api, options.api_concurrency)),
    );
    functions
}

/// Starts one environment of each function; ends all of them if one does not start.
pub(super) async fn warm_up(services: &Services) -> Result<(), CloudError> {
    for (name, function) in &services.functions {
        if let Err(error) = function.warm_up().await {
            services.close().await;
            return Err(CloudError::Function { function: name, error });
        }
    }
    Ok(())
}

pub(super) fn mappings(options: &CloudOptions, services: &Services) -> Vec<Mapping> {
    let mapping = |queue: &str, function: &str| {
        let settings = MappingSettings {
            queue: queue.to_owned(),
            batch_size: options.batch_size,
        };
        let function = services.function(function)?;
        Some(Mapping::start(&settings, &services.sqs, function))
    };
    [
        mapping(ORCHESTRATOR_QUEUE, "orchestrator"),
        mapping(WORKER_QUEUE, "worker"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Invokes maintenance at once and then once a period. Runs do not overlap.
pub(super) async fn schedule(services: Arc<Services>, period: Duration) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while let Some(function) = services.function("maintenance") {
        ticks.tick().await;
        let event = json!({
            "version": "0",
            "source": "aws.events",
            "detail-type": "Scheduled Event",
            "time": rfc3339(SystemClock.now_ms()),
            "detail": {},
        });
        // The function logs a run that fails; the next run makes up for it.
        let run = function.invoke(Bytes::from(event.to_string())).await;
        run.map(drop).unwrap_or_default();
    }
}
