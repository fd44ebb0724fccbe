//! Functions and maintenance at once, while the store fails at random and wakeups are lost and repeated.
//!
//! ```text
//!   orchestrator ── listener ─┐
//!   worker ──────── listener ─┤   each listener: throttled, unavailable, lost before and after, late; by fixed seeds
//!   maintenance ─── listener ─┼── one store
//!   client, checks ─ calm ┘
//! ```
//!
//! In the end the faults stop and maintenance runs until it finds nothing: everything must be as if nothing had happened.

use crate::function::*;
use cosmos::Clock;
use cosmos_emulator::{Faults, Listener, ServerOptions};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::internals::Memory;
use duroxide_lambda::internals::{Budget, Maintenance, MaintenanceRequest};
use duroxide_lambda::{Limits, MaintenanceSettings, Notifier as _, Wakeup};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::cloud::{Cloud, CloudOptions};
use tests::workload::{self, Job, Nudge, jobs};
use tests::{PATIENCE, ShiftedClock, connect, jobs as running};

/// A bit more than the age at which maintenance sends a reminder.
const STEP: Duration = Duration::from_secs(31);

/// Faults of a listener: about one request in eight is hit.
fn storm(seed: u64) -> Faults {
    Faults {
        seed,
        lost_before: 0.03,
        lost_after: 0.03,
        throttled: 0.04,
        retry_after: Duration::from_millis(5),
        unavailable: 0.03,
        jitter: Duration::from_millis(5),
        ..Faults::default()
    }
}

struct Scene {
    cloud: Cloud,
    clock: Arc<ShiftedClock>,
    maintenance: Maintenance,
    queue: Arc<Memory>,
    listeners: Vec<Listener>,
    jobs: Vec<Job>,
}

impl Scene {
    async fn new(count: usize, seed: u64) -> Scene {
        let clock = Arc::new(ShiftedClock::default());
        let options = CloudOptions {
            server: ServerOptions {
                partitions: 4,
                ..ServerOptions::default()
            },
            // The clock runs far ahead of the machine: see `lost_wakeups`.
            limits: Limits {
                turn_lock: Duration::from_secs(600),
                work_lock: Duration::from_secs(4),
                max_attempts: 10_000,
                ..Limits::default()
            },
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..CloudOptions::default()
        };
        let cloud = Cloud::with(options, orchestrations(), activities()).await;
        let listener = cloud.world.open_listener().await;
        let config = cloud
            .world
            .builder_through(&listener)
            .clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let (maintenance, queue) = maintenance(&connect(config).await, &clock, MaintenanceSettings::default());
        let listeners = vec![
            cloud.orchestrator.listener.clone(),
            cloud.worker.listener.clone(),
            listener,
        ];
        for (listener, n) in listeners.iter().zip(1..) {
            listener.set_faults(storm(seed * 10 + n));
        }
        let mut scene = Scene {
            cloud,
            clock,
            maintenance,
            queue,
            listeners,
            jobs: jobs(count),
        };
        scene.start().await;
        scene
    }

    async fn start(&mut self) {
        self.jobs.extend((0..4).map(|n| Job {
            instance: format!("Sticky-{n}"),
            orchestration: "Sticky",
            input: n.to_string(),
            output: format!("{n}{n}{n}"),
            nudge: Nudge::None,
            executions: 1,
            child: None,
        }));
        running::start(&self.cloud.client, &self.jobs).await;
    }

    /// Sends what jobs wait for, and answers those that are open.
    async fn open(&self) -> Vec<&Job> {
        running::nudge(&self.cloud.client, &self.jobs).await;
        running::open(&self.cloud.client, &self.jobs).await
    }

    /// A run, whose wakeups go the way of all others.
    async fn maintain(&self, time: Duration) -> bool {
        let report = self
            .maintenance
            .run(MaintenanceRequest::default(), Budget::of(time))
            .await;
        assert!(self.cloud.queue.notify(&self.queue.take()).await.is_empty());
        let is_broken = report.passes.values().any(|pass| pass.error.is_some());
        !report.left_over && !is_broken
    }

