use crate::first;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::testing::Simulation;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn trial(ctx: OrchestrationContext, address: String) -> Result<String, String> {
    ctx.schedule_timer(30 * DAY).await;
    ctx.schedule_activity("send-welcome", address).await?;
    Ok("the trial is over".to_owned())
}

#[test]
fn a_trial_of_thirty_days_is_tested_at_once() {
    let orchestrations = OrchestrationRegistry::builder().register("trial", trial).build();
    let mut simulation = Simulation::of(orchestrations, first::activities());
    let ended = simulation.run("trial", "ada@example.com");
    assert_eq!(ended.expect_completed(), "the trial is over");
    assert!(ended.elapsed() >= 30 * DAY);
}
