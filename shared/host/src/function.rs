//! The entry points for a user's `main.rs`.

use crate::budget::Budget;
use crate::config::{ActivityLimits, Config};
use crate::connection::Connection;
use crate::environment::{Environment, Parts};
use crate::event::{BatchResponse, SqsEvent};
use crate::function_error::{FunctionError, guarded, report_start};
use crate::log;
use crate::maintenance::{Answer, Maintenance};
use crate::metrics::Metrics;
use crate::notifier::{Notifier, Sqs};
use crate::replay;
use cosmos::{Clock, SystemClock};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationRegistry};
use duroxide_cosmos::{CosmosConfig, CosmosProvider, Ids, RandomIds};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;
use std::env;
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The timeout of one attempt. It may be the only sign of a connection that died while Lambda had the process frozen, and
/// an invocation is short.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

/// The timeout of one operation of a client, with its retries: somebody waits for the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(8);

/// Runs the orchestrator function: each wakeup in its queue is one turn of one of these orchestrations.
///
/// ```no_run
/// # fn my_orchestrations() -> duroxide::OrchestrationRegistry { unimplemented!() }
/// #[tokio::main]
/// async fn main() -> Result<(), duroxide_lambda::Error> {
///     duroxide_lambda::orchestrator(my_orchestrations()).await
/// }
/// ```
///
/// Started by `duroxide-lambda replay`, it replays recorded histories instead, and needs no configuration ([`replay`]).
///
/// # Errors
/// When the configuration is wrong, or the Lambda runtime interface fails.
pub async fn orchestrator(orchestrations: OrchestrationRegistry) -> Result<(), Error> {
    // Before anything else: a replay has no settings, and must not connect.
    if let Some(word) = replay::is_wanted() {
        return replay::serve(word, orchestrations).await;
    }
    let (config, _, parts) = started().await?;
    let environment = Environment::orchestrator(parts, orchestrations).await;
    run(&environment, &config).await
}

/// Runs the worker function: each wakeup in its queue is one activity.
///
/// ```no_run
/// # fn my_activities() -> duroxide::runtime::registry::ActivityRegistry { unimplemented!() }
/// #[tokio::main]
/// async fn main() -> Result<(), duroxide_lambda::Error> {
///     duroxide_lambda::worker(my_activities()).await
/// }
/// ```
///
/// # Errors
/// When the configuration is wrong, or the Lambda runtime interface fails.
pub async fn worker(activities: ActivityRegistry) -> Result<(), Error> {
    Worker::new(activities).run().await
}

/// The worker function with limits for single activities. `DUROXIDE_ACTIVITY_ATTEMPTS` and `DUROXIDE_ACTIVITY_TIMEOUTS` come
/// before those of the code.
///
/// ```no_run
/// # use std::time::Duration;
/// # fn my_activities() -> duroxide::runtime::registry::ActivityRegistry { unimplemented!() }
/// #[tokio::main]
/// async fn main() -> Result<(), duroxide_lambda::Error> {
///     duroxide_lambda::Worker::new(my_activities())
///         .attempts("Charge", 3)
///         .time_limit("Charge", Duration::from_secs(2))
///         .run()
///         .await
/// }
/// ```
#[must_use = "it serves nothing until it is run"]
pub struct Worker {
    activities: ActivityRegistry,
    limits: ActivityLimits,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("activities", &self.activities.list_names())
            .field("limits", &self.limits)
            .finish()
    }
}

impl Worker {
    /// A worker function for these activities.
    pub fn new(activities: ActivityRegistry) -> Worker {
        Worker {
            activities,
            limits: ActivityLimits::default(),
        }
    }

    /// Gives this activity up after so many attempts, instead of `DUROXIDE_MAX_ATTEMPTS`.
    pub fn attempts(mut self, activity: impl Into<String>, most: u32) -> Worker {
        self.limits = self.limits.attempts(activity, most);
        self
    }

    /// Stops an attempt of this activity after so much time, at least a second. It counts as an attempt that timed out.
    pub fn time_limit(mut self, activity: impl Into<String>, time: Duration) -> Worker {
        self.limits = self.limits.time(activity, time);
        self
    }

    /// Runs the function.
    ///
    /// # Errors
    /// When the configuration is wrong, when limits name an activity that is not registered, or when the Lambda runtime
    /// interface fails.
    pub async fn run(self) -> Result<(), Error> {
        let (config, _, mut parts) = started().await?;
        let limits = parts.limits.activities.over(&self.limits);
        limits
            .check(self.activities.list_names())
            .map_err(Error::from)
            .inspect_err(|error| {
                tracing::error!(%error, "the limits of activities cannot be used");
                report_start(error);
            })?;
        parts.limits.activities = limits;
        let tags = config.tags.clone();
        let environment = Environment::worker(parts, self.activities, tags).await;
        run(&environment, &config).await
    }
}

