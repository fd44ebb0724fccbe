//! A workload completes when all wakeups are lost, and when some are.

use crate::function::*;
use cosmos::Clock;
use duroxide_lambda::internals::Maintenance;
use duroxide_lambda::internals::Memory;
use duroxide_lambda::{Limits, MaintenanceSettings, Notifier as _, Target, Wakeup};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::cloud::{Cloud, CloudOptions};
use tests::workload::{self, Job, jobs};
use tests::{PATIENCE, ShiftedClock, jobs as running};
use tokio::task::JoinSet;

/// A bit more than the age at which maintenance sends a reminder.
const STEP: Duration = Duration::from_secs(31);

struct Scene {
    cloud: Arc<Cloud>,
    clock: Arc<ShiftedClock>,
    maintenance: Maintenance,
    queue: Arc<Memory>,
    jobs: Vec<Job>,
}

impl Scene {
    /// All jobs are started, and no wakeup has been delivered.
    async fn new(count: usize) -> Scene {
        let clock = Arc::new(ShiftedClock::default());
        let options = CloudOptions {
            // The clock runs far ahead of the machine, which may be slow: a lock that expires in the middle of its activity
            // must not count towards giving it up, and turns must not lose theirs at all.
            limits: Limits {
                turn_lock: Duration::from_secs(3_600),
                work_lock: Duration::from_secs(4),
                max_attempts: 10_000,
                ..Limits::default()
            },
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..CloudOptions::default()
        };
        let cloud = Cloud::with(options, workload::orchestrations(), workload::activities()).await;
        let provider = cloud.world.provider_at(&clock).await;
        let (maintenance, queue) = maintenance(&provider, &clock, MaintenanceSettings::default());
        let jobs = jobs(count);
        running::start(&cloud.client, &jobs).await;
        Scene {
            cloud: Arc::new(cloud),
            clock,
            maintenance,
            queue,
            jobs,
        }
    }

    /// Sends what jobs wait for, and answers those that are open.
    async fn open(&self) -> Vec<&Job> {
        running::nudge(&self.cloud.client, &self.jobs).await;
        running::open(&self.cloud.client, &self.jobs).await
    }

    async fn check(&self) {
        running::check(&self.cloud.client, &self.jobs).await;
    }
}

/// Serves turns one batch after the other, and activities beside them.
async fn serve(cloud: &Arc<Cloud>, wakeups: Vec<Wakeup>, works: &mut JoinSet<()>) {
    let (turns, activities): (Vec<Wakeup>, Vec<Wakeup>) = wakeups
        .into_iter()
        .partition(|wakeup| matches!(wakeup.target, Target::Turn { .. }));
    for batch in activities.chunks(10) {
        let (cloud, batch) = (Arc::clone(cloud), batch.to_vec());
        works.spawn(async move { drop(cloud.worker.invoke(&batch).await) });
    }
    for batch in turns.chunks(10) {
        drop(cloud.orchestrator.invoke(batch).await);
    }
    // One activity never ends by itself; it must not keep the schedule waiting.
    let all = async { while works.join_next().await.is_some() {} };
    drop(tokio::time::timeout(Duration::from_millis(700), all).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_by_maintenance_alone_when_every_wakeup_is_lost() {
    lose_all(10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 100 orchestrations"]
async fn a_large_workload_completes_by_maintenance_alone_when_every_wakeup_is_lost() {
    lose_all(100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_once_when_a_third_of_the_wakeups_is_lost() {
    lose_some(10, 7).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 100 orchestrations"]
async fn a_large_workload_completes_once_when_a_third_of_the_wakeups_is_lost() {
    lose_some(100, 7).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 100 orchestrations"]
async fn a_large_workload_completes_once_when_another_third_of_the_wakeups_is_lost() {
    lose_some(100, 77).await;
}

async fn lose_all(jobs: usize) {
    let scene = Scene::new(jobs).await;
    let begun = Instant::now();
    let (mut works, mut runs, mut wakeups) = (JoinSet::new(), 0, 0);
    loop {
        scene.cloud.queue.take();
        scene.clock.advance(STEP);
        assert_complete(&run(&scene.maintenance).await);
        runs += 1;
        let due: Vec<Wakeup> = scene.queue.take().into_iter().map(|delayed| delayed.wakeup).collect();
        wakeups += due.len();
        serve(&scene.cloud, due, &mut works).await;
        let open = scene.open().await;
        if open.is_empty() {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "these do not end: {open:?}");
    }
    works.abort_all();
    println!("all wakeups lost: {jobs} orchestrations by {runs} runs with {wakeups} wakeups");
    scene.check().await;
}

/// Functions and maintenance at once, on a queue that loses three wakeups of ten.
async fn lose_some(jobs: usize, seed: u64) {
    let scene = Scene::new(jobs).await;
    let begun = Instant::now();
    let cloud = Arc::clone(&scene.cloud);
    let (done, mut chance, mut lost) = (AtomicBool::new(false), fastrand::Rng::with_seed(seed), 0);
    let schedule = async {
        let mut runs = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(700)).await;
            // What loses its wakeup at several ages waits for an age that is far away.
            scene.clock.advance(STEP * (1 << (runs / 8).min(10)));
            run(&scene.maintenance).await;
            runs += 1;
            // They go through the same queue as all others.
            assert!(scene.cloud.queue.notify(&scene.queue.take()).await.is_empty());
            let open = scene.open().await;
            if open.is_empty() {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "these do not end: {open:?}");
        }
        done.store(true, Ordering::SeqCst);
        runs
    };
    let functions = async {
        while !done.load(Ordering::SeqCst) {
            let post = |wakeup: Wakeup| {
                let is_lost = chance.u8(..100) < 30;
                lost += usize::from(is_lost);
                if is_lost { vec![] } else { vec![wakeup] }
            };
            cloud.drain_through(post).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (runs, ()) = futures::join!(schedule, functions);
    println!(
        "seed {seed}: {jobs} orchestrations, {lost} of {} wakeups lost, {runs} runs",
        cloud.queue.count()
    );
    assert!(lost > 0);
    scene.check().await;
}
