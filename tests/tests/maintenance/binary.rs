//! The function's own binary, unmodified, under `cargo lambda`'s Runtime API, notifying moto's SQS.

use anyhow::{Context, Result};
use cosmos::{Clock, SystemClock};
use cosmos_emulator::ServerOptions;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tests::real::{Function, LambdaApi, Moto, Queue, Venv, build};
use tests::turns::{enqueue, start_of};
use tests::{World, connect};

const LIMIT: Duration = Duration::from_secs(30);

/// A minute ago.
#[derive(Debug)]
struct Ago;

impl Clock for Ago {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() - 60_000
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: cargo-lambda and moto from PyPI"]
async fn the_deployed_binary_serves_the_schedule_sends_wakeups_and_refuses_garbage() -> Result<()> {
    let world = World::local(ServerOptions::default()).await;
    let past = connect(world.builder().clock(Arc::new(Ago))).await;
    enqueue(&past, start_of("forgotten")).await;

    let venv = Venv::ready().await?;
    let moto = Moto::start(&venv).await?;
    let api = LambdaApi::start(&venv, &["maintenance"]).await?;
    let turns = Queue::create(&moto, "turns", LIMIT).await?;
    let works = Queue::create(&moto, "works", LIMIT).await?;
    let [binary] = build(["maintenance"]).await?;
    let (database, container) = world.names();
    let mut env = moto.env();
    for (name, value) in [
        ("COSMOS_ENDPOINT", world.listener().endpoint().as_str()),
        ("COSMOS_KEY", world.listener().key().as_str()),
        ("COSMOS_DATABASE", database),
        ("COSMOS_CONTAINER", container),
        ("ORCHESTRATOR_QUEUE_URL", turns.url()),
        ("WORKER_QUEUE_URL", works.url()),
    ] {
        env.push((name.to_owned(), value.to_owned()));
    }
    let mut function = Function::start(&api, "maintenance", &binary, env)?;

    let schedule = json!({"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}});
    let report = api.invoke("maintenance", &schedule).await?;
    assert_eq!(report["passes"]["sweep"]["done"], 1, "{report:#}");
    assert_eq!(
        (&report["leftOver"], &report["wakeupsSent"]),
        (&json!(false), &json!(1)),
        "{report:#}"
    );
    assert_eq!(report["store"]["messagesDue"], 1, "{report:#}");
    let wakeup = turns.receive().await?;
    let body = wakeup.event()["Records"][0]["body"].as_str();
    assert!(
        body.context("a wakeup is in the queue")?.contains("forgotten"),
        "{body:?}"
    );
    let metrics = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        line["_aws"].is_object().then_some(line)
    };
    let line = function.wait_for(LIMIT, metrics).await?;
    assert_eq!(
        (&line["SweepDone"], &line["MessagesDue"]),
        (&json!(1), &json!(1)),
        "{line}"
    );

    let refused = api.invoke("maintenance", &json!({"passes": ["everything"]})).await;
    let text = format!("{:?}", refused.err().context("an unknown pass is refused")?);
    assert!(
        text.contains("passes[0]") && text.contains("nothing was changed"),
        "{text}"
    );
    assert!(function.is_running());
    Ok(())
}
