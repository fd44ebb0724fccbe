//! A backlog: many activities wait in the queue for few functions, and maintenance runs many times meanwhile.
//!
//! The queue is in order and delivers each wakeup once, as SQS usually does. Its depth is what maintenance sees. Time is
//! moved: between two runs the functions serve a part of the queue.

use crate::function::*;
use cosmos::Clock;
use duroxide::runtime::OrchestrationStatus;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::internals::{BoundedNotifier, Budget, Depth, Maintenance, MaintenanceRequest, Metrics};
use duroxide_lambda::internals::{PassName, QueueName};
use duroxide_lambda::{Limits, MaintenanceSettings, Notifier, Target, Wakeup};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tests::cloud::{Cloud, CloudOptions};
use tests::{PATIENCE, ShiftedClock};

/// What is simulated.
struct Backlog {
    instances: usize,
    /// Activities of each instance.
    activities: usize,
    /// How many activities the functions serve between two runs.
    served: usize,
    threshold: Duration,
    period: Duration,
    /// Every so many work wakeups one is lost; 0 for none.
    lost: usize,
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    /// Wakeups for activities, and how many of them were lost.
    wakeups: usize,
    lost: usize,
    runs: usize,
    held: u64,
}

fn orchestrations() -> OrchestrationRegistry {
    let fan = |ctx: OrchestrationContext, count: String| async move {
        let count: usize = count.parse().map_err(|_| "not a number".to_owned())?;
        let all = (0..count)
            .map(|n| ctx.schedule_activity("Work", n.to_string()))
            .collect();
        Ok(ctx.join(all).await.len().to_string())
    };
    OrchestrationRegistry::builder().register("Fan", fan).build()
}

fn activities() -> ActivityRegistry {
    let work = |_: ActivityContext, input: String| async move { Ok(input) };
    ActivityRegistry::builder().register("Work", work).build()
}

impl Backlog {
    async fn see(self) -> Seen {
        let clock = Arc::new(ShiftedClock::default());
        let options = CloudOptions {
            limits: Limits {
                turn_lock: Duration::from_secs(3_600),
                work_lock: Duration::from_secs(3_600),
                ..Limits::default()
            },
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..CloudOptions::default()
        };
        let cloud = Cloud::with(options, orchestrations(), activities()).await;
        let maintenance = self.maintenance(&cloud, &clock).await;
        for n in 0..self.instances {
            let (name, count) = (format!("i{n}"), self.activities.to_string());
            let started = cloud.client.start_orchestration(&name, "Fan", count).await;
            started.expect("it starts");
        }
        let (mut works, mut seen) = (VecDeque::new(), Seen::default());
        self.turns(&cloud, &mut works, &mut seen).await;
        let total = self.instances * self.activities;
        assert_eq!(works.len() + seen.lost, total, "the first wakeup of each");
        while !self.is_over(&cloud).await {
            seen.runs += 1;
            assert!(seen.runs < 1_000, "it does not end: {seen:?}");
            clock.advance(self.period);
            cloud.queue.set_depth(QueueName::works(), Some(depth(works.len())));
            let report = maintenance.run(sweep(), Budget::of(PATIENCE)).await;
            assert_complete(&report);
            seen.held += report.reminders_held;
            self.turns(&cloud, &mut works, &mut seen).await;
            for _ in 0..self.served.div_ceil(10) {
                let batch: Vec<Wakeup> = works.drain(..works.len().min(10)).collect();
                let served = cloud.worker.invoke(&batch).await;
                assert!(served.batch_item_failures.is_empty(), "{served:?}");
                self.turns(&cloud, &mut works, &mut seen).await;
            }
        }
        seen
    }

    async fn maintenance(&self, cloud: &Cloud, clock: &Arc<ShiftedClock>) -> Maintenance {
        let notifier = Arc::clone(&cloud.queue) as Arc<dyn Notifier>;
        let notifier = BoundedNotifier::new(notifier, Duration::from_secs(2), Arc::new(Metrics::new(None)));
        let settings = MaintenanceSettings {
            overdue: self.threshold,
            period: self.period,
            ..MaintenanceSettings::default()
        };
        cloud.queue.set_depth(QueueName::turns(), Some(depth(0)));
        let provider = cloud.world.provider_at(clock).await;
        Maintenance::new(provider, notifier, Arc::clone(clock) as Arc<dyn Clock>, settings)
    }

