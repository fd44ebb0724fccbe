//! The demo: orders through the real function binaries, whose processes are killed at random meanwhile.
//!
//! ```text
//!   orders ──> place ──> watch: approve, cancel, show, until all are over ──> audit the histories ──> summary
//!                  chaos: traps for the next invocations, by a seed
//! ```
//!
//! The demo reaches the store by a listener of its own, so that what it asks while it watches is not counted as the orders'.
//! All is well only if every order has the outcome that it must have, every activity has one result and every order one
//! charge, and nothing became a dead letter.

mod audit;
mod chaos;
mod orders;
mod progress;
mod summary;
mod tally;
mod watch;

pub use summary::Summary;
pub use tally::Tally;

use crate::cloud::{Cloud, TURNS, WORKS};
use anyhow::{Context as _, bail};
use audit::Audit;
use chaos::Kill;
use duroxide::Client;
use duroxide_lambda::notifier::Sqs;
use duroxide_lambda::{Config, Connection};
use futures::StreamExt as _;
use orders::Placed;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Calls on their way at once: the store is on the same two cores.
const AT_ONCE: usize = 8;

/// What is to be shown.
#[derive(Clone, Debug)]
pub struct Show {
    pub orders: usize,
    pub kills: usize,
    pub seed: u64,
    /// Tells these orders from those of another run on the same store.
    pub run: String,
    /// All must be over by then.
    pub limit: Duration,
}

/// Runs the orders on a cloud.
pub async fn run(show: &Show, cloud: &Cloud, tally: &Tally) -> anyhow::Result<Summary> {
    let connection = connect(cloud).await?;
    let client = connection.client();
    let orders = orders::orders(show.orders, &show.run);
    let requests = || cloud.listener().map(|listener| listener.counts().requests);
    let before = requests();
    let begun = Instant::now();
    let watched = async {
        place(client, &orders).await?;
        watch::until_over(client, &orders, cloud, show.limit).await
    };
    let killing = kill(chaos::plan(show.kills, show.seed), cloud);
    let ended = tokio::select! {
        ended = watched => ended?,
        never = killing => match never {},
    };
    let elapsed = begun.elapsed();
    let cosmos_requests = before.zip(requests()).map(|(before, now)| now - before);
    let mut summary = Summary {
        orders: orders.len(),
        turns: tally.turns(),
        cosmos_requests,
        elapsed,
        dead_letters: connection.store().dead_letter_count().await?,
        ..Summary::default()
    };
    for (placed, outcome) in orders.iter().zip(&ended) {
        *summary.outcomes.entry(outcome.clone()).or_default() += 1;
        if outcome != placed.expected {
            let problem = format!("{}: {outcome}, and should be {}", placed.order.id, placed.expected);
            summary.problems.push(problem);
        }
    }
    if summary.dead_letters > 0 {
        let problem = format!(
            "{} dead letters: see `duroxide-lambda dead-letters`",
            summary.dead_letters
        );
        summary.problems.push(problem);
    }
    examine(client, &orders, &mut summary).await?;
    count(cloud, &mut summary);
    Ok(summary)
}

async fn connect(cloud: &Cloud) -> anyhow::Result<Connection> {
    let mut variables = cloud.variables().clone();
    if let Some(server) = cloud.cosmos() {
        let listener = server.open_listener().await?;
        variables.insert("COSMOS_ENDPOINT".to_owned(), listener.endpoint());
    }
    let get = |name: &str| variables.get(name).cloned();
    let config = Config::from_variables(get)?;
    let notifier = Arc::new(Sqs::from_variables(config.queues.clone(), get));
    let connection = Connection::new(config.cosmos_config(), notifier, config.limits.clone()).await;
    connection.context("the demo cannot reach the store")
}

async fn place(client: &Client, orders: &[Placed]) -> anyhow::Result<()> {
    let starts = orders.iter().map(|placed| async move {
        let input = serde_json::to_string(&placed.order)?;
        client
            .start_orchestration(&placed.order.id, workflows::FULFIL_ORDER, input)
            .await
            .with_context(|| format!("order {} cannot be placed", placed.order.id))
    });
    let starts: Vec<_> = starts.collect();
    let placed: Vec<anyhow::Result<()>> = futures::stream::iter(starts).buffer_unordered(AT_ONCE).collect().await;
    placed.into_iter().collect()
}

/// Sets the traps, each at its time; then there is nothing left to do.
async fn kill(plan: Vec<Kill>, cloud: &Cloud) -> Infallible {
    let begun = Instant::now();
    for kill in plan {
        tokio::time::sleep_until(begun + kill.at).await;
        cloud.kill_next(kill.function, kill.into);
    }
    std::future::pending().await
}

/// Reads the histories of all orders and their parcels.
async fn examine(client: &Client, orders: &[Placed], summary: &mut Summary) -> anyhow::Result<()> {
    let readings: Vec<_> = orders
        .iter()
        .map(|placed| histories(client, &placed.order.id))
        .collect();
    let audits: Vec<anyhow::Result<Audit>> = futures::stream::iter(readings).buffered(AT_ONCE).collect().await;
    for (placed, audit) in orders.iter().zip(audits) {
        let audit = audit.with_context(|| format!("the history of {} cannot be read", placed.order.id))?;
        if audit.charges != 1 {
            summary.mischarged += 1;
            let problem = format!("{}: charged {} times", placed.order.id, audit.charges);
            summary.problems.push(problem);
        }
        summary.audit.merge(audit);
    }
    Ok(())
}

async fn histories(client: &Client, order: &str) -> anyhow::Result<Audit> {
    let mut audit = Audit::default();
    for instance in client.get_instance_tree(order).await?.all_ids {
        for execution in client.list_executions(&instance).await? {
            let history = client.read_execution_history(&instance, execution).await?;
            if history.is_empty() {
                bail!("execution {execution} of {instance} has no history");
            }
            audit.add(&instance, &history);
        }
    }
    Ok(audit)
}

fn count(cloud: &Cloud, summary: &mut Summary) {
    let status = cloud.status();
    for (name, function) in &status.functions {
        summary.kills.insert(name.clone(), function.killed);
    }
    for queue in [TURNS, WORKS].iter().filter_map(|name| status.queues.get(*name)) {
        summary.wakeups += queue.counts.sent;
        summary.wakeups_lost += queue.counts.lost;
    }
}
