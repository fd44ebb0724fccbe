//! The real parts together: both function binaries, unmodified, under `cargo lambda`'s Runtime API, with moto's SQS as notifier,
//! with the store's key from moto's Secrets Manager.
//!
//! The test plays the event source mappings. It installs `cargo-lambda` and `moto` from PyPI, once per target directory.

use anyhow::{Context, Result, bail, ensure};
use cosmos_emulator::ServerOptions;
use duroxide::Client;
use duroxide::runtime::OrchestrationStatus;
use duroxide_lambda::Limits;
use duroxide_lambda::internals::Metrics;
use duroxide_lambda::internals::Parts;
use duroxide_lambda::notifier::{Queues, Sqs};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::World;
use tests::real::{Function, LambdaApi, Moto, Queue, Secret, Venv, build, wake_again};

const PATIENCE: Duration = Duration::from_secs(120);
/// Long enough for an invocation, short enough to wait for.
const VISIBILITY: Duration = Duration::from_secs(5);
/// After so long without a message a wakeup was lost, which maintenance would make up for.
const SILENCE: Duration = Duration::from_secs(8);
/// A well-formed key that opens nothing.
const OLD_KEY: &str = "YW4tb2xkLWtleS10aGF0LXdhcy1yb3RhdGVkLWF3YXk=";

/// Everything but the function processes.
struct Stage {
    world: World,
    moto: Moto,
    api: LambdaApi,
    turns: Queue,
    works: Queue,
    dead: Queue,
    secret: Secret,
    client: Client,
}

/// How many invocations each function had while the stage was driven.
#[derive(Debug, Default)]
struct Driven {
    turns: usize,
    works: usize,
}

impl Stage {
    async fn set(key: Option<&str>) -> Result<Stage> {
        let venv = Venv::ready().await?;
        let world = World::local(ServerOptions::default()).await;
        let moto = Moto::start(&venv).await?;
        let api = LambdaApi::start(&venv, &["orchestrator", "worker"]).await?;
        let turns = Queue::create(&moto, "turns", VISIBILITY).await?;
        let works = Queue::create(&moto, "works", VISIBILITY).await?;
        let dead = Queue::create(&moto, "dead", VISIBILITY).await?;
        turns.dead_letter(&dead, 3).await?;
        let secret = Secret::create(&moto, "cosmos-key", key.unwrap_or(&world.listener().key())).await?;
        let queues = Queues {
            orchestrator: turns.url().to_owned(),
            worker: works.url().to_owned(),
            tagged: BTreeMap::new(),
        };
        let queue = Arc::new(Sqs::with_client(moto.sqs(), queues));
        let metrics = Arc::new(Metrics::new(None));
        let parts = Parts::of(world.provider().await, queue, metrics, Limits::default(), "client");
        let client = Client::new(Arc::new(parts.notifying()));
        Ok(Stage {
            world,
            moto,
            api,
            turns,
            works,
            dead,
            secret,
            client,
        })
    }

    /// Starts both functions from their binaries, as deployed.
    async fn functions(&self) -> Result<(Function, Function)> {
        let [orchestrator, worker] = build(["orchestrator", "worker"]).await?;
        let (database, container) = self.world.names();
        let mut env = self.moto.env();
        for (name, value) in [
            ("COSMOS_ENDPOINT", self.world.listener().endpoint().as_str()),
            ("COSMOS_KEY_SECRET_ARN", self.secret.arn()),
            ("COSMOS_DATABASE", database),
            ("COSMOS_CONTAINER", container),
            ("ORCHESTRATOR_QUEUE_URL", self.turns.url()),
            ("WORKER_QUEUE_URL", self.works.url()),
        ] {
            env.push((name.to_owned(), value.to_owned()));
        }
        let orchestrator = Function::start(&self.api, "orchestrator", &orchestrator, env.clone())?;
        let worker = Function::start(&self.api, "worker", &worker, env)?;
        Ok((orchestrator, worker))
    }

