//! The numbers that the guide's cost estimate is made from are those that are counted.

use crate::alarms::extracted;
use crate::template::root;
use ::cosmos::Clock;
use anyhow::Result;
use cosmos_emulator::ServerOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_lambda::MaintenanceSettings;
use duroxide_lambda::internals::Memory;
use duroxide_lambda::internals::Metrics;
use duroxide_lambda::internals::{BoundedNotifier, Budget, Maintenance, MaintenanceRequest};
use std::sync::Arc;
use std::time::Duration;
use tests::cloud::Cloud;
use tests::{ManualClock, World};

/// So many activities, one after the other.
async fn sequence(ctx: OrchestrationContext, count: String) -> Result<String, String> {
    for _ in 0..count.parse().map_err(|_| "no number".to_owned())? {
        ctx.schedule_activity("Step", "").await?;
    }
    Ok("done".to_owned())
}

fn guide() -> Result<String> {
    Ok(std::fs::read_to_string(root().join("docs/deployment.md"))?)
}

/// One row of the guide's table: what one orchestration with so many activities asks for.
async fn row(activities: u32) -> Result<String> {
    let orchestrations = OrchestrationRegistry::builder().register("Sequence", sequence).build();
    let steps = ActivityRegistry::builder()
        .register("Step", |_: ActivityContext, _: String| async { Ok(String::new()) })
        .build();
    let cloud = Cloud::start(orchestrations, steps).await;
    let listeners = || {
        [
            &cloud.client_listener,
            &cloud.orchestrator.listener,
            &cloud.worker.listener,
        ]
    };
    let mut row = String::new();
    // The second instance counts: the first includes what a cold start reads.
    for instance in ["warm", "counted"] {
        listeners().iter().for_each(|listener| listener.reset());
        let before = cloud.queue.count();
        cloud
            .client
            .start_orchestration(instance, "Sequence", activities.to_string())
            .await?;
        cloud.drain().await;
        let wakeups = cloud.queue.count() - before;
        let counts = listeners().map(|listener| listener.counts());
        let status = cloud.client.get_orchestration_status(instance).await?;
        assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
        let sum = |of: fn(&cosmos_emulator::Counts) -> u64| counts.iter().map(of).sum::<u64>();
        row = format!(
            "| {activities} | {} | {} | {} | {} | {} in {} | {wakeups} |",
            sum(|counts| counts.requests),
            sum(|counts| counts.reads),
            sum(|counts| counts.queries),
            sum(|counts| counts.writes() - counts.batches),
            sum(|counts| counts.batch_operations),
            sum(|counts| counts.batches),
        );
    }
    Ok(row)
}

/// How often something is counted before it is believed: on a machine that stalls, a lock may be renewed in between.
const TRIES: u32 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_estimates_from_what_is_counted() -> Result<()> {
    let guide = guide()?;
    for activities in [1, 5] {
        let mut rows = Vec::new();
        for _ in 0..TRIES {
            rows.push(row(activities).await?);
            if rows.last().is_some_and(|row| guide.contains(row)) {
                break;
            }
        }
        println!("{rows:?}");
        let found = rows.iter().any(|row| guide.contains(row));
        assert!(found, "docs/deployment.md says none of {rows:#?}");
    }
    Ok(())
}

/// Maintenance on an empty store of three physical partitions, and a clock that only the test moves.
pub async fn maintenance() -> (Maintenance, World, Arc<ManualClock>) {
    observed_maintenance(&Arc::new(Metrics::new(None))).await
}

/// The same, with these metrics.
async fn observed_maintenance(metrics: &Arc<Metrics>) -> (Maintenance, World, Arc<ManualClock>) {
    let world = World::local(ServerOptions {
        partitions: 3,
        ..ServerOptions::default()
    })
    .await;
    let clock = Arc::new(ManualClock::default());
    let time = || Arc::clone(&clock) as Arc<dyn Clock>;
    let observer = Arc::clone(metrics);
    let provider = tests::connect(world.builder().clock(time()).observer(observer)).await;
    let metrics = Arc::clone(metrics);
    let notifier = BoundedNotifier::new(Arc::new(Memory::new()), Duration::from_secs(2), metrics);
    let maintenance = Maintenance::new(provider, notifier, time(), MaintenanceSettings::default());
    (maintenance, world, clock)
}

