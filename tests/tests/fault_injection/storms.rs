//! A mixed workload on two runtimes, while the store throttles, loses answers, is unavailable, or shows the past.
//!
//! ```text
//!   runtime A ── provider A ── listener A ─┐   each listener: its own faults, by a fixed seed
//!                                          ├── one account, Session consistency, a lagging replica
//!   runtime B ── provider B ── listener B ─┘
//!   checks ───── provider ──── first listener: no faults
//! ```
//!
//! The two providers share no consistency token: what one wrote the other may read late.

use cosmos_emulator::{Faults, Lag, Listener, ServerOptions};
use duroxide::providers::{Provider, ProviderAdmin};
use duroxide::runtime::Runtime;
use duroxide::{Client, RuntimeOptions};
use duroxide_cosmos::{CosmosConfigBuilder, CosmosProvider};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::workload::{Job, activities, jobs, orchestrations};
use tests::{World, connect, jobs as running, recover, until_ok};

/// What a test runs, and which faults it meets.
struct Storm {
    orchestrations: usize,
    /// Of both listeners; each gets a seed of its own.
    faults: Faults,
    /// Reads of the listeners lag behind by up to this.
    lag: Option<Duration>,
    /// Physical partitions split while the workload runs.
    split: bool,
}

/// Two runtimes at work.
struct Stage {
    world: World,
    listeners: [Listener; 2],
    clients: [Client; 2],
    runtimes: [Arc<Runtime>; 2],
    /// Without faults.
    calm: Arc<CosmosProvider>,
}

fn options() -> RuntimeOptions {
    RuntimeOptions {
        orchestration_concurrency: 4,
        worker_concurrency: 6,
        orchestrator_lock_timeout: Duration::from_secs(10),
        worker_lock_timeout: Duration::from_secs(4),
        dispatcher_long_poll_timeout: Duration::from_secs(2),
        ..RuntimeOptions::default()
    }
}

fn refined(config: CosmosConfigBuilder) -> CosmosConfigBuilder {
    config
        .operation_timeout(Duration::from_secs(30))
        .request_timeout(Duration::from_secs(5))
        .sweep_interval(Duration::from_millis(250))
        // So early that repairs race with the commits that they repair.
        .repair_after(Duration::from_millis(200))
}

fn client(provider: &Arc<CosmosProvider>) -> Client {
    Client::new(Arc::clone(provider) as Arc<dyn Provider>)
}

impl Stage {
    async fn set(storm: &Storm) -> Stage {
        let lag = storm.lag.map(|max| Lag {
            min: max / 8,
            max,
            seed: storm.faults.seed,
        });
        let world = World::local(ServerOptions {
            lag,
            ..ServerOptions::default()
        })
        .await;
        let listeners = [world.open_listener().await, world.open_listener().await];
        let providers = [
            connect(refined(world.builder_through(&listeners[0]))).await,
            connect(refined(world.builder_through(&listeners[1]))).await,
        ];
        for (listener, seed) in listeners.iter().zip(0..) {
            listener.set_faults(Faults {
                seed: storm.faults.seed + seed,
                ..storm.faults.clone()
            });
        }
        let run = |provider: &Arc<CosmosProvider>| {
            let store = Arc::clone(provider) as Arc<dyn Provider>;
            Runtime::start_with_options(store, activities(), orchestrations(), options())
        };
        Stage {
            runtimes: [run(&providers[0]).await, run(&providers[1]).await],
            clients: [client(&providers[0]), client(&providers[1])],
            calm: connect(refined(world.builder())).await,
            world,
            listeners,
        }
    }

    /// Starts each job through one runtime's provider, and sends it what it waits for through the other.
    async fn drive(&self, jobs: &[Job]) {
        let calm = client(&self.calm);
        let driven = jobs.iter().zip([0, 1].into_iter().cycle()).map(|(job, n)| {
            let (one, calm) = (&self.clients[n], &calm);
            async move {
                running::start(one, std::slice::from_ref(job)).await;
                if running::waits_for_event(job) {
                    running::until_subscribed(calm, job).await;
                    let raised = self.clients[1 - n].raise_event(&job.instance, "Go", &job.output).await;
                    raised.expect("it is raised");
                }
            }
        });
        futures::future::join_all(driven).await;
    }

    async fn await_ends(&self, jobs: &[Job]) {
        let mut open: BTreeSet<&str> = jobs.iter().map(|job| job.instance.as_str()).collect();
        until_ok("every orchestration ends", async || {
            for status in ["Completed", "Failed"] {
                let ended = self.calm.list_instances_by_status(status).await;
                for instance in ended.expect("instances can be listed") {
                    open.remove(instance.as_str());
                }
            }
            if open.is_empty() {
                Ok(())
            } else {
                Err(format!("{} are open: {open:?}", open.len()))
            }
        })
        .await;
    }

    /// Waits until nothing is queued, locked, undelivered or half done.
    async fn await_rest(&self) {
        until_ok("the store comes to rest", async || {
            recover(&self.calm).await;
            let left: Vec<Value> = self.world.documents().await.into_iter().filter(is_unrest).collect();
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{} documents are left: {left:#?}", left.len()))
            }
        })
        .await;
    }

