//! Large volumes on the local cloud, with the functions as processes: what they cost, and how that grows from a tenth of the size.
//!
//! Each volume runs on a fresh cloud with an empty store. This program is also the functions' binary: the cloud starts it
//! again, with the name of the function in its environment. Counted are the requests of the functions alone: starting and
//! waiting use another listener of the store.
//!
//! `cargo bench -p tests --bench volumes`, or `... -- chain` for the volumes whose name contains this.

use anyhow::{Context as _, Result, ensure};
use cosmos_emulator::ServerOptions;
use duroxide::runtime::OrchestrationStatus;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::notifier::Sqs;
use duroxide_lambda::{Config, Connection};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use local_cloud::{Cloud, CloudOptions, Functions, Store};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(1_200);
/// Starts and waits that are under way at once.
const AT_ONCE: usize = 32;
const CITIES: [&str; 5] = ["Tokyo", "Paris", "Oslo", "Lima", "Accra"];

/// Some orchestrations that are started at once.
#[derive(Clone, Copy, Debug)]
struct Volume {
    name: &'static str,
    orchestration: &'static str,
    /// The size that is measured, after a tenth of it.
    size: usize,
    /// Whether the size is the number of instances, or the input of one.
    counts_instances: bool,
}

const VOLUMES: [Volume; 4] = [
    Volume {
        name: "fan-out",
        orchestration: "FanOut",
        size: 1_000,
        counts_instances: false,
    },
    Volume {
        name: "fan-out",
        orchestration: "FanOut",
        size: 3_000,
        counts_instances: false,
    },
    Volume {
        name: "chain",
        orchestration: "Chain",
        size: 1_000,
        counts_instances: false,
    },
    Volume {
        name: "hello cities at once",
        orchestration: "HelloCities",
        size: 1_000,
        counts_instances: true,
    },
];

/// What a volume took.
#[derive(Clone, Copy, Debug)]
struct Took {
    seconds: f64,
    requests: f64,
    request_units: f64,
    megabytes_read: f64,
    turn_wakeups: f64,
    work_wakeups: f64,
    turn_invocations: f64,
    work_invocations: f64,
}

impl Took {
    const HEAD: &str = "seconds | requests | request units | MB read | wakeups: turns | activities \
                        | invocations: orchestrator | worker";

    fn numbers(self) -> [f64; 8] {
        [
            self.seconds,
            self.requests,
            self.request_units,
            self.megabytes_read,
            self.turn_wakeups,
            self.work_wakeups,
            self.turn_invocations,
            self.work_invocations,
        ]
    }

    fn cells(self) -> String {
        let cells = self.numbers().map(|number| match number {
            small if small < 100.0 => format!("{small:.1}"),
            large => format!("{large:.0}"),
        });
        cells.join(" | ")
    }

