//! The demo: orders run through the real function binaries while function processes are killed and wakeups are lost.
//!
//! ```text
//!   orders ──> place ──> watch: approve, cancel, report progress, until all have finished ──> audit histories ──> Report
//!                  chaos: kills at times that a seed decides
//! ```
//!
//! | module | role |
//! |---|---|
//! | `orders` | the orders, each with the outcome that it must have |
//! | `chaos` | which processes are killed, and when |
//! | `watch` | waits for the orders, and plays the people who approve and cancel them |
//! | `audit` | checks histories: each activity has one result, each order one charge |
//! | `turns` | counts committed turns in the functions' logs |
//! | `report` | what the demo found |
//!
//! The demo reaches the store through a listener of its own, so that its own requests are not counted as the orders'. How
//! progress and report are shown is up to the caller.

mod audit;
mod chaos;
mod orders;
mod report;
mod turns;
mod watch;

pub use audit::Audit;
pub use report::Report;
pub use turns::TurnCounter;
pub use watch::Progress;

use crate::cloud::{Cloud, ORCHESTRATOR_QUEUE, WORKER_QUEUE};
use chaos::Kill;
use duroxide::providers::ProviderError;
use duroxide::{Client, ClientError};
use duroxide_cosmos::ConnectError;
use duroxide_lambda::ConfigError;
use duroxide_lambda::notifier::Sqs;
use duroxide_lambda::{Config, Connection, MaintenanceSettings};
use futures::{StreamExt as _, TryStreamExt as _};
use orders::PlacedOrder;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Concurrent calls to the store, which shares the processors with the functions.
const CONCURRENT_CALLS: usize = 8;

/// What the demo does.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// How many orders.
    pub orders: usize,
    /// How many function processes are killed.
    pub kills: usize,
    /// Decides which processes are killed, and when.
    pub seed: u64,
    /// Begins the ids of all orders: a store that is kept may have orders of an earlier run.
    pub id_prefix: String,
    /// All orders must have finished by then.
    pub limit: Duration,
}

