//! Whole workloads by wakeups alone: what they cost in fair weather, and that they end as they must in foul.

use crate::support::*;
use cosmos_emulator::{Faults, Lag, ServerOptions};
use duroxide::OrchestrationStatus;
use duroxide_lambda::{Delayed, Limits, Notifier, Wakeup};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::cloud::{Cloud, CloudOptions};
use tests::workload::{self, Job, Nudge, assert_sound, jobs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_cities_keeps_its_budget() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let started = cloud.client.start_orchestration("cities", "HelloCities", "1").await;
    started.expect("it starts");
    cloud.settle().await;
    let requests = [
        &cloud.client_listener,
        &cloud.orchestrator.listener,
        &cloud.worker.listener,
    ]
    .map(|listener| listener.counts());
    let [client, turns, works] = requests.map(|counts| (counts.requests, counts.cross_partition_queries));
    // Three activities, so four turns, of which the first has no past to read.
    assert_eq!((client, turns, works), ((1, 0), (3 + 3 * 4, 0), (3 * 3, 0)));
    assert_eq!((cloud.bell.count(), cloud.bell.calls()), (1 + 3 + 3, 7));
    assert_eq!(
        output(&cloud, "cities").await,
        "Hello Tokyo 1! Hello Paris 1! Hello Oslo 1!"
    );
    let counted = metrics(&cloud.orchestrator);
    assert_eq!(
        (&counted["Turns"], &counted["Committed"], &counted["CosmosRequests"]),
        (&Value::from(4), &Value::from(4), &Value::from(15))
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
    begin(&cloud, &jobs).await;
    cloud.settle().await;
    raise(&cloud, &jobs).await;
    cloud.settle().await;
    report(&cloud, "fair weather", jobs.len());
    for function in [&cloud.orchestrator, &cloud.worker] {
        let counts = function.listener.counts();
        assert_eq!((counts.cross_partition_queries, counts.refused), (0, 0));
    }
    for job in &jobs {
        check(&cloud, job).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_exactly_once_in_the_first_storm() {
    survive(101).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_exactly_once_in_the_second_storm() {
    survive(202).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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
    begin(&cloud, &jobs).await;
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
            cloud.settle_through(&mut post).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    futures::join!(maintenance, functions);
    report(&cloud, &format!("storm {seed}"), jobs.len());
    for job in &jobs {
        check(&cloud, job).await;
    }
}

/// Wakeups for all that may be due, again and again, until every job has ended.
async fn maintain(cloud: &Cloud, jobs: &[Job]) {
    let begun = Instant::now();
    let mut raised = false;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let open = open(cloud, jobs).await;
        if open.is_empty() {
            return;
        }
        assert!(begun.elapsed() < 2 * LIMIT, "these do not end: {open:?}");
        if !raised && waiting(cloud, jobs).await {
            raise(cloud, jobs).await;
            raised = true;
        }
        sweep(cloud, &open).await;
    }
}

async fn begin(cloud: &Cloud, jobs: &[Job]) {
    for job in jobs {
        let started = cloud
            .client
            .start_orchestration(&job.instance, job.orchestration, job.input.as_str());
        started.await.expect("it starts");
        if job.nudge == Nudge::Message {
            let queued = cloud.client.enqueue_event(&job.instance, "inbox", &job.output);
            queued.await.expect("it is queued");
        }
    }
}

/// Raises the events, which count only after their instances have subscribed.
async fn raise(cloud: &Cloud, jobs: &[Job]) {
    for job in jobs.iter().filter(|job| job.nudge == Nudge::Event) {
        let raised = cloud.client.raise_event(&job.instance, "Go", &job.output);
        raised.await.expect("it is raised");
    }
}

async fn waiting(cloud: &Cloud, jobs: &[Job]) -> bool {
    for job in jobs.iter().filter(|job| job.nudge == Nudge::Event) {
        let history = cloud.client.read_execution_history(&job.instance, 1).await;
        let subscribed = |event: &duroxide::Event| matches!(event.kind, duroxide::EventKind::ExternalSubscribed { .. });
        if !history.expect("a history").iter().any(subscribed) {
            return false;
        }
    }
    true
}

/// The jobs that have not ended.
async fn open<'a>(cloud: &Cloud, jobs: &'a [Job]) -> Vec<&'a Job> {
    let mut open = Vec::new();
    for job in jobs {
        if !matches!(
            status(cloud, &job.instance).await,
            OrchestrationStatus::Completed { .. }
        ) {
            open.push(job);
        }
    }
    open
}

/// One sweep of maintenance.
async fn sweep(cloud: &Cloud, open: &[&Job]) {
    let instances = open.iter().flat_map(|job| [Some(&job.instance), job.child.as_ref()]);
    let mut wakeups: Vec<Delayed> = instances.flatten().map(|id| Delayed::now(Wakeup::turn(id))).collect();
    wakeups.extend(cloud.world.work_wakeups().await.into_iter().map(Delayed::now));
    assert!(cloud.bell.notify(&wakeups).await.is_empty());
}

async fn check(cloud: &Cloud, job: &Job) {
    assert_eq!(output(cloud, &job.instance).await, job.output, "{}", job.instance);
    let executions = cloud.client.list_executions(&job.instance).await;
    let executions = executions.expect("executions can be listed");
    assert_eq!(
        executions,
        (1..=job.executions).collect::<Vec<u64>>(),
        "{}",
        job.instance
    );
    let own = executions.into_iter().map(|execution| (&job.instance, execution));
    for (instance, execution) in own.chain(job.child.iter().map(|child| (child, 1))) {
        let history = cloud.client.read_execution_history(instance, execution).await;
        let history = history.expect("the history can be read");
        assert_sound(instance, &history);
        let ends = history.iter().filter(|event| event.is_terminal()).count();
        assert_eq!(ends, 1, "execution {execution} of {instance} ends once: {history:#?}");
    }
}

fn report(cloud: &Cloud, weather: &str, jobs: usize) {
    let [turns, works] = [&cloud.orchestrator, &cloud.worker].map(|function| function.listener.counts().requests);
    println!(
        "{weather}: {jobs} orchestrations, {} wakeups, {turns} requests for turns, {works} for activities; {} and {}",
        cloud.bell.count(),
        metrics(&cloud.orchestrator),
        metrics(&cloud.worker),
    );
}
