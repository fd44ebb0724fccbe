//! The numbers that the guide's cost estimate is made from are those that are counted.

use crate::alarms::{extracted, idle};
use crate::template::root;
use anyhow::Result;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_lambda::meter::Meter;
use std::time::Duration;
use tests::cloud::Cloud;

/// So many activities, one after the other.
async fn sequence(ctx: OrchestrationContext, count: String) -> Result<String, String> {
    for _ in 0..count.parse().map_err(|_| "no number".to_owned())? {
        ctx.schedule_activity("Step", "").await?;
    }
    Ok("done".to_owned())
}

/// One row of the guide's table: what one orchestration with so many activities asks for.
async fn row(activities: u32) -> Result<String> {
    let orchestrations = OrchestrationRegistry::builder().register("Sequence", sequence).build();
    let steps = ActivityRegistry::builder()
        .register("Step", |_: ActivityContext, _: String| async { Ok(String::new()) })
        .build();
    let cloud = Cloud::start(orchestrations, steps).await;
    let doors = || [&cloud.client_door, &cloud.orchestrator.door, &cloud.worker.door];
    let mut row = String::new();
    // The second instance counts: the first pays for what a cold start learns.
    for instance in ["warm", "counted"] {
        doors().iter().for_each(|door| door.reset());
        let before = cloud.bell.count();
        cloud
            .client
            .start_orchestration(instance, "Sequence", activities.to_string())
            .await?;
        cloud.settle().await;
        let rings = cloud.bell.count() - before;
        let counts = doors().map(|door| door.counts());
        let status = cloud.client.get_orchestration_status(instance).await?;
        assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
        let sum = |of: fn(&local::Counts) -> u64| counts.iter().map(of).sum::<u64>();
        row = format!(
            "| {activities} | {} | {} | {} | {} | {} in {} | {rings} |",
            sum(|counts| counts.requests),
            sum(|counts| counts.reads),
            sum(|counts| counts.queries),
            sum(|counts| counts.creates + counts.replaces + counts.upserts + counts.deletes),
            sum(|counts| counts.batch_operations),
            sum(|counts| counts.batches),
        );
    }
    Ok(row)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_estimates_from_what_is_counted() -> Result<()> {
    let guide = std::fs::read_to_string(root().join("infra/README.md"))?;
    for activities in [1, 5] {
        let row = row(activities).await?;
        println!("{row}");
        assert!(guide.contains(&row), "infra/README.md does not say {row}");
    }
    Ok(())
}

#[test]
fn the_guide_knows_how_many_metrics_an_idle_minute_writes() -> Result<()> {
    let guide = std::fs::read_to_string(root().join("infra/README.md"))?;
    let meter = Meter::new(Some("space".to_owned()));
    // The first line of an environment also tells of its cold start.
    meter.flush("maintenance", Duration::ZERO, 0);
    idle().measure(&meter);
    let line = meter.flush("maintenance", Duration::ZERO, 0).expect("a namespace");
    let said = format!("maintenance writes {} every minute", extracted(&line).len());
    assert!(guide.contains(&said), "infra/README.md does not say: {said}");
    Ok(())
}
