//! Hello cities through the functions' handlers, against the same provider under duroxide's own polling runtime.
//!
//! Both sides run the same 50 instances at once, on a fresh store each, with the same number of dispatchers, in turns,
//! in one process. Wakeups go through a channel and become invocations at once, as a queue without latency would do it.
//! What is compared is orchestrations per second, as a ratio; requests and wakeups are counts.
//!
//! `cargo bench -p tests --bench throughput`

use async_trait::async_trait;
use cosmos::SystemClock;
use cosmos_emulator::ServerOptions;
use duroxide::providers::{Provider, TagFilter};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::NotSent;
use duroxide_lambda::internals::Metrics;
use duroxide_lambda::internals::{Budget, Environment, Parts};
use duroxide_lambda::{Delayed, Limits, Notifier, Target, Wakeup};
use futures::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tests::World;
use tests::cloud::event;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const INSTANCES: usize = 50;
const CONCURRENCY: usize = 10;
const ROUNDS: usize = 5;
const CITIES: [&str; 5] = ["Tokyo", "Paris", "Oslo", "Lima", "Accra"];
const PATIENCE: Duration = Duration::from_secs(300);

/// One side's numbers of one round.
#[derive(Clone, Copy, Debug)]
struct Measured {
    per_second: f64,
    requests: f64,
    request_units: f64,
    documents_written: f64,
    kb_written: f64,
    kb_read: f64,
    wakeups: f64,
}

#[tokio::main]
async fn main() {
    let (mut functions, mut polling) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        // The first to go changes with each round, so that neither side always finds the warmer machine.
        if round % 2 == 0 {
            functions.push(by_functions().await);
            polling.push(by_polling().await);
        } else {
            polling.push(by_polling().await);
            functions.push(by_functions().await);
        }
        let (ours, theirs) = (functions[round - 1].per_second, polling[round - 1].per_second);
        println!(
            "round {round}: functions {ours:.0}/s, polling {theirs:.0}/s, ratio {:.2}",
            ours / theirs
        );
    }
    let (ours, theirs) = (median(&functions), median(&polling));
    println!();
    println!("| hello cities, {INSTANCES} at once, {CONCURRENCY} dispatchers | functions | polling runtime |");
    println!("|---|---|---|");
    println!(
        "| orchestrations per second (median of {ROUNDS}) | {:.0} | {:.0} |",
        ours.per_second, theirs.per_second
    );
    println!(
        "| Cosmos requests per orchestration | {:.1} | {:.1} |",
        ours.requests, theirs.requests
    );
    let row = |what: &str, of: fn(&Measured) -> f64| {
        println!("| {what} per orchestration | {:.1} | {:.1} |", of(&ours), of(&theirs));
    };
    row("request units (estimated)", |side| side.request_units);
    row("documents written", |side| side.documents_written);
    row("KB written", |side| side.kb_written);
    row("KB read", |side| side.kb_read);
    println!("| wakeups per orchestration | {:.1} | - |", ours.wakeups);
    let ratio = ours.per_second / theirs.per_second;
    println!("\nratio {ratio:.2} (at least 1 is asked for)");
    if ratio < 1.0 {
        std::process::exit(1);
    }
}

fn median(all: &[Measured]) -> Measured {
    let mut sorted = all.to_vec();
    sorted.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    sorted[sorted.len() / 2]
}

