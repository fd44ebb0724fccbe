//! Timers fire in time: within half a second when wakeups arrive (some milliseconds on a machine that keeps its time), within one
//! period of the schedule when they are lost.
//!
//! These run in real time, as duroxide's timers do. How late the machine is by itself is measured beside them and allowed
//! for. When wakeups are lost, runs are counted rather than seconds.

use crate::function::*;
use cosmos::{Clock, SystemClock};
use duroxide::{EventKind, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::{Limits, MaintenanceSettings, Notifier as _, Wakeup};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::World;
use tests::cloud::{Cloud, CloudOptions};
use tests::workload;

/// What is watched.
struct Watch {
    /// How far ahead functions send wakeups.
    reach: Duration,
    period: Duration,
    /// Timers of these milliseconds.
    lengths: Vec<u64>,
    /// Every wakeup ahead of its time is lost.
    lossy: bool,
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    /// How late each timer fired, in ms.
    late: BTreeMap<u64, u64>,
    /// The instances that maintenance woke ahead of their time, in order.
    ahead: Vec<String>,
    /// The instances that it woke after their time, in order.
    after: Vec<String>,
    /// Instances that a run did not wake, though their timers were committed and due before it, and nothing had woken them.
    missed: Vec<String>,
    /// How late the machine was by itself, in ms.
    stall: u64,
}

fn waits() -> OrchestrationRegistry {
    let wait = |ctx: OrchestrationContext, millis: String| async move {
        let millis = millis.parse().map_err(|_| "not a number".to_owned())?;
        ctx.schedule_timer(Duration::from_millis(millis)).await;
        Ok("fired".to_owned())
    };
    OrchestrationRegistry::builder().register("Wait", wait).build()
}

/// When the timer of an instance is due, and when its turn had it (Unix ms). `None` before its commit.
async fn timer_of(cloud: &Cloud, instance: &str) -> Option<(u64, Option<u64>)> {
    let history = cloud.client.read_execution_history(instance, 1).await.ok()?;
    let due = history.iter().find_map(|event| match &event.kind {
        EventKind::TimerCreated { fire_at_ms } => Some(*fire_at_ms),
        _ => None,
    })?;
    let fired = history
        .iter()
        .find(|event| matches!(event.kind, EventKind::TimerFired { .. }));
    Some((due, fired.map(|event| event.timestamp_ms)))
}

impl Watch {
    async fn see(self) -> Seen {
        let options = CloudOptions {
            limits: Limits {
                wakeup_reach: self.reach,
                ..Limits::default()
            },
            ..CloudOptions::default()
        };
        let cloud = Cloud::with(options, waits(), workload::activities()).await;
        for length in &self.lengths {
            let (name, input) = (format!("wait-{length}"), length.to_string());
            let started = cloud.client.start_orchestration(&name, "Wait", input).await;
            started.expect("it starts");
        }
        let done = AtomicBool::new(false);
        let (mut seen, (), stall) = futures::join!(
            self.schedule(&cloud, &done),
            self.functions(&cloud, &done),
            stalls(&cloud, &done)
        );
        seen.stall = stall;
        seen
    }

    /// Maintenance, at its times, until all have fired.
    async fn schedule(&self, cloud: &Cloud, done: &AtomicBool) -> Seen {
        let settings = MaintenanceSettings {
            wakeup_reach: self.reach,
            period: self.period,
            ..settings()
        };
        let (maintenance, queue) = maintenance(&World::provider(&cloud.world).await, &Arc::new(SystemClock), settings);
        let (mut seen, mut ticks) = (Seen::default(), tokio::time::interval(self.period));
        let last = self.lengths.iter().max().copied().unwrap_or_default();
        let patience = Instant::now() + Duration::from_millis(last) + Duration::from_secs(120);
        let mut woken = BTreeSet::new();
        while seen.late.len() < self.lengths.len() {
            assert!(Instant::now() < patience, "not all have fired: {seen:?}");
            ticks.tick().await;
            let waiting = self.waiting(cloud).await;
            assert_complete(&run(&maintenance).await);
            let due = queue.take();
            let now = SystemClock.now_ms();
            for delayed in &due {
                let is_ahead = delayed.wakeup.due_ms > Some(now);
                let wakeups = if is_ahead { &mut seen.ahead } else { &mut seen.after };
                wakeups.push(delayed.wakeup.target.instance().to_owned());
                woken.insert(delayed.wakeup.target.instance().to_owned());
            }
            assert!(cloud.queue.notify(&due).await.is_empty());
            seen.missed
                .extend(waiting.into_iter().filter(|name| !woken.contains(name)));
            for length in &self.lengths {
                if let Some((due, Some(fired))) = timer_of(cloud, &format!("wait-{length}")).await {
                    seen.late.insert(*length, fired.saturating_sub(due));
                    // Its own wakeup may have reached it during the run.
                    seen.missed
                        .retain(|name| *name != format!("wait-{length}") || fired > now);
                }
            }
        }
        done.store(true, Ordering::SeqCst);
        seen.ahead.sort();
        seen.after.sort();
        seen
    }

    /// The instances whose timers are due and did not fire.
    async fn waiting(&self, cloud: &Cloud) -> Vec<String> {
        let (mut waiting, now) = (Vec::new(), SystemClock.now_ms());
        for name in self.lengths.iter().map(|length| format!("wait-{length}")) {
            match timer_of(cloud, &name).await {
                Some((due, None)) if due < now => waiting.push(name),
                _ => {}
            }
        }
        waiting
    }

    async fn functions(&self, cloud: &Cloud, done: &AtomicBool) {
        // The clocks are one.
        let is_ahead = |wakeup: &Wakeup| wakeup.due_ms.is_some_and(|due| due > SystemClock.now_ms());
        while !done.load(Ordering::SeqCst) {
            let post = |wakeup: Wakeup| {
                if self.lossy && is_ahead(&wakeup) {
                    vec![]
                } else {
                    vec![wakeup]
                }
            };
            cloud.drain_through(post).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The longest that a pause and a request have taken too long, in ms.
async fn stalls(cloud: &Cloud, done: &AtomicBool) -> u64 {
    const PAUSE: Duration = Duration::from_millis(50);
    let mut longest = Duration::ZERO;
    while !done.load(Ordering::SeqCst) {
        let begun = Instant::now();
        tokio::time::sleep(PAUSE).await;
        drop(cloud.client.get_orchestration_status("nobody").await);
        longest = longest.max(begun.elapsed().saturating_sub(PAUSE));
    }
    longest.as_millis() as u64
}

impl Seen {
    /// Fails when a timer was later than `most` and what the machine takes for a turn.
    #[track_caller]
    fn assert_within(&self, most: Duration) {
        println!("late, in ms: {:?}; the machine itself: {} ms", self.late, self.stall);
        let most = most.as_millis() as u64 + 5 * self.stall;
        assert!(
            self.late.values().all(|late| *late <= most),
            "more than {most} ms: {self:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_within_and_beyond_the_reach_fire_within_half_a_second() {
    let watch = Watch {
        reach: Duration::from_secs(2),
        period: Duration::from_secs(1),
        lengths: vec![1_000, 3_500],
        lossy: false,
    };
    watch.see().await.assert_within(Duration::from_millis(500));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a minute of real time"]
async fn timers_of_a_second_to_a_minute_and_beyond_the_reach_fire_within_half_a_second() {
    let within = Watch {
        reach: Duration::from_secs(900),
        // None of the timers is due when a run begins: that would cost a wakeup too many.
        period: Duration::from_secs(7),
        lengths: vec![1_000, 5_000, 60_000],
        lossy: false,
    };
    let beyond = Watch {
        reach: Duration::from_secs(3),
        period: Duration::from_secs(1),
        lengths: vec![1_000, 5_500, 8_500],
        lossy: false,
    };
    let (within, beyond) = futures::join!(within.see(), beyond.see());
    within.assert_within(Duration::from_millis(500));
    beyond.assert_within(Duration::from_millis(500));
    // Maintenance wakes ahead only those that the functions could not; and once more, in vain, one that is due when a
    // run begins: queues count in whole seconds, so its own wakeup may still be in flight.
    if within.stall.max(beyond.stall) < 200 {
        assert_eq!(within.ahead, [""; 0]);
        assert_eq!(beyond.ahead, ["wait-5500", "wait-8500"], "once each");
        for seen in [&within, &beyond] {
            let mut once = seen.after.clone();
            once.dedup();
            assert_eq!(seen.after, once, "at most one in vain: {seen:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_timer_waits_for_one_run_at_most_when_every_wakeup_is_lost() {
    let watch = Watch {
        reach: Duration::from_secs(10),
        period: Duration::from_secs(3),
        lengths: vec![1_000, 4_000],
        lossy: true,
    };
    let seen = watch.see().await;
    assert_eq!(seen.missed, [""; 0], "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a minute of real time"]
async fn a_timer_waits_for_one_run_at_most_when_every_wakeup_is_lost() {
    let period = Duration::from_secs(10);
    // At each second between two runs, and the long one.
    let lengths = [1_000].into_iter().chain((5..15).map(|n| n * 1_000)).chain([60_000]);
    let watch = Watch {
        reach: Duration::from_secs(30),
        period,
        lengths: lengths.collect(),
        lossy: true,
    };
    let seen = watch.see().await;
    println!("late, in ms: {:?}; the machine itself: {} ms", seen.late, seen.stall);
    assert_eq!(seen.missed, [""; 0], "{seen:?}");
    // On a machine that stalls, a commit may take longer than its timer, and functions longer than a period.
    if seen.stall < 200 {
        seen.assert_within(period + Duration::from_millis(500));
        assert!(
            seen.late.values().all(|late| *late >= 2_000),
            "a wakeup ahead came through: {seen:?}"
        );
    }
}
