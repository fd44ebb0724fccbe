//! Builds of the same functions, deployed one after the other while orders wait.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use cosmos_emulator::ServerOptions;
use duroxide_cosmos::InstanceStatus;
use duroxide_lambda::notifier::Sqs;
use duroxide_lambda::{Config, Connection};
use local_cloud::{Cloud, CloudOptions, Functions, Store};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FUNCTION: &str = env!("CARGO_BIN_EXE_builds_function");
const ORDERS: usize = 5;

/// A cloud on which this build is deployed.
struct Deployment {
    cloud: Cloud,
    connection: Connection,
}

impl Deployment {
    async fn of(build: &str, directory: &Path) -> Result<Deployment> {
        let mut options = CloudOptions::of(Functions {
            orchestrator: FUNCTION.into(),
            worker: FUNCTION.into(),
            maintenance: FUNCTION.into(),
            api: None,
        });
        options.store = Store::Embedded(ServerOptions {
            data: Some(directory.join("data")),
            ..ServerOptions::default()
        });
        let effects = directory.join("effects").to_string_lossy().into_owned();
        for (name, value) in [
            ("ORDER_BUILD", build),
            ("DUROXIDE_BUILD", build),
            ("ORDER_EFFECTS", &effects),
        ] {
            options.variables.push((name.to_owned(), value.to_owned()));
        }
        let cloud = Cloud::start(options).await?;
        let get = |name: &str| cloud.variables().get(name).cloned();
        let config = Config::from_variables(get)?;
        let notifier = Arc::new(Sqs::from_variables(config.queues.clone(), get));
        let connection = Connection::new(config.cosmos_config(), notifier, config.limits.clone()).await?;
        Ok(Deployment { cloud, connection })
    }

    /// Waits until all orders have this status.
    async fn until_all(&self, status: InstanceStatus) -> Result<()> {
        let begun = Instant::now();
        loop {
            let mut seen = Vec::new();
            for order in 0..ORDERS {
                let summary = self.connection.store().instance_summary(&id(order)).await?;
                seen.push(summary.with_context(|| format!("{} exists", id(order)))?);
            }
            if seen.iter().all(|summary| summary.status == status) {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "not all are {status}: {seen:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn end(self) -> Result<()> {
        self.cloud.shutdown().await?;
        Ok(())
    }
}

fn id(order: usize) -> String {
    format!("order-{order}")
}

/// How often each activity ran, of all orders.
fn effects(directory: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(directory.join("effects")).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

/// Orders wait; a careless build is deployed and blocks them; another build lets them go on, each effect once.
async fn recovered_by(build: &str) -> Result<()> {
    let directory = fresh_directory(&format!("builds-{build}"))?;
    let first = Deployment::of("first", &directory).await?;
    for order in 0..ORDERS {
        let client = first.connection.client();
        client.start_orchestration(&id(order), "Order", "").await?;
    }
    until("all are charged", || effects(&directory).get("Charge") == Some(&ORDERS)).await?;
    first.until_all(InstanceStatus::Running).await?;
    first.end().await?;

    let careless = Deployment::of("careless", &directory).await?;
    for order in 0..ORDERS {
        let client = careless.connection.client();
        client.enqueue_event(&id(order), "delivery", "tuesday").await?;
    }
    careless.until_all(InstanceStatus::Blocked).await?;
    careless.end().await?;

    let recovered = Deployment::of(build, &directory).await?;
    recovered.until_all(InstanceStatus::Completed).await?;
    let counts: Vec<(String, usize)> = effects(&directory).into_iter().collect();
    let once = [("Charge".to_owned(), ORDERS), ("Ship".to_owned(), ORDERS)];
    ensure!(counts == once, "each effect once, and no check: {counts:?}");
    recovered.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: three deployments of real processes"]
async fn a_rollback_lets_the_orders_of_a_careless_build_go_on() -> Result<()> {
    recovered_by("first").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: three deployments of real processes"]
async fn a_fixed_build_lets_the_orders_of_a_careless_build_go_on() -> Result<()> {
    recovered_by("fixed").await
}