async fn by_polling() -> Measured {
    let world = World::local(ServerOptions::default()).await;
    let store = world.provider().await as Arc<dyn Provider>;
    let options = RuntimeOptions {
        orchestration_concurrency: CONCURRENCY,
        worker_concurrency: CONCURRENCY,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(Arc::clone(&store), activities(), orchestrations(), options).await;
    let client = Client::new(store);
    let measured = measure(&world, &client, &AtomicUsize::new(0)).await;
    runtime.shutdown(Some(0)).await;
    measured
}

async fn by_functions() -> Measured {
    let world = World::local(ServerOptions::default()).await;
    let (turn_bell, turns) = unbounded_channel();
    let (work_bell, works) = unbounded_channel();
    let queue = Arc::new(Channel {
        turns: turn_bell,
        works: work_bell,
        notified: AtomicUsize::new(0),
    });
    let limits = Limits {
        concurrency: CONCURRENCY,
        ..Limits::default()
    };
    let parts = |id: &str, store| {
        let notifier = Arc::clone(&queue) as Arc<dyn Notifier>;
        Parts {
            clock: Arc::new(SystemClock),
            ..Parts::of(store, notifier, Arc::new(Metrics::new(None)), limits.clone(), id)
        }
    };
    let orchestrator = Environment::orchestrator(parts("turns", world.provider().await), orchestrations()).await;
    let worker = Environment::worker(
        parts("work", world.provider().await),
        activities(),
        TagFilter::DefaultOnly,
    )
    .await;
    let pumps = [
        tokio::spawn(pump(Arc::new(orchestrator), turns)),
        tokio::spawn(pump(Arc::new(worker), works)),
    ];
    let client = Client::new(Arc::new(parts("client", world.provider().await).notifying()));
    let measured = measure(&world, &client, &queue.notified).await;
    pumps.iter().for_each(|pump| pump.abort());
    measured
}

/// Starts all instances and waits for all of them. Requests of the waiting itself are not counted.
async fn measure(world: &World, client: &Client, wakeups: &AtomicUsize) -> Measured {
    let started = Instant::now();
    let instances: Vec<String> = (0..INSTANCES).map(|n| format!("cities-{n}")).collect();
    let starts = instances
        .iter()
        .map(|instance| client.start_orchestration(instance.as_str(), "HelloCities", ""));
    for start in join_all(starts).await {
        start.expect("it starts");
    }
    while DONE.load(Ordering::SeqCst) < INSTANCES {
        assert!(started.elapsed() < PATIENCE, "not done in time");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    DONE.store(0, Ordering::SeqCst);
    // The last turns have run, and commit now: wait for them before counting.
    let watcher = Client::new(world.provider().await);
    let watch = instances
        .iter()
        .map(|instance| watcher.wait_for_orchestration(instance, PATIENCE));
    let counts = world.listener().counts();
    let ends = join_all(watch).await;
    for end in ends {
        let status = end.expect("it ends");
        assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
    }
    let each = |number: f64| number / INSTANCES as f64;
    Measured {
        per_second: INSTANCES as f64 / seconds,
        requests: each(counts.requests as f64),
        request_units: each(counts.request_units()),
        documents_written: each(counts.documents_written as f64),
        kb_written: each(counts.request_bytes as f64 / 1024.0),
        kb_read: each(counts.response_bytes as f64 / 1024.0),
        wakeups: each(wakeups.load(Ordering::SeqCst) as f64),
    }
}

/// How many orchestrations have come to their last line. A replay passes it only once, because the turn ends with it.
static DONE: AtomicUsize = AtomicUsize::new(0);

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("HelloCities", |ctx: OrchestrationContext, _: String| async move {
            let mut greetings = Vec::new();
            for city in CITIES {
                greetings.push(ctx.schedule_activity("Greet", city).await?);
            }
            DONE.fetch_add(1, Ordering::SeqCst);
            Ok(greetings.join(" "))
        })
        .build()
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, city: String| async move {
            Ok(format!("Hello {city}!"))
        })
        .build()
}

/// A notifier without latency.
#[derive(Debug)]
struct Channel {
    turns: UnboundedSender<Wakeup>,
    works: UnboundedSender<Wakeup>,
    notified: AtomicUsize,
}

#[async_trait]
impl Notifier for Channel {
    async fn notify(&self, wakeups: &[Delayed]) -> Vec<NotSent> {
        self.notified.fetch_add(wakeups.len(), Ordering::SeqCst);
        for Delayed { wakeup, delay } in wakeups.iter().cloned() {
            let queue = match wakeup.target {
                Target::Turn { .. } | Target::Batch { .. } => self.turns.clone(),
                Target::Work(_) => self.works.clone(),
            };
            if delay.is_zero() {
                queue.send(wakeup).expect("the pump runs");
            } else {
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    // A wakeup after the end of its round has nobody to wake.
                    queue.send(wakeup).unwrap_or_default();
                });
            }
        }
        Vec::new()
    }
}

/// Turns wakeups into invocations, up to ten in one, without waiting for the last.
async fn pump(function: Arc<Environment>, mut wakeups: UnboundedReceiver<Wakeup>) {
    let mut batch = Vec::new();
    while wakeups.recv_many(&mut batch, 10).await > 0 {
        let wakeups = std::mem::take(&mut batch);
        let function = Arc::clone(&function);
        tokio::spawn(async move {
            let response = function
                .serve(event(&wakeups), Budget::of(Duration::from_secs(60)))
                .await;
            assert!(response.batch_item_failures.is_empty(), "{response:?}");
        });
    }
}
