//! Versions and builds.

use crate::support::{DAY, none, orchestrations};
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::replay::{Cause, Recording};
use duroxide_lambda::testing::Simulation;
use std::time::Duration;

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
fn a_blocked_instance_is_cancelled_with_its_children() {
    let parent = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_sub_orchestration_with_id("lost", "child", "").await
    };
    let mut simulation = simulation(orchestrations(parent));
    simulation.start("a", "flow", "");
    simulation.run_to_end("a").expect_waiting();
    simulation.instance("child").expect_blocked();
    simulation.upgrade(orchestrations(new), none());
    simulation.raise("a", "any", "");
    simulation.run_to_end("a").expect_blocked();

    simulation.cancel("a", "enough");
    let ended = simulation.run_to_end("a");
    assert!(ended.expect_failed().contains("enough"), "{}", ended.history());
    let child = simulation.run_to_end("child");
    assert!(child.expect_failed().contains("parent canceled"), "{}", child.history());
}

#[test]
fn an_unknown_orchestration_is_cancelled_at_its_time() {
    let ended = simulation(orchestrations(old))
        .cancel_after(DAY, "enough")
        .run("flwo", "");
    assert!(ended.expect_failed().contains("enough"));
    let events = ended.events();
    let at = |n: usize| events[n].timestamp_ms;
    assert_eq!((at(2) - 1_767_225_600_000, at(0)), (86_400_000, at(2)));
}

#[test]
fn what_has_not_run_is_left_to_the_new_build() {
    let mut simulation = simulation(orchestrations(old));
    simulation.start("a", "flow", "");
    simulation.upgrade(orchestrations(new), none());
    assert_eq!(simulation.run_to_end("a").activities(), ["check", "charge", "ship"]);

    let waits = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_wait("go").await;
        ctx.schedule_activity("charge", "").await
    };
    let ships = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_wait("go").await;
        ctx.schedule_activity("ship", "").await
    };
    let mut simulation = self::simulation(orchestrations(waits));
    simulation.start("a", "flow", "");
    simulation.advance(DAY);
    simulation.raise("a", "go", "");
    simulation.upgrade(orchestrations(ships), none());
    assert_eq!(simulation.run_to_end("a").expect_completed(), "shipped");
}

#[test]
fn an_activity_in_flight_is_lost_and_runs_again_on_the_new_build() {
    let minute = Duration::from_secs(60);
    let mut simulation = simulation(orchestrations(old)).activity_takes("charge", 2 * minute);
    simulation.start("a", "flow", "");
    simulation.advance(minute);
    let before = simulation.now();
    simulation.upgrade(orchestrations(old), none());
    assert_eq!(simulation.now(), before, "an upgrade takes no time");
    let ended = simulation.run_to_end("a");
    assert_eq!(ended.expect_completed(), "shipped");
    assert_eq!((ended.runs_of("charge"), ended.elapsed()), (2, 3 * minute + DAY));
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
