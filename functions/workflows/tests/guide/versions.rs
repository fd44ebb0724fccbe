use crate::first;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::testing::Simulation;
use std::time::Duration;

async fn remind(ctx: OrchestrationContext, address: String) -> Result<String, String> {
    ctx.schedule_timer(Duration::from_secs(60)).await;
    ctx.schedule_activity("send-welcome", address).await
}

async fn remind_twice(ctx: OrchestrationContext, address: String) -> Result<String, String> {
    ctx.schedule_activity("send-welcome", address.clone()).await?;
    ctx.schedule_timer(Duration::from_secs(60)).await;
    ctx.schedule_activity("send-welcome", address).await
}

fn old_build() -> OrchestrationRegistry {
    OrchestrationRegistry::builder().register("remind", remind).build()
}

fn new_build() -> OrchestrationRegistry {
    OrchestrationRegistry::builder_from(&old_build())
        .register_versioned("remind", "2.0.0", remind_twice)
        .build()
}

#[test]
fn what_runs_keeps_its_version_and_what_starts_takes_the_newest() {
    let mut simulation = Simulation::of(old_build(), first::activities());
    simulation.start("old", "remind", "ada@example.com");
    simulation.advance(Duration::from_secs(1));
    simulation.upgrade(new_build(), first::activities());
    assert_eq!(simulation.run_to_end("old").runs_of("send-welcome"), 1);
    assert_eq!(simulation.run("remind", "grace@example.com").runs_of("send-welcome"), 2);
}

#[test]
fn changed_code_without_a_version_blocks_what_runs() {
    let changed = OrchestrationRegistry::builder()
        .register("remind", remind_twice)
        .build();
    let mut simulation = Simulation::of(old_build(), first::activities());
    simulation.start("old", "remind", "ada@example.com");
    simulation.advance(Duration::from_secs(1));
    simulation.upgrade(changed, first::activities());
    simulation.run_to_end("old").expect_blocked();
}