/// Runs the maintenance function, which a schedule invokes: it repairs what crashes and lost wakeups left behind, and
/// returns a report. It needs no orchestrations.
///
/// ```no_run
/// #[tokio::main]
/// async fn main() -> Result<(), duroxide_lambda::Error> {
///     duroxide_lambda::maintenance().await
/// }
/// ```
///
/// # Errors
/// When the configuration is wrong, or the Lambda runtime interface fails.
pub async fn maintenance() -> Result<(), Error> {
    let (config, store, parts) = started().await?;
    let (metrics, clock) = (Arc::clone(&parts.metrics), Arc::clone(&parts.clock));
    let maintenance = &Maintenance::new(store, parts.notifier(), clock, config.maintenance.clone());
    let (function, metrics) = (&ready(&config, "Maintenance"), &metrics);
    let invoke = move |event: LambdaEvent<Value>| async move {
        let started = Instant::now();
        let _request = log::invocation(&event.context.request_id);
        let budget = Budget::until(event.context.deadline, SystemClock.now_ms());
        let answer = maintenance.handle(&event.payload, budget).await;
        match &answer {
            Ok(Answer::Report(report)) => report.measure(metrics),
            Ok(Answer::DeadLetters(_)) => {}
            Err(error) => tracing::error!(%error, "the request failed"),
        }
        write_metrics(metrics, function, started);
        Ok(answer?)
    };
    lambda_runtime::run(service_fn(move |event| guarded(invoke(event)))).await
}

/// A duroxide client from the same environment variables, which wakes the functions after each request.
///
/// # Errors
/// When the configuration is wrong.
pub async fn client() -> Result<Client, Error> {
    // It does not install logs: that is up to its program.
    let (_, parts) = store_of(&Config::from_env()?).await?;
    Ok(Client::new(Arc::new(parts.notifying())))
}

/// The configuration and the connection of a function that serves clients: the HTTP API. It installs the logs, and reports
/// an error to Lambda.
///
/// # Errors
/// When the configuration is wrong.
pub async fn connected() -> Result<(Config, Connection), Error> {
    let start = async {
        let config = configured()?;
        let cosmos = config.cosmos_config().into_builder().operation_timeout(CLIENT_TIMEOUT);
        let (store, parts) = store_with(&config, cosmos.build()).await?;
        ready(&config, "Api");
        Ok((config, Connection::of(store, parts)))
    };
    start.await.inspect_err(report_start)
}

/// When an invocation with this deadline (Unix ms, from its context) must have been answered.
pub fn end_of_invocation(deadline_ms: u64) -> Instant {
    Budget::until(deadline_ms, SystemClock.now_ms()).end()
}

/// The parts of a function. An error is reported to Lambda.
async fn started() -> Result<(Config, Arc<CosmosProvider>, Parts), Error> {
    let start = async {
        let config = configured()?;
        let (store, parts) = store_of(&config).await?;
        Ok((config, store, parts))
    };
    start.await.inspect_err(report_start)
}

/// A function's configuration. It installs the logs.
fn configured() -> Result<Config, Error> {
    let config = Config::from_env().inspect_err(|error| {
        // The log level is a part of the configuration that failed.
        log::init("info");
        tracing::error!(%error, "the configuration cannot be used");
    })?;
    log::init(&config.log_level);
    Ok(config)
}

async fn store_of(config: &Config) -> Result<(Arc<CosmosProvider>, Parts), Error> {
    store_with(config, config.cosmos_config()).await
}

/// The store of this configuration, with what every function adds to it.
async fn store_with(config: &Config, cosmos: CosmosConfig) -> Result<(Arc<CosmosProvider>, Parts), Error> {
    let metrics = Arc::new(Metrics::new(config.metrics_namespace.clone()));
    let observer = Arc::clone(&metrics);
    let cosmos = cosmos
        .into_builder()
        .observer(observer)
        .request_timeout(REQUEST_TIMEOUT)
        .build();
    let store = Arc::new(CosmosProvider::connect(cosmos).await?);
    // In the background, so that the first invocation does not wait for it.
    let warming = Arc::clone(&store);
    tokio::task::spawn_blocking(move || warming.warm());
    let notifier: Arc<dyn Notifier> = Arc::new(Sqs::new(config.queues.clone()));
    let same = Arc::clone(&store);
    let parts = Parts::of(same, notifier, metrics, config.limits.clone(), environment_id());
    Ok((store, parts))
}

/// The id of this execution environment. Each has a log stream of its own.
fn environment_id() -> String {
    let stream = env::var("AWS_LAMBDA_LOG_STREAM_NAME")
        .ok()
        .filter(|name| !name.is_empty());
    stream.unwrap_or_else(|| RandomIds.unique())
}

async fn run(environment: &Environment, config: &Config) -> Result<(), Error> {
    let function = ready(config, &format!("{:?}", environment.role));
    let function = function.as_str();
    lambda_runtime::run(service_fn(move |event| guarded(invoke(environment, function, event)))).await
}

/// Logs that the function is ready, and returns its name.
fn ready(config: &Config, role: &str) -> String {
    let function = env::var("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_else(|_| role.to_owned());
    tracing::info!(
        function,
        role,
        endpoint = config.cosmos.endpoint,
        database = config.cosmos.database,
        container = config.cosmos.container,
        "ready"
    );
    function
}

async fn invoke(
    environment: &Environment,
    function: &str,
    event: LambdaEvent<Value>,
) -> Result<BatchResponse, FunctionError> {
    let started = Instant::now();
    let _request = log::invocation(&event.context.request_id);
    let budget = Budget::until(event.context.deadline, SystemClock.now_ms());
    let batch: SqsEvent = serde_json::from_value(event.payload).map_err(|error| FunctionError::no_batch(&error))?;
    let response = environment.serve(batch, budget).await;
    write_metrics(&environment.metrics, function, started);
    Ok(response)
}

fn write_metrics(metrics: &Metrics, function: &str, started: Instant) {
    if let Some(line) = metrics.flush(function, started.elapsed(), SystemClock.now_ms()) {
        // A failure cannot be reported: the log goes to stdout as well.
        writeln!(std::io::stdout(), "{line}").unwrap_or_default();
    }
}