    /// Serves all turns at once, and queues the wakeups for activities.
    async fn turns(&self, cloud: &Cloud, works: &mut VecDeque<Wakeup>, seen: &mut Seen) {
        loop {
            let (turns, new): (Vec<Wakeup>, Vec<Wakeup>) = cloud
                .queue
                .take()
                .into_iter()
                .map(|delayed| delayed.wakeup)
                .partition(|wakeup| matches!(wakeup.target, Target::Turn { .. }));
            for wakeup in new {
                seen.wakeups += 1;
                let is_lost = self.lost > 0 && seen.wakeups.is_multiple_of(self.lost);
                seen.lost += usize::from(is_lost);
                works.extend((!is_lost).then_some(wakeup));
            }
            if turns.is_empty() {
                return;
            }
            for batch in turns.chunks(10) {
                let served = cloud.orchestrator.invoke(batch).await;
                assert!(served.batch_item_failures.is_empty(), "{served:?}");
            }
        }
    }

    async fn is_over(&self, cloud: &Cloud) -> bool {
        for n in (0..self.instances).rev() {
            let status = cloud.client.get_orchestration_status(&format!("i{n}")).await;
            match status.expect("the status can be read") {
                OrchestrationStatus::Completed { output, .. } => assert_eq!(output, self.activities.to_string()),
                OrchestrationStatus::Running { .. } => return false,
                other => panic!("i{n}: {other:?}"),
            }
        }
        true
    }
}

/// Only the sweep: counting a large backlog takes the emulator long.
fn sweep() -> MaintenanceRequest {
    MaintenanceRequest {
        passes: vec![PassName::Sweep],
        ..MaintenanceRequest::default()
    }
}

fn depth(waiting: usize) -> Depth {
    Depth {
        waiting: waiting as u64,
        ..Depth::default()
    }
}

/// Threshold and period of a deployment, and those of a developer's machine.
const DEPLOYED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(60));
const SHORT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5));

async fn wakes_little(instances: usize, activities: usize, served: usize, (threshold, period): (Duration, Duration)) {
    let backlog = Backlog {
        instances,
        activities,
        served,
        threshold,
        period,
        lost: 0,
    };
    let total = instances * activities;
    let seen = backlog.see().await;
    println!("backlog of {total}, threshold {threshold:?}, period {period:?}: {seen:?}");
    assert!(
        seen.runs >= 10 && seen.held > 0,
        "the backlog was too small to show anything: {seen:?}"
    );
    assert!(
        seen.wakeups * 10 <= total * 11,
        "at most 1.1 wakeups per activity: {seen:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_that_few_functions_serve_is_not_woken_again() {
    wakes_little(5, 80, 30, DEPLOYED).await;
    wakes_little(5, 80, 30, SHORT).await;
}

/// How many instances a large backlog has, with 100 activities each. The emulator takes minutes for 100.
fn many() -> usize {
    std::env::var("BACKLOG_INSTANCES").map_or(20, |count| count.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 2,000 activities; BACKLOG_INSTANCES=100 makes 10,000"]
async fn a_large_backlog_that_few_functions_serve_is_not_woken_again() {
    wakes_little(many(), 100, many() * 5, DEPLOYED).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 2,000 activities; BACKLOG_INSTANCES=100 makes 10,000"]
async fn a_large_backlog_is_not_woken_again_with_short_thresholds() {
    wakes_little(many(), 100, many() * 5, SHORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_backlog_lost_is_woken_and_nothing_else() {
    for (threshold, period) in [DEPLOYED, SHORT] {
        let backlog = Backlog {
            instances: 5,
            activities: 80,
            served: 50,
            threshold,
            period,
            lost: 10,
        };
        let seen = backlog.see().await;
        println!("a tenth of 400 lost, threshold {threshold:?}, period {period:?}: {seen:?}");
        assert!(seen.lost >= 40, "{seen:?}");
        // Each lost wakeup once more, and a probe in each run.
        let needed = 400 + seen.lost + seen.runs;
        assert!(seen.wakeups <= needed + needed / 10, "{needed} are enough: {seen:?}");
    }
}