/// Why the demo has no report.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// No listener for the demo's own requests.
    #[error("the demo cannot open a listener of its own")]
    Listen(#[from] cosmos_emulator::StartError),
    /// The cloud's variables are not a configuration.
    #[error("the variables of the local cloud cannot be used")]
    Config(#[from] ConfigError),
    /// No connection to the store.
    #[error("the demo cannot connect to the store")]
    Connect(#[from] ConnectError),
    /// An order could not be placed, read or answered.
    #[error("order {order}")]
    Order {
        /// The order's id.
        order: String,
        /// What the store answered.
        source: ClientError,
    },
    /// An order could not be explained.
    #[error("order {order} cannot be explained")]
    Explain {
        /// The order's id.
        order: String,
        /// What the store answered.
        source: ProviderError,
    },
    /// Dead letters could not be counted.
    #[error("the dead letters cannot be counted")]
    DeadLetters(#[from] ProviderError),
    /// Some orders did not finish in time.
    #[error("after {} s these orders have not finished: {}", limit.as_secs(), orders.join(", "))]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// Their ids.
        orders: Vec<String>,
    },
}

impl DemoError {
    fn of(order: &str) -> impl FnOnce(ClientError) -> DemoError {
        let order = order.to_owned();
        |source| DemoError::Order { order, source }
    }
}

/// Runs the orders on a cloud. `turns` must take the cloud's log lines.
///
/// # Errors
/// When the store cannot be reached, or the orders do not finish in time.
pub async fn run(
    options: &DemoOptions,
    cloud: &Cloud,
    turns: &TurnCounter,
    show: impl FnMut(&Progress),
) -> Result<Report, DemoError> {
    let connection = connect(cloud).await?;
    let client = connection.client();
    let orders = orders::orders(options.orders, &options.id_prefix);
    let requests = || cloud.listener().map(|listener| listener.counts().requests);
    let (requests_before, begun) = (requests(), Instant::now());
    let watched = async {
        place(client, &orders).await?;
        watch::until_finished(client, &orders, cloud, options.limit, show).await
    };
    let killing = kill(chaos::plan(options.kills, options.seed), cloud);
    let outcomes = tokio::select! {
        outcomes = watched => outcomes?,
        never = killing => match never {},
    };
    let mut report = Report {
        orders: orders.len(),
        turns: turns.count(),
        cosmos_requests: requests_before.zip(requests()).map(|(before, now)| now - before),
        elapsed: begun.elapsed(),
        ..Report::default()
    };
    report.add_dead_letters(connection.store().dead_letter_count().await?);
    let audits = orders.iter().map(|placed| audit(client, &placed.order.id));
    let audits: Vec<_> = audits.collect();
    let audits: Vec<Audit> = futures::stream::iter(audits)
        .buffered(CONCURRENT_CALLS)
        .try_collect()
        .await?;
    for ((placed, outcome), audit) in orders.iter().zip(outcomes).zip(audits) {
        report.add_order(placed, outcome, audit);
    }
    count(cloud, &mut report);
    report.explained = explain_failed(&connection, &orders).await?;
    Ok(report)
}

/// Places some orders that people can look at: two wait for an approval for a day, and one fails because its input is no order.
///
/// # Errors
/// When the store cannot be reached.
pub async fn place_open(cloud: &Cloud, id_prefix: &str) -> Result<(), DemoError> {
    let connection = connect(cloud).await?;
    let client = connection.client();
    for order in orders::open(id_prefix) {
        let started = client.start_orchestration_typed(&order.id, workflows::FULFIL_ORDER, order.clone());
        started.await.map_err(DemoError::of(&order.id))?;
    }
    let broken = format!("{id_prefix}-broken");
    let started = client.start_orchestration(&broken, workflows::FULFIL_ORDER, r#"{"customer": "ada"}"#);
    started.await.map_err(DemoError::of(&broken))
}

async fn connect(cloud: &Cloud) -> Result<Connection, DemoError> {
    let mut variables = cloud.variables().clone();
    if let Some(server) = cloud.cosmos() {
        let listener = server.open_listener().await?;
        variables.insert("COSMOS_ENDPOINT".to_owned(), listener.endpoint());
    }
    let get = |name: &str| variables.get(name).cloned();
    let config = Config::from_variables(get)?;
    let notifier = Arc::new(Sqs::from_variables(config.queues.clone(), get));
    Ok(Connection::new(config.cosmos_config(), notifier, config.limits.clone()).await?)
}

async fn place(client: &Client, orders: &[PlacedOrder]) -> Result<(), DemoError> {
    let starts: Vec<_> = orders
        .iter()
        .map(|PlacedOrder { order, .. }| async move {
            let started = client.start_orchestration_typed(&order.id, workflows::FULFIL_ORDER, order.clone());
            started.await.map_err(DemoError::of(&order.id))
        })
        .collect();
    let started = futures::stream::iter(starts).buffer_unordered(CONCURRENT_CALLS);
    started.try_collect().await
}

/// What `explain` says of the first order that must fail.
async fn explain_failed(
    connection: &Connection,
    orders: &[PlacedOrder],
) -> Result<Option<(String, String)>, DemoError> {
    let Some(failed) = orders.iter().find(|placed| placed.expected == orders::FAILED) else {
        return Ok(None);
    };
    let order = failed.order.id.clone();
    match connection.explain(&order, &MaintenanceSettings::default()).await {
        Ok(explained) => Ok(explained.map(|explained| (order, explained.sentence))),
        Err(source) => Err(DemoError::Explain { order, source }),
    }
}

/// Plans each kill at its time; never returns, so that the watch decides when the demo ends.
async fn kill(plan: Vec<Kill>, cloud: &Cloud) -> Infallible {
    let begun = Instant::now();
    for kill in plan {
        tokio::time::sleep_until(begun + kill.at).await;
        cloud.kill_next(kill.function, kill.into);
    }
    std::future::pending().await
}

/// Reads the histories of an order and its parcels.
async fn audit(client: &Client, order: &str) -> Result<Audit, DemoError> {
    let read = async {
        let mut audit = Audit::default();
        for instance in client.get_instance_tree(order).await?.all_ids {
            for execution in client.list_executions(&instance).await? {
                let history = client.read_execution_history(&instance, execution).await?;
                audit.add(&instance, execution, &history);
            }
        }
        Ok(audit)
    };
    read.await.map_err(DemoError::of(order))
}

fn count(cloud: &Cloud, report: &mut Report) {
    let status = cloud.status();
    for (name, function) in &status.functions {
        report.kills.insert(name.clone(), function.killed);
    }
    let queues = [ORCHESTRATOR_QUEUE, WORKER_QUEUE];
    for queue in queues.iter().filter_map(|name| status.queues.get(*name)) {
        report.wakeups += queue.counts.sent;
        report.wakeups_lost += queue.counts.lost;
    }
}
