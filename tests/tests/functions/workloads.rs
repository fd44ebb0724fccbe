//! Whole workloads by wakeups alone: what they cost without faults, and that they complete with them.

use crate::support::*;
use cosmos_emulator::{Faults, Lag, ServerOptions};
use duroxide_lambda::{Delayed, Limits, Notifier, Wakeup};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::cloud::{Cloud, CloudOptions};
use tests::jobs as running;
use tests::workload::{self, Job, jobs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_cities_keeps_its_budget() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let started = cloud.client.start_orchestration("cities", "HelloCities", "1").await;
    started.expect("it starts");
    cloud.drain().await;
    let requests = [
        &cloud.client_listener,
        &cloud.orchestrator.listener,
        &cloud.worker.listener,
    ]
    .map(|listener| listener.counts());
    let [client, turns, works] = requests.map(|counts| (counts.requests, counts.cross_partition_queries));
    // Three activities, so four turns.
    assert_eq!((client, turns, works), ((1, 0), (4 * 2, 0), (3 * 2, 0)));
    assert_eq!((cloud.queue.count(), cloud.queue.calls()), (1 + 3 + 3, 7));
    assert_eq!(
        output(&cloud, "cities").await,
        "Hello Tokyo 1! Hello Paris 1! Hello Oslo 1!"
    );
    let counted = metrics(&cloud.orchestrator);
    assert_eq!(
        (&counted["Turns"], &counted["Committed"], &counted["CosmosRequests"]),
        (&Value::from(4), &Value::from(4), &Value::from(8))
    );
}

/// Locks that are soon noticed to be lost.
fn limits() -> Limits {
    Limits {
        turn_lock: Duration::from_secs(5),
        work_lock: Duration::from_secs(4),
        ..Limits::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mixed_workload_completes_by_wakeups_alone() {
    let options = CloudOptions {
        limits: limits(),
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, workload::orchestrations(), workload::activities()).await;
    let jobs = jobs(30);
    running::start(&cloud.client, &jobs).await;
    cloud.drain().await;
    running::nudge(&cloud.client, &jobs).await;
    cloud.drain().await;
    report(&cloud, "no faults", jobs.len());
    for function in [&cloud.orchestrator, &cloud.worker] {
        let counts = function.listener.counts();
        assert_eq!((counts.cross_partition_queries, counts.refused), (0, 0));
    }
    running::check(&cloud.client, &jobs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_exactly_once_in_the_first_storm() {
    survive(101).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: one more seed"]
async fn a_workload_completes_exactly_once_in_the_second_storm() {
    survive(202).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: one more seed"]
async fn a_workload_completes_exactly_once_in_the_third_storm() {
    survive(303).await;
}

/// The store throttles, loses answers and shows the past; the queue loses one wakeup of ten and repeats some.
async fn survive(seed: u64) {
    let lag = Lag {
        min: Duration::from_millis(25),
        max: Duration::from_millis(200),
        seed,
    };
    let options = CloudOptions {
        server: ServerOptions {
            lag: Some(lag),
            ..ServerOptions::default()
        },
        limits: limits(),
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, workload::orchestrations(), workload::activities()).await;
    for (listener, seed) in [&cloud.orchestrator.listener, &cloud.worker.listener]
        .into_iter()
        .zip(seed..)
    {
        listener.set_faults(Faults {
            seed,
            throttled: 0.1,
            retry_after: Duration::from_millis(5),
            lost_after: 0.02,
            stale_reads: true,
            fresh: 0.5,
            ..Faults::default()
        });
    }
    let jobs = jobs(20);
    running::start(&cloud.client, &jobs).await;
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut post = |wakeup: Wakeup| match chance.u8(..100) {
        0..10 => vec![],
        10..25 => vec![wakeup.clone(), wakeup],
        _ => vec![wakeup],
    };
    let done = AtomicBool::new(false);
    let maintenance = async {
        maintain(&cloud, &jobs).await;
        done.store(true, Ordering::SeqCst);
    };
    let functions = async {
        while !done.load(Ordering::SeqCst) {
            cloud.drain_through(&mut post).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    futures::join!(maintenance, functions);
    report(&cloud, &format!("storm {seed}"), jobs.len());
    running::check(&cloud.client, &jobs).await;
}

/// Wakeups for all that may be due, again and again, until every job has ended.
async fn maintain(cloud: &Cloud, jobs: &[Job]) {
    let begun = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let open = running::open(&cloud.client, jobs).await;
        if open.is_empty() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "these do not end: {open:?}");
        running::nudge(&cloud.client, jobs).await;
        let instances = open.iter().flat_map(|job| [Some(&job.instance), job.child.as_ref()]);
        let mut wakeups: Vec<Delayed> = instances.flatten().map(|id| Delayed::now(Wakeup::turn(id))).collect();
        wakeups.extend(cloud.world.work_wakeups().await.into_iter().map(Delayed::now));
        assert!(cloud.queue.notify(&wakeups).await.is_empty());
    }
}

fn report(cloud: &Cloud, faults: &str, jobs: usize) {
    let [turns, works] = [&cloud.orchestrator, &cloud.worker].map(|function| function.listener.counts().requests);
    println!(
        "{faults}: {jobs} orchestrations, {} wakeups, {turns} requests for turns, {works} for activities; {} and {}",
        cloud.queue.count(),
        metrics(&cloud.orchestrator),
        metrics(&cloud.worker),
    );
}
