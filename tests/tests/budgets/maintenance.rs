//! What a run of maintenance costs that has nothing to do.

use cosmos::Clock;
use cosmos_emulator::{RequestKind, ServerOptions};
use duroxide::providers::{Provider, WorkItem};
use duroxide_cosmos::{CosmosProvider, Retention};
use duroxide_lambda::MaintenanceSettings;
use duroxide_lambda::internals::{BoundedNotifier, Budget, Maintenance, MaintenanceRequest, Memory, Metrics, PassName};
use std::sync::Arc;
use std::time::Duration;
use tests::cost::{Cost, cost_of};
use tests::{ManualClock, World, connect};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A store of so many physical partitions, and its maintenance, with retention on.
struct Site {
    world: World,
    clock: Arc<ManualClock>,
    provider: Arc<CosmosProvider>,
    maintenance: Maintenance,
}

impl Site {
    async fn new(partitions: u32) -> Site {
        let world = World::local(ServerOptions {
            partitions,
            ..ServerOptions::default()
        })
        .await;
        let clock = Arc::new(ManualClock::default());
        let time = || Arc::clone(&clock) as Arc<dyn Clock>;
        let provider = connect(world.builder().clock(time())).await;
        let metrics = Arc::new(Metrics::new(None));
        let notifier = BoundedNotifier::new(Arc::new(Memory::new()), Duration::from_secs(2), metrics);
        let settings = MaintenanceSettings {
            retention: Retention {
                delete_after: Some(30 * DAY),
                keep_executions: Some(3),
            },
            ..MaintenanceSettings::default()
        };
        let maintenance = Maintenance::new(Arc::clone(&provider), notifier, time(), settings);
        Site {
            world,
            clock,
            provider,
            maintenance,
        }
    }

    /// The cost of the next scheduled run, in which retention has its turn or not.
    async fn run(&self, retains: bool) -> Cost {
        self.clock.advance(MaintenanceSettings::default().period);
        let enough = Budget::of(Duration::from_secs(600));
        let run = self.maintenance.run(MaintenanceRequest::default(), enough);
        let (report, cost) = cost_of(self.world.listener(), run).await;
        assert!(!report.left_over, "{report:#?}");
        let retention = &report.passes[&PassName::Retention];
        assert_eq!(retention.pages > 0, retains, "{report:#?}");
        cost
    }

    /// Queues timers that are due in a month.
    async fn sleep(&self, timers: u64) {
        let all = (0..timers).map(|n| {
            let timer = WorkItem::TimerFired {
                instance: format!("sleeps-{n}"),
                execution_id: 1,
                id: 2,
                fire_at_ms: self.clock.now_ms(),
            };
            self.provider.enqueue_for_orchestrator(timer, Some(30 * DAY))
        });
        let queued = futures::future::join_all(all).await;
        assert!(queued.into_iter().all(|queued| queued.is_ok()));
    }
}

/// Three requests per physical partition, and two for the state.
#[track_caller]
fn assert_idle(cost: &Cost, partitions: u32) {
    let count = |kind| cost.kinds.iter().filter(|one| **one == kind).count() as u32;
    let kinds = [
        RequestKind::CrossPartitionQuery,
        RequestKind::Read,
        RequestKind::Replace,
    ]
    .map(count);
    assert_eq!(kinds, [3 * partitions, 1, 1], "{cost:?}");
    assert_eq!(cost.counts.requests, u64::from(3 * partitions + 2), "{cost:?}");
    // The look and the state; the new state; the two counts.
    assert_eq!(cost.round_trips, 3, "{cost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_run_is_three_requests_per_physical_partition_and_two_more() {
    for partitions in [1, 3] {
        let site = Site::new(partitions).await;
        // A cold environment reads the physical ranges, too, and the first run of all has its retention.
        site.run(true).await;
        for _ in 0..2 {
            assert_idle(&site.run(false).await, partitions);
        }
        // So does a store in which everything sleeps.
        site.sleep(200).await;
        assert_idle(&site.run(false).await, partitions);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_hourly_search_that_finds_nothing_costs_little_more() {
    let partitions = 3;
    let site = Site::new(partitions).await;
    site.run(true).await;
    site.clock.advance(MaintenanceSettings::default().search_interval);
    let cost = site.run(true).await;
    // Sessions; roots, children and executions, with one read of how far the children were examined.
    let more = u64::from(4 * partitions + 1);
    assert_eq!(cost.counts.requests, u64::from(3 * partitions + 2) + more, "{cost:?}");
    assert_idle(&site.run(false).await, partitions);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_environment_reads_the_physical_ranges_once() {
    let site = Site::new(3).await;
    site.run(true).await;
    let time = || Arc::clone(&site.clock) as Arc<dyn Clock>;
    let cold = connect(site.world.builder().clock(time())).await;
    let notifier = BoundedNotifier::new(
        Arc::new(Memory::new()),
        Duration::from_secs(2),
        Arc::new(Metrics::new(None)),
    );
    let maintenance = Maintenance::new(cold, notifier, time(), MaintenanceSettings::default());
    let mut costs = Vec::new();
    for _ in 0..2 {
        site.world.listener().reset();
        let run = maintenance.run(MaintenanceRequest::default(), Budget::of(Duration::from_secs(60)));
        assert!(!run.await.left_over);
        costs.push(site.world.listener().counts().requests);
    }
    assert_eq!(costs, [12, 11]);
}
