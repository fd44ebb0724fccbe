//! Durable workflows on a Cosmos DB that needs no set-up: ten orchestrations of five activities each, on the strict test
//! server inside this process. With `COSMOS_ENDPOINT`, `COSMOS_KEY`, `COSMOS_DATABASE` and `COSMOS_CONTAINER` set, the same
//! runs on that account.

use anyhow::{Context, Result, bail};
use cosmos::{Key, StaticKey, Throughput};
use cosmos_emulator::{CosmosServer, ServerOptions};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationRegistry, Runtime};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationStatus};
use duroxide_cosmos::{CosmosConfig, CosmosProvider, Ids, RandomIds};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CITIES: [&str; 5] = ["Amsterdam", "Kyoto", "Lagos", "Quito", "Tromsø"];
const ORCHESTRATIONS: usize = 10;

async fn hello_cities(ctx: OrchestrationContext, greeting: String) -> Result<String, String> {
    let mut greetings = Vec::new();
    for city in CITIES {
        ctx.set_custom_status(format!("greeting {city}"));
        greetings.push(ctx.schedule_activity("Greet", format!("{greeting}, {city}")).await?);
    }
    Ok(greetings.join(" "))
}

#[tokio::main]
async fn main() -> Result<()> {
    let (config, server) = match std::env::var_os("COSMOS_ENDPOINT") {
        Some(_) => (CosmosConfig::from_env()?.into_builder(), None),
        None => {
            let server = CosmosServer::start(ServerOptions::default()).await?;
            let key = StaticKey::new(Key::from_base64(&server.listener().key())?);
            println!(
                "Cosmos DB: the strict test server at {}, in this process",
                server.listener().endpoint()
            );
            (CosmosConfig::builder(server.listener().endpoint(), key), Some(server))
        }
    };
    let provider = Arc::new(CosmosProvider::connect(config.create_with(Throughput::Serverless).build()).await?);
    if let Some(server) = &server {
        server.listener().reset();
    }
    let activities = ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, whom: String| async move {
            Ok(format!("{whom}!"))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("HelloCities", hello_cities)
        .build();
    let store: Arc<dyn duroxide::providers::Provider> = provider;
    let runtime = Runtime::start_with_store(Arc::clone(&store), activities, orchestrations).await;
    let client = Client::new(store);

    let begun = Instant::now();
    let run = RandomIds.unique();
    let instances: Vec<String> = (1..=ORCHESTRATIONS).map(|n| format!("hello-{run}-{n}")).collect();
    for instance in &instances {
        client.start_orchestration(instance, "HelloCities", "Hello").await?;
    }
    for instance in &instances {
        let status = client.wait_for_orchestration(instance, Duration::from_secs(120)).await;
        match status
            .map_err(|error| anyhow::anyhow!("{error:?}"))
            .with_context(|| format!("waiting for {instance}"))?
        {
            OrchestrationStatus::Completed { output, .. } => println!("{instance}: {output}"),
            other => bail!("{instance} did not complete: {other:?}"),
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    runtime.shutdown(None).await;
    println!(
        "{ORCHESTRATIONS} orchestrations, {} activities, {seconds:.2} s",
        ORCHESTRATIONS * CITIES.len()
    );
    if let Some(server) = server {
        let counts = server.listener().counts();
        println!(
            "{} requests to Cosmos DB, with the waiting above: {} writes, {} of them batches; {} queries across partitions",
            counts.requests,
            counts.writes(),
            counts.batches,
            counts.cross_partition_queries
        );
    }
    Ok(())
}
