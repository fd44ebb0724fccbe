use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::testing::Simulation;
use std::time::Duration;

async fn bill_monthly(ctx: OrchestrationContext, months_left: String) -> Result<String, String> {
    let left: u32 = months_left.parse().map_err(|error| format!("{months_left}: {error}"))?;
    if left == 0 {
        return Ok("the contract has ended".to_owned());
    }
    ctx.schedule_activity("bill", &months_left).await?;
    ctx.schedule_timer(Duration::from_secs(30 * 24 * 60 * 60)).await;
    ctx.continue_as_new((left - 1).to_string()).await
}

#[test]
fn a_contract_of_two_years_is_billed_each_month() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("bill-monthly", bill_monthly)
        .build();
    let mut simulation = Simulation::of(orchestrations, ActivityRegistry::builder().build())
        .activity("bill", |month| Ok(format!("billed {month}")));
    let ended = simulation.run("bill-monthly", "24");
    assert_eq!(ended.expect_completed(), "the contract has ended");
    assert_eq!((ended.runs_of("bill"), ended.executions()), (24, 25));
}