    /// Splits physical partitions while the workload runs.
    async fn split(&self) {
        let (database, container) = self.world.names();
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let partitions = self.world.server().partition_ids(database, container).await;
            let first = *partitions.first().expect("the container has partitions");
            self.world.server().split_partition(database, container, first).await;
        }
    }
}

/// Whether a document is work that is not done. A free lock is none.
fn is_unrest(doc: &Value) -> bool {
    match doc["type"].as_str().expect("every document has a type") {
        "message" | "work" | "intent" | "staged" | "staged-head" | "deletion" => true,
        "instance" => !doc["holder"].is_null() || !doc["unfinished"].is_null() || !doc["until"].is_null(),
        _ => false,
    }
}

async fn survive(storm: Storm) {
    let begun = Instant::now();
    let stage = Stage::set(&storm).await;
    let jobs = jobs(storm.orchestrations);
    if storm.split {
        futures::join!(stage.drive(&jobs), stage.split());
    } else {
        stage.drive(&jobs).await;
    }
    stage.await_ends(&jobs).await;
    println!("{} orchestrations ended after {:.1?}", jobs.len(), begun.elapsed());
    stage.await_rest().await;
    running::check(&client(&stage.calm), &jobs).await;
    for runtime in stage.runtimes {
        runtime.shutdown(Some(5_000)).await;
    }
    for listener in &stage.listeners {
        assert_faults(listener, &storm.faults);
    }
}

/// Fails when the faults were not as many as ordered.
fn assert_faults(listener: &Listener, faults: &Faults) {
    let log = listener.log();
    let share = |status: Option<u16>| {
        log.iter().filter(|record| record.status == status).count() as f64 / log.len().max(1) as f64
    };
    let (throttled, unavailable, lost) = (share(Some(429)), share(Some(503)), share(None));
    println!(
        "{} requests: {throttled:.3} throttled, {unavailable:.3} unavailable, {lost:.3} lost",
        log.len()
    );
    // Which draws become faults depends on the order of the requests: of what is rare only some can be demanded.
    let least = |share: f64| share * if share > 0.05 { 0.7 } else { 0.2 };
    assert!(throttled >= least(faults.throttled), "only {throttled} throttled");
    assert!(
        unavailable >= least(faults.unavailable),
        "only {unavailable} unavailable"
    );
    assert!(
        lost >= least(faults.lost_before + faults.lost_after),
        "only {lost} lost"
    );
}

/// Throttling, lost answers, unavailability and reads of the past, all at once.
async fn survive_everything(orchestrations: usize) {
    let faults = Faults {
        seed: 20_250_101,
        throttled: 0.2,
        retry_after: Duration::from_millis(10),
        lost_before: 0.025,
        lost_after: 0.025,
        unavailable: 0.05,
        stale_reads: true,
        fresh: 0.3,
        ..Faults::default()
    };
    let storm = Storm {
        orchestrations,
        faults,
        lag: Some(Duration::from_millis(200)),
        split: false,
    };
    survive(storm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_orchestrations_complete_in_a_storm() {
    survive_everything(20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 200 orchestrations"]
async fn two_hundred_orchestrations_complete_in_a_storm() {
    survive_everything(200).await;
}

/// Thirty orchestrations, one kind of fault, and reads that lag behind by up to so many milliseconds.
fn thirty(faults: Faults, lag_ms: u64) -> Storm {
    Storm {
        orchestrations: 30,
        faults,
        lag: (lag_ms > 0).then(|| Duration::from_millis(lag_ms)),
        split: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 30 orchestrations"]
async fn a_workload_completes_when_two_of_five_requests_are_throttled() {
    let faults = Faults {
        seed: 2,
        throttled: 0.4,
        retry_after: Duration::from_millis(5),
        ..Faults::default()
    };
    survive(thirty(faults, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 30 orchestrations"]
async fn a_workload_completes_when_one_of_five_answers_is_lost() {
    let faults = Faults {
        seed: 3,
        lost_before: 0.1,
        lost_after: 0.1,
        ..Faults::default()
    };
    survive(thirty(faults, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 30 orchestrations"]
async fn a_workload_completes_when_reads_show_the_past() {
    let faults = Faults {
        seed: 4,
        stale_reads: true,
        ..Faults::default()
    };
    survive(thirty(faults, 400)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 30 orchestrations"]
async fn a_workload_completes_when_reads_alternate_between_present_and_past() {
    let faults = Faults {
        seed: 5,
        stale_reads: true,
        fresh: 0.5,
        ..Faults::default()
    };
    survive(thirty(faults, 400)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 30 orchestrations"]
async fn a_workload_completes_while_partitions_split() {
    let faults = Faults {
        seed: 6,
        throttled: 0.05,
        retry_after: Duration::from_millis(5),
        lost_after: 0.02,
        stale_reads: true,
        fresh: 0.5,
        ..Faults::default()
    };
    let storm = Storm {
        split: true,
        ..thirty(faults, 200)
    };
    survive(storm).await;
}