    /// The faults end: maintenance finds what is left, and functions do it.
    async fn calm(&self) {
        for listener in &self.listeners {
            listener.clear_faults();
        }
        for _ in 0..6 {
            // Beyond every lock, every pause of the outbox, every session.
            self.clock.advance(Duration::from_secs(4_000));
            assert!(self.maintain(ENOUGH).await, "nothing fails any more");
            self.cloud.drain().await;
        }
    }

    /// Fails unless nothing is left that somebody should have removed.
    async fn check_store(&self) {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for doc in self.cloud.world.documents().await {
            let kind = doc["type"].as_str().unwrap_or_default();
            *kinds.entry(kind.to_owned()).or_default() += 1;
            if kind == "instance" {
                assert!(doc["holder"].is_null(), "a lock is held: {doc}");
                assert!(
                    doc["unfinished"].is_null() && doc["deleting"].is_null(),
                    "a commit is not ended: {doc}"
                );
            }
        }
        println!("what is left: {kinds:?}");
        for gone in [
            "intent",
            "staged",
            "staged-head",
            "deletion",
            "message",
            "work",
            "session",
            "dead-letter",
        ] {
            assert_eq!(kinds.get(gone), None, "{gone}: {kinds:?}");
        }
    }
}

/// The workload, and an orchestration whose activities share a session.
fn orchestrations() -> OrchestrationRegistry {
    let sticky = |ctx: OrchestrationContext, n: String| async move {
        let session = format!("session-{n}");
        let mut said = String::new();
        for _ in 0..3 {
            let echo = ctx.schedule_activity_on_session("Echo", n.as_str(), session.as_str());
            said.push_str(&echo.await?);
        }
        Ok(said)
    };
    let all = OrchestrationRegistry::builder_from(&workload::orchestrations());
    all.register("Sticky", sticky).build()
}

fn activities() -> ActivityRegistry {
    let echo = |_: ActivityContext, text: String| async move { Ok(text) };
    ActivityRegistry::builder_from(&workload::activities())
        .register("Echo", echo)
        .build()
}

/// How many requests were lost or turned away.
fn hits(listener: &Listener) -> usize {
    let log = listener.log();
    let is_hit = |status: Option<u16>| matches!(status, None | Some(429 | 503));
    log.iter().filter(|request| is_hit(request.status)).count()
}

async fn live_through(jobs: usize, seed: u64) {
    let scene = Scene::new(jobs, seed).await;
    let begun = Instant::now();
    let (done, mut chance) = (AtomicBool::new(false), fastrand::Rng::with_seed(seed));
    let (mut lost, mut repeated) = (0, 0);
    let schedule = async {
        let mut runs = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            scene.clock.advance(STEP * (1 << (runs / 8).min(10)));
            // Some runs have so little time that they stop in the middle.
            let time = if runs % 3 == 2 {
                Duration::from_millis(3_300)
            } else {
                ENOUGH
            };
            scene.maintain(time).await;
            runs += 1;
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
            let post = |wakeup: Wakeup| match chance.u8(..100) {
                0..20 => {
                    lost += 1;
                    vec![]
                }
                20..30 => {
                    repeated += 1;
                    vec![wakeup.clone(), wakeup]
                }
                _ => vec![wakeup],
            };
            scene.cloud.drain_through(post).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (runs, ()) = futures::join!(schedule, functions);
    println!(
        "seed {seed}: {runs} runs, {lost} wakeups lost, {repeated} repeated, {:?}",
        begun.elapsed()
    );
    let hit: Vec<usize> = scene.listeners.iter().map(hits).collect();
    println!("requests that were hit: {hit:?}");
    assert!(
        lost > 0 && repeated > 0 && hit.iter().all(|hit| *hit > 0),
        "there were too few faults"
    );
    scene.calm().await;
    running::check(&scene.cloud.client, &scene.jobs).await;
    scene.check_store().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_left_behind_after_a_brief_storm() {
    live_through(10, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 44 orchestrations"]
async fn nothing_is_lost_or_left_behind_after_the_first_storm() {
    live_through(40, 11).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 44 orchestrations"]
async fn nothing_is_lost_or_left_behind_after_the_second_storm() {
    live_through(40, 12).await;
}
