//! The parts of a cloud, made from its options: queues, functions, mappings between them, and the schedule.

use super::bind;
use super::options::{
    API, CloudError, CloudOptions, Described, MAINTENANCE, ORCHESTRATOR, Server, WORKER, tagged_worker,
};
use super::status::Services;
use super::variables::{DEAD_LETTER_QUEUE, ORCHESTRATOR_QUEUE, WORKER_QUEUE};
use crate::lambda::{Attached, Function, FunctionSettings, Launcher, ProcessOptions, Spawner};
use crate::mapping::{Mapping, MappingSettings};
use crate::sqs::{QueueSettings, Redrive};
use bytes::Bytes;
use cosmos::{Clock as _, SystemClock};
use duroxide_lambda::log::rfc3339;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// Locks of activities that a person may hold at a breakpoint, where nothing renews them. The activity of one that is lost runs again.
const HELD_LOCKS: [&str; 2] = ["DUROXIDE_WORK_LOCK_SECONDS", "DUROXIDE_SESSION_LOCK_SECONDS"];
/// How long they last for a function that somebody attaches a process to.
const HELD_SECONDS: &str = "600";

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
    let tagged = options.tagged.keys().map(|tag| tagged_worker(tag));
    let tagged: Vec<QueueSettings> = tagged.map(|name| queue(&name, Some(redrive.clone()))).collect();
    let mut queues = vec![
        queue(ORCHESTRATOR_QUEUE, Some(redrive.clone())),
        queue(WORKER_QUEUE, Some(redrive)),
        queue(DEAD_LETTER_QUEUE, None),
    ];
    queues.extend(tagged);
    queues
}

/// The functions, and the ports of those to attach to.
pub(super) async fn functions(
    options: &CloudOptions,
    variables: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Arc<Function>>, CloudError> {
    let processes = ProcessOptions {
        spawner: Spawner::start(),
        launcher: options.launcher.clone().map_or(Launcher::Direct, Launcher::Binary),
        logs: options.logs.clone(),
        freeze: options.freeze,
    };
    let mut functions = BTreeMap::new();
    for Described { name, binary, tag } in options.described() {
        let attached = match options.attached.get(&name) {
            Some(port) => Some(Attached::serve(&name, bind(Server::Attached, *port).await?)),
            None => None,
        };
        let concurrency = match name.as_str() {
            // One process, one invocation.
            _ if attached.is_some() => 1,
            MAINTENANCE => 1,
            API => options.api_concurrency,
            _ => options.concurrency,
        };
        let mut variables = variables.clone();
        if let Some(tag) = tag {
            variables.insert("WORKER_TAGS".to_owned(), tag.to_owned());
        }
        if attached.is_some() {
            let is_set = |lock: &str| options.variables.iter().any(|(set, _)| set == lock);
            let locks = HELD_LOCKS.iter().filter(|lock| !is_set(lock));
            variables.extend(locks.map(|lock| ((*lock).to_owned(), HELD_SECONDS.to_owned())));
        }
        let settings = FunctionSettings {
            name: name.clone(),
            binary: binary.to_owned(),
            variables: variables.into_iter().collect(),
            timeout: options.timeout,
            concurrency,
            idle: options.idle,
        };
        functions.insert(name, Function::new(settings, processes.clone(), attached));
    }
    Ok(functions)
}

/// Starts one environment of each function; ends all of them if one does not start.
pub(super) async fn warm_up(services: &Services) -> Result<(), CloudError> {
    for (name, function) in &services.functions {
        if let Err(error) = function.warm_up().await {
            services.close().await;
            return Err(CloudError::Function {
                function: name.clone(),
                error,
            });
        }
    }
    Ok(())
}

pub(super) fn mappings(options: &CloudOptions, services: &Services) -> Vec<Mapping> {
    let mapping = |queue: &str, function: &str| {
        let function = services.function(function)?;
        let settings = MappingSettings {
            queue: queue.to_owned(),
            batch_size: match function.attached() {
                // Who steps through a function sees one step at a time.
                Some(_) => 1,
                None => options.batch_size,
            },
        };
        Some(Mapping::start(&settings, &services.sqs, function))
    };
    let tagged = options.tagged.keys().map(|tag| tagged_worker(tag));
    [mapping(ORCHESTRATOR_QUEUE, ORCHESTRATOR), mapping(WORKER_QUEUE, WORKER)]
        .into_iter()
        .chain(tagged.map(|name| mapping(&name, &name)))
        .flatten()
        .collect()
}

/// Invokes maintenance at once and then once a period. Runs do not overlap.
pub(super) async fn schedule(services: Arc<Services>, period: Duration) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while let Some(function) = services.function(MAINTENANCE) {
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