    /// How many times as much as a tenth took.
    fn growth(self, tenth: Took) -> String {
        let pairs = self.numbers().into_iter().zip(tenth.numbers());
        let factors: Vec<String> = pairs
            .map(|(all, tenth)| format!("x {:.1}", all / tenth.max(f64::EPSILON)))
            .collect();
        factors.join(" | ")
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let function = std::env::var("AWS_LAMBDA_FUNCTION_NAME");
    let served = match function.as_deref() {
        Ok("orchestrator") => duroxide_lambda::orchestrator(orchestrations()).await,
        Ok("worker") => duroxide_lambda::worker(activities()).await,
        Ok("maintenance") => duroxide_lambda::maintenance().await,
        _ => return measure_all().await,
    };
    served.map_err(anyhow::Error::from_boxed)
}

async fn measure_all() -> Result<()> {
    // Cargo passes options of its own, such as --bench.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let is_wanted = |name: &str| wanted.as_deref().is_none_or(|wanted| name.contains(wanted));
    println!("| volume | {} |\n|---{}|", Took::HEAD, "|---".repeat(8));
    for volume in VOLUMES.into_iter().filter(|volume| is_wanted(volume.name)) {
        let tenth = measure(volume, volume.size / 10).await?;
        println!("| {} {} | {} |", volume.name, volume.size / 10, tenth.cells());
        let all = measure(volume, volume.size).await?;
        println!("| {} {} | {} |", volume.name, volume.size, all.cells());
        println!("| ten times the size | {} |", all.growth(tenth));
    }
    Ok(())
}

async fn measure(volume: Volume, size: usize) -> Result<Took> {
    let this = std::env::current_exe()?;
    let options = CloudOptions {
        store: Store::Embedded(ServerOptions {
            keep_log: false,
            ..ServerOptions::default()
        }),
        ..CloudOptions::of(Functions {
            orchestrator: this.clone(),
            worker: this.clone(),
            maintenance: this,
            api: None,
        })
    };
    let cloud = Cloud::start(options).await?;
    let connection = connect(&cloud).await?;
    let client = connection.client();
    let (instances, input) = match volume.counts_instances {
        true => (size, CITIES.len()),
        false => (1, size),
    };
    let listener = cloud.listener().context("the store is embedded")?;
    listener.reset();
    let begun = Instant::now();
    let starts = (0..instances).map(|n| client.start_orchestration(id(n), volume.orchestration, input.to_string()));
    stream::iter(starts)
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    let ends = (0..instances).map(|n| ended(client, id(n), input));
    stream::iter(ends)
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    let seconds = begun.elapsed().as_secs_f64();
    let (counts, status) = (listener.counts(), cloud.status());
    let sent = |queue: &str| status.queues.get(queue).map_or(0.0, |queue| queue.counts.sent as f64);
    let invoked = |name: &str| {
        let function = status.functions.get(name);
        function.map_or(0.0, |function| function.counts.invocations as f64)
    };
    let took = Took {
        seconds,
        requests: counts.requests as f64,
        request_units: counts.request_units(),
        megabytes_read: counts.response_bytes as f64 / 1e6,
        turn_wakeups: sent("orchestrator"),
        work_wakeups: sent("worker"),
        turn_invocations: invoked("orchestrator"),
        work_invocations: invoked("worker"),
    };
    cloud.shutdown().await?;
    Ok(took)
}

fn id(n: usize) -> String {
    format!("volume-{n}")
}

/// A connection whose requests are not counted.
async fn connect(cloud: &Cloud) -> Result<Connection> {
    let mut variables = cloud.variables().clone();
    let server = cloud.cosmos().context("the store is embedded")?;
    variables.insert("COSMOS_ENDPOINT".to_owned(), server.open_listener().await?.endpoint());
    let get = |name: &str| variables.get(name).cloned();
    let config = Config::from_variables(get)?;
    let notifier = Arc::new(Sqs::from_variables(config.queues.clone(), get));
    Ok(Connection::new(config.cosmos_config(), notifier, config.limits.clone()).await?)
}

/// Waits for the right output: every orchestration counts its activities.
async fn ended(client: &Client, instance: String, activities: usize) -> Result<()> {
    let status = client.wait_for_orchestration(&instance, PATIENCE).await?;
    let OrchestrationStatus::Completed { output, .. } = &status else {
        anyhow::bail!("{instance} ended as {status:?}");
    };
    ensure!(*output == activities.to_string(), "{instance} returned {output}");
    Ok(())
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello, {name}!"))
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("FanOut", |ctx: OrchestrationContext, width: String| async move {
            let greet = |n: usize| ctx.schedule_activity("Greet", n.to_string());
            let greetings = ctx.join((0..number(&width)?).map(greet).collect()).await;
            Ok(greetings.into_iter().filter(Result::is_ok).count().to_string())
        })
        .register("Chain", |ctx: OrchestrationContext, length: String| async move {
            let length = number(&length)?;
            for n in 0..length {
                ctx.schedule_activity("Greet", n.to_string()).await?;
            }
            Ok(length.to_string())
        })
        .register("HelloCities", |ctx: OrchestrationContext, _: String| async move {
            let mut greetings = Vec::new();
            for city in CITIES {
                greetings.push(ctx.schedule_activity("Greet", city).await?);
            }
            Ok(greetings.len().to_string())
        })
        .build()
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}