    /// Feeds both queues to their functions until the order has an outcome.
    async fn drive(&self, order: &str) -> Result<(String, Driven)> {
        let limit = Instant::now() + PATIENCE;
        let mut driven = Driven::default();
        let mut busy = Instant::now();
        loop {
            let turn = self.turns.feed(&self.api, "orchestrator").await?;
            let work = self.works.feed(&self.api, "worker").await?;
            driven.turns += usize::from(turn.received > 0);
            driven.works += usize::from(work.received > 0);
            match self.client.get_orchestration_status(order).await? {
                OrchestrationStatus::Completed { output, .. } => return Ok((output, driven)),
                OrchestrationStatus::Failed { details, .. } => bail!("{order} failed: {details:?}"),
                _ => ensure!(Instant::now() < limit, "{order} did not end in time: {driven:?}"),
            }
            if turn.received + work.received > 0 {
                busy = Instant::now();
            } else if busy.elapsed() > SILENCE {
                wake_again(&self.world, &self.turns, &self.works).await?;
                busy = Instant::now();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn place(&self, order: &str) -> Result<()> {
        let input = format!(
            r#"{{"id": "{order}", "customer": "ada", "total_cents": 4200, "cooling_off_ms": 1000,
                "lines": [{{"sku": "teapot", "quantity": 1}}],
                "parcels": [{{"address": "12 Mill Lane"}}, {{"address": "Zürich \"☃\""}}]}}"#
        );
        self.client
            .start_orchestration(order, workflows::FULFIL_ORDER, input)
            .await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: cargo-lambda and moto from PyPI"]
async fn an_order_is_fulfilled_by_the_binaries_that_are_deployed() -> Result<()> {
    let stage = Stage::set(None).await?;
    let (mut orchestrator, worker) = stage.functions().await?;
    let order = "order/1 ☃";
    stage.place(order).await?;
    stage.turns.send("this is no wakeup").await?;
    let (output, driven) = stage.drive(order).await?;
    ensure!(output.contains(r#""outcome":"shipped""#), "{output}");
    ensure!(driven.turns >= 3 && driven.works >= 2, "{driven:?}");

    // The message that is no wakeup fails each time, affects no other, and ends in the dead-letter queue.
    let limit = Instant::now() + PATIENCE;
    while stage.dead.depth().await? == 0 {
        ensure!(
            Instant::now() < limit,
            "the malformed message never came to the dead-letter queue"
        );
        stage.turns.feed(&stage.api, "orchestrator").await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let refused = orchestrator
        .wait_for(PATIENCE, |line| {
            line.contains("a message was refused").then(|| line.to_owned())
        })
        .await?;
    let refused: Value = serde_json::from_str(&refused)?;
    ensure!(
        refused["message_id"].is_string() && refused["level"] == "ERROR",
        "{refused}"
    );

    check_logs_and_metrics(&orchestrator, order, "turn")?;
    check_logs_and_metrics(&worker, order, "activity")?;
    let key = stage.world.listener().key();
    for line in [
        orchestrator.stdout(),
        orchestrator.stderr(),
        worker.stdout(),
        worker.stderr(),
    ]
    .concat()
    {
        ensure!(!line.contains(&key), "the key is in the log");
    }
    Ok(())
}

/// The logs and metrics of a function.
fn check_logs_and_metrics(function: &Function, order: &str, step: &str) -> Result<()> {
    let records = function.records();
    let logged = records
        .iter()
        .find(|record| record["message"] == "a step ended" && record["instance"] == order)
        .with_context(|| format!("no step of the order is logged: {records:?}"))?;
    ensure!(logged["execution"] == 1 && logged[step].is_u64(), "{logged}");
    ensure!(
        logged["requestId"].as_str().is_some_and(|id| !id.is_empty()),
        "{logged}"
    );
    ensure!(
        logged["outcome"] == "Committed" && logged["wakeups"].is_u64(),
        "{logged}"
    );
    let metrics: Vec<&Value> = records.iter().filter(|record| record["_aws"].is_object()).collect();
    let sum = |name: &str| metrics.iter().filter_map(|line| line[name].as_f64()).sum::<f64>();
    ensure!(sum("ColdStarts") == 1.0, "one cold start: {metrics:?}");
    ensure!(sum("Committed") >= 2.0 && sum("WakeupsSent") >= 2.0, "{metrics:?}");
    ensure!(sum("CosmosRequests") >= 6.0, "{metrics:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: cargo-lambda and moto from PyPI"]
async fn warm_functions_continue_after_the_key_is_rotated_in_the_secret() -> Result<()> {
    let stage = Stage::set(Some(OLD_KEY)).await?;
    let (mut orchestrator, mut worker) = stage.functions().await?;
    stage.place("order-2").await?;
    // With the old key nothing can be served, and nothing is lost.
    let fed = stage.turns.feed(&stage.api, "orchestrator").await?;
    ensure!(fed.received == 1 && fed.failed.len() == 1, "{fed:?}");
    let said = orchestrator
        .wait_for(PATIENCE, |line| line.contains("a step failed").then(|| line.to_owned()))
        .await?;
    ensure!(said.contains("key") && !said.contains(OLD_KEY), "{said}");

    stage
        .secret
        .put(&format!(r#"{{"key": "{}"}}"#, stage.world.listener().key()))
        .await?;
    let (output, _) = stage.drive("order-2").await?;
    ensure!(output.contains(r#""outcome":"shipped""#), "{output}");
    ensure!(
        orchestrator.is_running() && worker.is_running(),
        "both are the same processes as before"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: cargo-lambda and moto from PyPI"]
async fn functions_that_are_killed_between_invocations_lose_nothing() -> Result<()> {
    let stage = Stage::set(None).await?;
    let (mut orchestrator, mut worker) = stage.functions().await?;
    stage.place("order-3").await?;
    stage.turns.feed(&stage.api, "orchestrator").await?;
    // As Lambda ends environments.
    orchestrator.kill();
    worker.kill();
    let (_orchestrator, _worker) = stage.functions().await?;
    let (output, _) = stage.drive("order-3").await?;
    ensure!(output.contains(r#""outcome":"shipped""#), "{output}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: cargo-lambda and moto from PyPI"]
async fn a_function_with_a_wrong_configuration_ends_with_all_that_is_wrong() -> Result<()> {
    let venv = Venv::ready().await?;
    let api = LambdaApi::start(&venv, &["orchestrator"]).await?;
    let [binary] = build(["orchestrator"]).await?;
    let env = [("COSMOS_ENDPOINT", "http://example.com"), ("COSMOS_KEY", "c2VjcmV0")];
    let mut function = Function::start(&api, "orchestrator", &binary, env)?;
    let said = function
        .wait_for(PATIENCE, |line| {
            line.contains("the configuration cannot be used")
                .then(|| line.to_owned())
        })
        .await?;
    for part in ["COSMOS_ENDPOINT", "ORCHESTRATOR_QUEUE_URL", "WORKER_QUEUE_URL"] {
        ensure!(said.contains(part), "{part}: {said}");
    }
    ensure!(!said.contains("c2VjcmV0"), "{said}");
    let limit = Instant::now() + PATIENCE;
    while function.is_running() {
        ensure!(Instant::now() < limit, "it goes on without a configuration");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
