//! What the stack made is enough to run workflows: the binaries, with the variables, queues and secret of the stack.
//!
//! Only the store's address differs from a deployment: the strict server is on this machine, which the template would not
//! take.

use crate::deploy::Stack;
use crate::template::{parameters, text};
use anyhow::{Context, Result, bail, ensure};
use duroxide::Client;
use duroxide::runtime::OrchestrationStatus;
use duroxide_lambda::config::Config;
use duroxide_lambda::doorbell::Sqs;
use duroxide_lambda::meter::Meter;
use duroxide_lambda::{Limits, Parts};
use local::ServerOptions;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::World;
use tests::real::{Function, LambdaApi, Queue, Venv, build};

const PATIENCE: Duration = Duration::from_secs(120);

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
        put.secret_string(world.door().key()).send().await?;
        let api = LambdaApi::start(&Venv::ready().await?, &["flow-orchestrator", "flow-worker"]).await?;
        let mut functions = Vec::new();
        for (suffix, output) in [("orchestrator", "OrchestratorQueueUrl"), ("worker", "WorkerQueueUrl")] {
            let [binary] = build([suffix]).await?;
            let mut env = stack.variables(suffix);
            env.extend(stack.moto.env());
            env.extend(store(&world));
            let name = format!("flow-{suffix}");
            functions.push(Mapped {
                queue: Queue::at(&stack.moto, stack.made["outputs"][output].as_str().context(output)?).await?,
                process: Function::start(&api, &name, &binary, env)?,
                name,
            });
        }
        let client = client(&stack, &world).await?;
        Ok(Deployment {
            world,
            api,
            functions,
            client,
            stack,
        })
    }

    /// Feeds the queues to their functions until the instance has ended.
    async fn drive(&self, instance: &str) -> Result<OrchestrationStatus> {
        let limit = Instant::now() + PATIENCE;
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
            if received == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Where the strict server is.
fn store(world: &World) -> Vec<(String, String)> {
    let (database, container) = world.names();
    let pairs = [
        ("COSMOS_ENDPOINT", world.door().endpoint()),
        ("COSMOS_DATABASE", database.to_owned()),
        ("COSMOS_CONTAINER", container.to_owned()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// A program that starts orchestrations, with the variables of a function.
async fn client(stack: &Stack, world: &World) -> Result<Client> {
    let variables: BTreeMap<String, String> = stack.variables("orchestrator").into_iter().collect();
    let config = Config::from_variables(|name| variables.get(name).cloned())?;
    let bell = Arc::new(Sqs::with_client(stack.moto.sqs(), config.queues));
    let meter = Arc::new(Meter::new(None));
    let parts = Parts::of(world.provider().await, bell, meter, Limits::default(), "client");
    Ok(Client::new(Arc::new(parts.ringing())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_fulfilled_on_what_the_stack_made() -> Result<()> {
    let deployment = Deployment::create().await?;
    let input = r#"{"id": "o", "customer": "ada", "total_cents": 4200, "cooling_off_ms": 100,
        "lines": [{"sku": "teapot", "quantity": 1}], "parcels": [{"address": "12 Mill Lane"}]}"#;
    deployment
        .client
        .start_orchestration("o", workflows::FULFIL_ORDER, input)
        .await?;
    match deployment.drive("o").await? {
        OrchestrationStatus::Completed { output, .. } => assert!(output.contains(r#""outcome":"shipped""#), "{output}"),
        other => bail!("{other:?}"),
    }
    assert!(deployment.world.door().counts().requests > 0);
    Ok(())
}

/// A failed workflow is visible to an operator, even though its invocation succeeded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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
