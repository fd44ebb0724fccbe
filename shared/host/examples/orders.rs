//! Six orders, fulfilled by the orchestrator and worker functions in one process: no account, no queue, no set-up.
//!
//! The store is the embedded strict Cosmos DB and the doorbell a list in memory, whose rings become invocations as SQS
//! would have it. Everything between is what runs on Lambda.
//!
//! `cargo run -p duroxide-lambda --example orders`

use anyhow::{Context, Result, bail};
use cosmos::{Key, StaticKey, Throughput};
use duroxide::Client;
use duroxide::providers::TagFilter;
use duroxide::runtime::OrchestrationStatus;
use duroxide_cosmos::{CosmosConfig, CosmosProvider};
use duroxide_lambda::doorbell::Memory;
use duroxide_lambda::meter::Meter;
use duroxide_lambda::{Budget, Environment, Limits, Parts, Ring, SqsEvent, SqsRecord, Target};
use local::{CosmosServer, ServerOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};
use workflows::{Line, Order, Parcel};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<()> {
    // Only trouble is shown; `info` shows each cycle, as CloudWatch would have it.
    duroxide_lambda::log::init("error");
    let server = CosmosServer::start(ServerOptions::default()).await?;
    let bell = Arc::new(Memory::new());
    let client = Client::new(Arc::new(parts(&server, &bell, "client").await?.ringing()));
    let orchestrator = parts(&server, &bell, "orchestrator").await?;
    let worker = parts(&server, &bell, "worker").await?;
    server.door().reset();
    let functions = Functions {
        orchestrator: Environment::orchestrator(orchestrator, workflows::orchestrations()).await,
        worker: Environment::worker(worker, workflows::activities(), TagFilter::DefaultOnly).await,
    };
    let pump = tokio::spawn(pump(Arc::clone(&bell), Arc::new(functions)));

    let started = Instant::now();
    let orders = orders();
    for order in &orders {
        let input = serde_json::to_string(order)?;
        client
            .start_orchestration(&order.id, workflows::FULFIL_ORDER, input)
            .await?;
        if order.needs_approval() {
            let decision = r#"{"approved": true, "by": "grace"}"#;
            client.enqueue_event(&order.id, workflows::APPROVAL, decision).await?;
        }
    }
    println!("{:<16} outcome", "order");
    for order in &orders {
        let status = client.wait_for_orchestration(&order.id, PATIENCE).await?;
        match status {
            OrchestrationStatus::Completed { output, .. } => println!("{:<16} {output}", order.id),
            other => bail!("order {} did not complete: {other:?}", order.id),
        }
    }
    let requests = server.door().counts().requests as usize;
    println!(
        "\n{} orders in {:.1} s: {} rings, {requests} Cosmos requests (waiting for the outcomes included)",
        orders.len(),
        started.elapsed().as_secs_f64(),
        bell.count(),
    );
    pump.abort();
    Ok(())
}

/// One for each way that an order can go.
fn orders() -> Vec<Order> {
    let order = |id: &str, customer: &str, total_cents: u64, sku: &str, address: &str| Order {
        id: id.to_owned(),
        customer: customer.to_owned(),
        total_cents,
        lines: vec![Line {
            sku: sku.to_owned(),
            quantity: 1,
        }],
        parcels: vec![Parcel {
            address: address.to_owned(),
        }],
        cooling_off_ms: Some(1_000),
        approval_timeout_ms: Some(60_000),
        retry_delay_ms: Some(1_000),
    };
    vec![
        order("plain", "ada", 4_200, "teapot", "12 Mill Lane"),
        order("needs-approval", "ada", 250_000, "piano", "12 Mill Lane"),
        order("declined-card", "declined", 4_200, "teapot", "12 Mill Lane"),
        order("out-of-stock", "ada", 4_200, "out-of-stock", "12 Mill Lane"),
        order("flaky-carrier", "ada", 4_200, "teapot", "flaky"),
        order("no-such-place", "ada", 4_200, "teapot", "nowhere"),
    ]
}

async fn parts(server: &CosmosServer, bell: &Arc<Memory>, id: &str) -> Result<Parts> {
    let key = Key::from_base64(&server.door().key())?;
    let config = CosmosConfig::builder(server.door().endpoint(), StaticKey::new(key))
        .create_with(Throughput::Serverless)
        .build();
    let store = Arc::new(
        CosmosProvider::connect(config)
            .await
            .context("the embedded Cosmos DB")?,
    );
    let meter = Arc::new(Meter::new(None));
    Ok(Parts::of(store, Arc::clone(bell) as _, meter, Limits::default(), id))
}

struct Functions {
    orchestrator: Environment,
    worker: Environment,
}

/// Delivers each ring after its delay, as an invocation of its own.
async fn pump(bell: Arc<Memory>, functions: Arc<Functions>) {
    loop {
        for delayed in bell.take() {
            let functions = Arc::clone(&functions);
            tokio::spawn(async move {
                tokio::time::sleep(delayed.delay).await;
                functions.invoke(&delayed.ring).await;
            });
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl Functions {
    async fn invoke(&self, ring: &Ring) {
        let function = match ring.target {
            Target::Turn { .. } => &self.orchestrator,
            Target::Work(_) => &self.worker,
        };
        let record = SqsRecord {
            message_id: "1".to_owned(),
            body: ring.encode(),
        };
        let event = SqsEvent { records: vec![record] };
        let response = function.serve(event, Budget::of(Duration::from_secs(30))).await;
        if !response.batch_item_failures.is_empty() {
            eprintln!("not served, and SQS would deliver it again: {ring:?}");
        }
    }
}
