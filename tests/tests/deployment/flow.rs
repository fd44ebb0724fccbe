//! What the stack made is enough to run workflows: the binaries, with the variables, queues and secret of the stack.
//!
//! The store's address differs from a deployment: the emulator is on this machine, which the template would refuse.
//! So do two times: on a busy machine a wakeup may take long to reach moto, and a lost one is sent again soon.

use crate::deploy::Stack;
use crate::template::{parameters, text};
use anyhow::{Context, Result, bail, ensure};
use cosmos_emulator::ServerOptions;
use duroxide::Client;
use duroxide::runtime::OrchestrationStatus;
use duroxide_lambda::Limits;
use duroxide_lambda::config::Config;
use duroxide_lambda::internals::Metrics;
use duroxide_lambda::internals::Parts;
use duroxide_lambda::notifier::Sqs;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::World;
use tests::real::{Function, LambdaApi, Queue, Venv, build};

const PATIENCE: Duration = Duration::from_secs(240);
const WAKEUP: Duration = Duration::from_secs(30);
const MAINTENANCE: &str = "flow-maintenance";
/// After so many rounds in which the queues are empty, maintenance runs.
const IDLE_ROUNDS: u32 = 20;

/// A function of the stack, and the queue that its mapping reads.
struct Mapped {
    name: String,
    queue: Queue,
    process: Function,
}

struct Deployment {
    world: World,
    api: LambdaApi,
    functions: Vec<Mapped>,
    _maintenance: Function,
    client: Client,
    stack: Stack,
}

impl Deployment {
    async fn create() -> Result<Deployment> {
        let stack = Stack::create(&parameters(&[])).await?;
        let world = World::local(ServerOptions::default()).await;
        // As an operator who rotates the key.
        let secret = text(&stack.made["outputs"]["KeySecretArn"]);
        let secrets = stack.moto.secrets();
        let put = secrets.put_secret_value().secret_id(&secret);
        put.secret_string(world.listener().key()).send().await?;
        let names = ["flow-orchestrator", "flow-worker", MAINTENANCE];
        let api = LambdaApi::start(&Venv::ready().await?, &names).await?;
        let [orchestrator, worker, maintenance] = build(["orchestrator", "worker", "maintenance"]).await?;
        let env = |suffix: &str| {
            let mut env = stack.variables(suffix);
            env.extend(stack.moto.env());
            env.extend(here(&world));
            env
        };
        let mut functions = Vec::new();
        for (suffix, binary, output) in [
            ("orchestrator", orchestrator, "OrchestratorQueueUrl"),
            ("worker", worker, "WorkerQueueUrl"),
        ] {
            let name = format!("flow-{suffix}");
            functions.push(Mapped {
                queue: Queue::at(&stack.moto, stack.made["outputs"][output].as_str().context(output)?).await?,
                process: Function::start(&api, &name, &binary, env(suffix))?,
                name,
            });
        }
        let maintenance = Function::start(&api, MAINTENANCE, &maintenance, env("maintenance"))?;
        let client = client(&stack, &world).await?;
        Ok(Deployment {
            world,
            api,
            functions,
            _maintenance: maintenance,
            client,
            stack,
        })
    }

    /// Takes a wakeup from the orchestrator's queue and drops it.
    async fn lose_a_wakeup(&self) -> Result<()> {
        let queue = &self.functions[0].queue;
        let batch = queue.receive().await?;
        ensure!(batch.messages().len() == 1, "a start sends one wakeup");
        queue.delete_served(&batch, &BTreeSet::new()).await
    }