/// What a run asks for that has nothing to do.
async fn idle_run() -> cosmos_emulator::Counts {
    let (maintenance, world, clock) = maintenance().await;
    // The second run counts: the first includes what a cold start reads.
    for _ in ["warm", "counted"] {
        clock.advance(MaintenanceSettings::default().period);
        world.listener().reset();
        let enough = Budget::of(Duration::from_secs(60));
        let report = maintenance.run(MaintenanceRequest::default(), enough).await;
        assert!(!report.left_over, "{report:#?}");
    }
    world.listener().counts()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_has_the_requests_of_an_idle_month() -> Result<()> {
    const RUNS: f64 = 43_200.0;
    let guide = guide()?;
    let mut rows = Vec::new();
    for _ in 0..TRIES {
        let counts = idle_run().await;
        println!("{counts:?}");
        let cosmos_emulator::Counts {
            requests,
            reads,
            replaces,
            cross_partition_queries: queries,
            ..
        } = counts;
        assert_eq!(requests, queries + reads + replaces, "nothing else is asked for");
        let units = queries as f64 * 2.26 + reads as f64 + replaces as f64 * 11.05;
        let (millions, gigabytes) = (RUNS * units / 1e6, RUNS * requests as f64 * 4.0 / 1e6);
        rows = vec![
            format!(
                "{requests} requests per run: {queries} queries, {reads} read and {replaces} replace, {units:.0} units"
            ),
            format!("| {millions:.2} million units = ${:.2} |", millions * 0.25),
            format!("| {gigabytes:.1} GB = ${:.2} |", gigabytes * 0.09),
        ];
        if rows.iter().all(|row| guide.contains(row)) {
            return Ok(());
        }
    }
    panic!("docs/deployment.md does not say {rows:#?}");
}

/// The dollars at the end of a row of a table.
fn dollars(row: &str) -> Option<f64> {
    let (_, cell) = row.trim_end_matches([' ', '|']).rsplit_once("| ")?;
    let amount = cell.trim_matches('*').rsplit(' ').next()?;
    amount.strip_prefix('$')?.parse().ok()
}

#[test]
fn the_idle_month_is_the_sum_of_its_parts() -> Result<()> {
    let guide = guide()?;
    let (_, table) = guide.split_once("Idle, per month").expect("the guide has the table");
    let (parts, rest) = table.split_once("| **sum**").expect("the table has a sum");
    let parts: Vec<f64> = parts.lines().filter_map(dollars).collect();
    assert_eq!(parts.len(), 8, "{parts:?}");
    let sum = dollars(rest.lines().next().unwrap_or_default()).expect("the sum is in dollars");
    assert!(sum < 6.0, "{sum}");
    // It is rounded to ten cents.
    assert!(
        (parts.iter().sum::<f64>() - sum).abs() <= 0.051,
        "{parts:?} are not {sum}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_has_the_number_of_metrics() -> Result<()> {
    let guide = guide()?;
    let metrics = Arc::new(Metrics::new(Some("space".to_owned())));
    let (maintenance, _world, clock) = observed_maintenance(&metrics).await;
    let mut line = String::new();
    // The second run counts: the first line of an environment also has its cold start.
    for _ in ["cold", "counted"] {
        clock.advance(MaintenanceSettings::default().period);
        let enough = Budget::of(Duration::from_secs(60));
        let report = maintenance.run(MaintenanceRequest::default(), enough).await;
        report.measure(&metrics);
        line = metrics.flush("maintenance", Duration::ZERO, 0).expect("a namespace");
    }
    let names: Vec<String> = extracted(&line).into_iter().map(|(_, name, ..)| name).collect();
    assert_eq!(names, ["CosmosRequests", "CosmosCharge"]);
    let idle = format!("maintenance writes {} every minute", names.len());
    let line = metrics.flush("worker", Duration::ZERO, 0).expect("a namespace");
    let busy = format!("{} at every invocation", extracted(&line).len());
    for said in [idle, busy] {
        assert!(guide.contains(&said), "docs/deployment.md does not say: {said}");
    }
    Ok(())
}
