use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::testing::Simulation;

async fn sign_up(ctx: OrchestrationContext, address: String) -> Result<String, String> {
    let account = ctx.schedule_activity("create-account", address.clone()).await?;
    ctx.schedule_activity("send-welcome", address).await?;
    Ok(account)
}

async fn create_account(ctx: ActivityContext, address: String) -> Result<String, String> {
    // A real one would call a database here, with `ctx.instance_id()` as the key that makes a repetition harmless.
    Ok(format!("account {} of {address}", ctx.instance_id()))
}

async fn send_welcome(_: ActivityContext, address: String) -> Result<String, String> {
    if !address.contains('@') {
        return Err(format!("{address} is not an e-mail address"));
    }
    Ok("sent".to_owned())
}

pub fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder().register("sign-up", sign_up).build()
}

pub fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("create-account", create_account)
        .register("send-welcome", send_welcome)
        .build()
}

#[test]
fn a_new_account_gets_a_welcome() {
    let mut simulation = Simulation::of(orchestrations(), activities());
    let ended = simulation.run("sign-up", "ada@example.com");
    assert!(ended.expect_completed().ends_with("of ada@example.com"));
    assert_eq!(ended.activities(), ["create-account", "send-welcome"]);
}

#[test]
fn a_wrong_address_fails_the_instance() {
    let mut simulation = Simulation::of(orchestrations(), activities());
    let failed = simulation.run("sign-up", "ada").expect_failed();
    assert!(failed.contains("ada is not an e-mail address"), "{failed}");
}

#[test]
fn no_crash_loses_or_repeats_a_result() {
    duroxide_lambda::testing::at_every_crash(|crash| {
        let mut simulation = Simulation::of(orchestrations(), activities()).crashes(crash);
        let ended = simulation.run("sign-up", "ada@example.com");
        ended.expect_completed();
        assert_eq!(ended.activities(), ["create-account", "send-welcome"]);
        ended
    });
}
