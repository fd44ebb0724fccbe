use crate::first;
use duroxide::{BackoffStrategy, OrchestrationContext, OrchestrationRegistry, RetryPolicy};
use duroxide_lambda::testing::Simulation;
use std::time::Duration;

async fn patient(ctx: OrchestrationContext, address: String) -> Result<String, String> {
    let retries = RetryPolicy::new(4).with_backoff(BackoffStrategy::Exponential {
        base: Duration::from_secs(1),
        multiplier: 2.0,
        max: Duration::from_secs(60),
    });
    ctx.schedule_activity_with_retry("send-welcome", address, retries).await
}

#[test]
fn the_third_attempt_succeeds() {
    let orchestrations = OrchestrationRegistry::builder().register("patient", patient).build();
    let mut simulation =
        Simulation::of(orchestrations, first::activities()).fail_activity("send-welcome", 1..=2, "no answer");
    let ended = simulation.run("patient", "ada@example.com");
    assert_eq!(ended.expect_completed(), "sent");
    assert_eq!(ended.runs_of("send-welcome"), 3);
}
