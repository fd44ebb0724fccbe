//! Versions and builds.

use crate::support::{DAY, none, orchestrations};
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::replay::{Cause, Recording};
use duroxide_lambda::testing::Simulation;

async fn old(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_activity("charge", "").await?;
    ctx.schedule_timer(DAY).await;
    ctx.schedule_activity("ship", "").await
}

async fn new(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_activity("check", "").await?;
    ctx.schedule_activity("charge", "").await?;
    ctx.schedule_timer(DAY).await;
    ctx.schedule_activity("ship", "").await
}

fn both() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register_versioned("flow", "1.0.0", old)
        .register_versioned("flow", "2.0.0", new)
        .build()
}

fn simulation(build: OrchestrationRegistry) -> Simulation {
    Simulation::of(build, none())
        .activity("charge", |_| Ok("charged".to_owned()))
        .activity("check", |_| Ok("checked".to_owned()))
        .activity("ship", |_| Ok("shipped".to_owned()))
}

#[test]
fn a_new_version_leaves_running_instances_alone() {
    let mut simulation = simulation(orchestrations(old));
    simulation.start("a", "flow", "");
    simulation.advance(DAY / 2);
    simulation.upgrade(both(), none());
    simulation.start("b", "flow", "");
    let (a, b) = (simulation.run_to_end("a"), simulation.run_to_end("b"));
    assert_eq!(
        (a.expect_completed(), a.version()),
        ("shipped".to_owned(), Some("1.0.0"))
    );
    assert_eq!(
        (b.expect_completed(), b.version()),
        ("shipped".to_owned(), Some("2.0.0"))
    );
    assert_eq!(b.activities(), ["check", "charge", "ship"]);
}

#[test]
fn a_change_in_place_blocks_and_a_rollback_goes_on() {
    let mut simulation = simulation(orchestrations(old));
    simulation.start("a", "flow", "");
    simulation.advance(DAY / 2);
    simulation.upgrade(orchestrations(new), none());
    let reason = simulation.run_to_end("a").expect_blocked();
    assert!(reason.contains("does not do what its history says"), "{reason}");
    simulation.upgrade(orchestrations(old), none());
    let ended = simulation.run_to_end("a");
    assert_eq!(ended.expect_completed(), "shipped");
    assert_eq!(ended.runs_of("charge"), 1);
}

#[test]
fn an_instance_starts_at_a_version() {
    let ended = simulation(both()).run_version("flow", "1.0.0", "");
    assert_eq!(ended.activities(), ["charge", "ship"]);
    let unknown = simulation(both()).run_version("flow", "3.0.0", "");
    assert!(unknown.expect_blocked().contains("version 3.0.0"));
}

#[test]
fn a_policy_chooses_the_version() {
    let build = both();
    let exact = duroxide::runtime::VersionPolicy::Exact("1.0.0".parse().unwrap());
    build.set_version_policy("flow", exact);
    assert_eq!(simulation(build).run("flow", "").version(), Some("1.0.0"));
}

#[test]
fn recorded_histories_are_replayed_on_another_build() {
    let ended = simulation(orchestrations(old)).run("flow", "");
    ended.expect_completed();
    assert!(ended.replay_on(&both()).iter().all(|replayed| replayed.fault.is_none()));
    let replayed = ended.replay_on(&orchestrations(new));
    let fault = replayed[0].fault.as_ref().expect("a fault");
    assert_eq!((fault.cause, fault.event), (Cause::Nondeterminism, Some(2)));
    let saved = serde_json::to_string(&ended.recordings()[0]).unwrap();
    assert_eq!(Recording::parse(&saved).unwrap().events.len(), ended.events().len());
}