    /// Feeds the queues to their functions until the instance has ended; when nothing comes, maintenance looks.
    async fn drive(&self, instance: &str) -> Result<OrchestrationStatus> {
        let limit = Instant::now() + PATIENCE;
        let mut idle = 0;
        loop {
            let mut received = 0;
            for function in &self.functions {
                let fed = function.queue.feed(&self.api, &function.name).await?;
                ensure!(fed.failed.is_empty(), "{fed:?}");
                received += fed.received;
            }
            match self.client.get_orchestration_status(instance).await? {
                OrchestrationStatus::Running { .. } | OrchestrationStatus::NotFound => {}
                ended => return Ok(ended),
            }
            if Instant::now() > limit {
                bail!("{instance} did not end in time");
            }
            if received > 0 {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle % IDLE_ROUNDS == 0 {
                self.api.invoke(MAINTENANCE, &json!({})).await?;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// What is not as in a deployment: where the emulator is, and the times.
fn here(world: &World) -> Vec<(String, String)> {
    let (database, container) = world.names();
    let pairs = [
        ("DUROXIDE_NOTIFY_TIMEOUT_MS", WAKEUP.as_millis().to_string()),
        ("MAINTENANCE_OVERDUE_SECONDS", "1".to_owned()),
        ("COSMOS_ENDPOINT", world.listener().endpoint()),
        ("COSMOS_DATABASE", database.to_owned()),
        ("COSMOS_CONTAINER", container.to_owned()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// A program that starts orchestrations, with the variables of a function.
async fn client(stack: &Stack, world: &World) -> Result<Client> {
    let variables: BTreeMap<String, String> = stack.variables("orchestrator").into_iter().collect();
    let config = Config::from_variables(|name| variables.get(name).cloned())?;
    let queue = Arc::new(Sqs::with_client(stack.moto.sqs(), config.queues));
    let metrics = Arc::new(Metrics::new(None));
    let limits = Limits {
        notify_timeout: WAKEUP,
        ..Limits::default()
    };
    let parts = Parts::of(world.provider().await, queue, metrics, limits, "client");
    Ok(Client::new(Arc::new(parts.notifying())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: cargo-lambda, sam and moto from PyPI"]
async fn an_order_is_fulfilled_on_what_the_stack_made_though_its_first_wakeup_is_lost() -> Result<()> {
    let deployment = Deployment::create().await?;
    let input = r#"{"id": "o", "customer": "ada", "total_cents": 4200, "cooling_off_ms": 100,
        "lines": [{"sku": "teapot", "quantity": 1}], "parcels": [{"address": "12 Mill Lane"}]}"#;
    deployment
        .client
        .start_orchestration("o", workflows::FULFIL_ORDER, input)
        .await?;
    deployment.lose_a_wakeup().await?;
    match deployment.drive("o").await? {
        OrchestrationStatus::Completed { output, .. } => assert!(output.contains(r#""outcome":"shipped""#), "{output}"),
        other => bail!("{other:?}"),
    }
    assert!(deployment.world.listener().counts().requests > 0);
    Ok(())
}

/// A failed workflow is visible to an operator, even though its invocation succeeded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: cargo-lambda, sam and moto from PyPI"]
async fn a_failed_workflow_raises_its_alarm_though_no_invocation_failed() -> Result<()> {
    let mut deployment = Deployment::create().await?;
    deployment
        .client
        .start_orchestration("f", workflows::FULFIL_ORDER, "this is no order")
        .await?;
    let ended = deployment.drive("f").await?;
    assert!(matches!(ended, OrchestrationStatus::Failed { .. }), "{ended:?}");
    let alarms = deployment.stack.made["alarms"].as_array().unwrap().clone();
    let alarm = alarms
        .iter()
        .find(|alarm| alarm["MetricName"] == "OrchestrationsFailed")
        .unwrap();
    let [namespace, name] = ["Namespace", "MetricName"].map(|field| text(&alarm[field]));
    let (dimension, value) = (
        text(&alarm["Dimensions"][0]["Name"]),
        text(&alarm["Dimensions"][0]["Value"]),
    );
    let height = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        let is = directive["Namespace"] == namespace.as_str() && line[&dimension] == value.as_str();
        line[&name].as_f64().filter(|height| is && *height > 0.0)
    };
    let height = deployment.functions[0].process.wait_for(PATIENCE, height).await?;
    assert!(height > alarm["Threshold"].as_f64().unwrap(), "{height}");
    Ok(())
}
