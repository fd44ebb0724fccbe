use crate::first;
use duroxide::{Either2, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::testing::Simulation;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn confirm(ctx: OrchestrationContext, address: String) -> Result<String, String> {
    ctx.schedule_activity("send-welcome", address).await?;
    ctx.set_custom_status("waits for the confirmation");
    let confirmed = ctx.dequeue_event("confirmation");
    match ctx.select2(confirmed, ctx.schedule_timer(3 * DAY)).await {
        Either2::First(by) => Ok(format!("confirmed by {by}")),
        Either2::Second(()) => Ok("not confirmed in time".to_owned()),
    }
}

fn simulation() -> Simulation {
    let orchestrations = OrchestrationRegistry::builder().register("confirm", confirm).build();
    Simulation::of(orchestrations, first::activities())
}

#[test]
fn a_confirmation_in_time_counts() {
    let mut in_time = simulation().enqueue_after(2 * DAY, "confirmation", "ada");
    let ended = in_time.run("confirm", "ada@example.com");
    assert_eq!(ended.expect_completed(), "confirmed by ada");
}

#[test]
fn a_confirmation_that_is_too_late_does_not_count() {
    let mut too_late = simulation().enqueue_after(4 * DAY, "confirmation", "ada");
    let ended = too_late.run("confirm", "ada@example.com");
    assert_eq!(ended.expect_completed(), "not confirmed in time");
}
