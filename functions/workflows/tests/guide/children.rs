use crate::first;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::testing::Simulation;

async fn sign_up_all(ctx: OrchestrationContext, addresses: String) -> Result<String, String> {
    let children = addresses
        .split_whitespace()
        .map(|address| ctx.schedule_sub_orchestration("sign-up", address))
        .collect();
    let mut failed = 0;
    for account in ctx.join(children).await {
        failed += u32::from(account.is_err());
    }
    Ok(format!("{failed} failed"))
}

#[test]
fn one_failed_child_does_not_stop_the_others() {
    let orchestrations = OrchestrationRegistry::builder_from(&first::orchestrations())
        .register("sign-up-all", sign_up_all)
        .build();
    let mut simulation = Simulation::of(orchestrations, first::activities());
    let ended = simulation.run("sign-up-all", "ada@example.com grace alan@example.com");
    assert_eq!(ended.expect_completed(), "1 failed");
    assert_eq!(ended.children().len(), 3);
}
