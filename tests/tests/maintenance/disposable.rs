//! Notifiers are disposable: a workload completes when all of them are lost, and when some are.

use crate::function::*;
use cosmos::Clock;
use duroxide::{EventKind, OrchestrationStatus};
use duroxide_lambda::testing::Maintenance;
use duroxide_lambda::testing::Memory;
use duroxide_lambda::{Limits, MaintenanceSettings, Notifier as _, Target, Wakeup};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::ShiftedClock;
use tests::cloud::{Cloud, CloudOptions};
use tests::workload::{self, Job, Nudge, assert_sound, jobs};
use tokio::task::JoinSet;

const JOBS: usize = 100;
/// How long a slow machine may take.
const PATIENCE: Duration = Duration::from_secs(240);
/// A bit more than the age at which something is notified.
const STEP: Duration = Duration::from_secs(31);

struct Scene {
    cloud: Arc<Cloud>,
    clock: Arc<ShiftedClock>,
    maintenance: Maintenance,
    bell: Arc<Memory>,
    jobs: Vec<Job>,
    raised: bool,
}

impl Scene {
    /// All jobs are started, and nobody has been told.
    async fn new() -> Scene {
        let clock = Arc::new(ShiftedClock::default());
        let options = CloudOptions {
            // The clock runs far ahead of the machine, which may be slow: a lock that ends in the middle of its activity
            // must not make it poison, and turns are not to lose theirs at all.
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
        let (maintenance, bell) = maintenance(&provider, &clock, MaintenanceSettings::default());
        let jobs = jobs(JOBS);
        for job in &jobs {
            let started = cloud
                .client
                .start_orchestration(&job.instance, job.orchestration, job.input.as_str());
            started.await.expect("it starts");
            if job.nudge == Nudge::Message {
                let queued = cloud.client.enqueue_event(&job.instance, "inbox", &job.output);
                queued.await.expect("it is queued");
            }
        }
        Scene {
            cloud: Arc::new(cloud),
            clock,
            maintenance,
            bell,
            jobs,
            raised: false,
        }
    }

    /// Raises the events, once their instances have subscribed.
    async fn nudge(&mut self) {
        if self.raised {
            return;
        }
        let waiting: Vec<&Job> = self.jobs.iter().filter(|job| job.nudge == Nudge::Event).collect();
        for job in &waiting {
            let history = self.cloud.client.read_execution_history(&job.instance, 1).await;
            let subscribed = |event: &duroxide::Event| matches!(event.kind, EventKind::ExternalSubscribed { .. });
            if !history.is_ok_and(|history| history.iter().any(subscribed)) {
                return;
            }
        }
        for job in waiting {
            let raised = self.cloud.client.raise_event(&job.instance, "Go", &job.output);
            raised.await.expect("it is raised");
        }
        self.raised = true;
    }

    async fn open(&self) -> Vec<&str> {
        let mut open = Vec::new();
        for job in &self.jobs {
            let status = self.cloud.client.get_orchestration_status(&job.instance).await;
            if !matches!(status, Ok(OrchestrationStatus::Completed { .. })) {
                open.push(job.instance.as_str());
            }
        }
        open
    }

    /// Fails unless each job has its output, and each activity one result.
    async fn check(&self) {
        for job in &self.jobs {
            let status = self.cloud.client.get_orchestration_status(&job.instance).await;
            let Ok(OrchestrationStatus::Completed { output, .. }) = status else {
                panic!("{}: {status:?}", job.instance)
            };
            assert_eq!(output, job.output, "{}", job.instance);
            let own = (1..=job.executions).map(|execution| (&job.instance, execution));
            for (instance, execution) in own.chain(job.child.iter().map(|child| (child, 1))) {
                let history = self.cloud.client.read_execution_history(instance, execution).await;
                assert_sound(instance, &history.expect("the history can be read"));
            }
        }
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
async fn a_workload_completes_by_maintenance_alone_when_every_notifier_is_lost() {
    let mut scene = Scene::new().await;
    let begun = Instant::now();
    let (mut works, mut runs, mut wakeups) = (JoinSet::new(), 0, 0);
    loop {
        scene.cloud.bell.take();
        scene.clock.advance(STEP);
        assert_complete(&run(&scene.maintenance).await);
        runs += 1;
        let due: Vec<Wakeup> = scene.bell.take().into_iter().map(|delayed| delayed.wakeup).collect();
        wakeups += due.len();
        serve(&scene.cloud, due, &mut works).await;
        scene.nudge().await;
        let open = scene.open().await;
        if open.is_empty() {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "these do not end: {open:?}");
    }
    works.abort_all();
    println!("all notifiers lost: {JOBS} orchestrations by {runs} runs with {wakeups} wakeups");
    scene.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_once_when_a_third_of_the_notifiers_is_lost() {
    lose_some(7).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_once_when_another_third_of_the_notifiers_is_lost() {
    lose_some(77).await;
}

/// Functions and maintenance at once, on a queue that loses three wakeups of ten.
async fn lose_some(seed: u64) {
    let mut scene = Scene::new().await;
    let begun = Instant::now();
    let cloud = Arc::clone(&scene.cloud);
    let (done, mut chance, mut lost) = (AtomicBool::new(false), fastrand::Rng::with_seed(seed), 0);
    let schedule = async {
        let mut runs = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(700)).await;
            // What is unlucky enough to lose its wakeup at several ages waits for an age that is far away.
            scene.clock.advance(STEP * (1 << (runs / 8).min(10)));
            run(&scene.maintenance).await;
            runs += 1;
            // They go the same way as all others.
            assert!(scene.cloud.bell.notify(&scene.bell.take()).await.is_empty());
            scene.nudge().await;
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
            cloud.settle_through(post).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (runs, ()) = futures::join!(schedule, functions);
    println!(
        "seed {seed}: {JOBS} orchestrations, {lost} of {} notifiers lost, {runs} runs",
        cloud.bell.count()
    );
    assert!(lost > 0);
    scene.check().await;
}
