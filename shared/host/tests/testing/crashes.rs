//! Crashes, failures and repeated deliveries.

use crate::support::{DAY, of};
use duroxide::{Either2, OrchestrationContext};
use duroxide_lambda::testing::{Crash, Simulation, at_every_crash};
use std::sync::{Arc, Mutex};
use std::time::Duration;

async fn steps(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let one = ctx.schedule_activity("step", "1").await?;
    ctx.schedule_timer(DAY).await;
    let two = ctx.schedule_activity("step", "2").await?;
    Ok(format!("{one} {two}"))
}

fn sound() -> Simulation {
    of(steps).activity("step", Ok)
}

#[test]
fn an_activity_whose_result_is_lost_runs_again() {
    let ended = sound().crash(Crash::activity("step")).run("flow", "");
    assert_eq!(ended.expect_completed(), "1 2");
    assert_eq!(ended.inputs_of("step"), ["1", "1", "2"]);
    assert_eq!(
        ended.activities(),
        ["step", "step"],
        "the code has asked for it once each"
    );
}

#[test]
fn the_chosen_run_crashes_and_later() {
    let ended = sound()
        .crash(Crash::activity("step").on_run(2).times(2))
        .run("flow", "");
    assert_eq!(ended.inputs_of("step"), ["1", "2", "2", "2"]);
    let late = sound()
        .crash(Crash::activity("step"))
        .redelivered_after(Duration::from_secs(60))
        .run("flow", "");
    assert_eq!(late.elapsed(), DAY + Duration::from_secs(60));
}

#[test]
fn an_activity_that_is_lost_on_its_way_has_not_run() {
    let ended = sound().crash(Crash::activity("step").before_it_runs()).run("flow", "");
    assert_eq!(ended.expect_completed(), "1 2");
    assert_eq!(ended.inputs_of("step"), ["1", "2"]);
}

#[test]
fn a_turn_that_is_lost_runs_again_and_repeats_no_activity() {
    for turn in 1..=4 {
        let ended = sound().crash(Crash::turn(turn)).run("flow", "");
        assert_eq!(ended.expect_completed(), "1 2");
        assert_eq!(ended.inputs_of("step"), ["1", "2"], "turn {turn}");
    }
}

#[test]
fn an_activity_that_always_crashes_is_given_up_as_an_error_of_its_own() {
    let handles = |ctx: OrchestrationContext, _: String| async move {
        match ctx.schedule_activity("step", "1").await {
            Ok(_) => Ok("done".to_owned()),
            Err(error) => Ok(format!("handled: {error}")),
        }
    };
    let ended = of(handles)
        .activity("step", Ok)
        .crash(Crash::activity("step").times(u32::MAX))
        .run("flow", "");
    let expected = "handled: activity `step` killed its process 10 times (out of memory?)";
    assert_eq!(ended.expect_completed(), expected);
    assert_eq!(ended.runs_of("step"), 10);
}

#[test]
fn a_turn_that_always_crashes_blocks_its_instance() {
    let ended = sound().crash(Crash::turn(2).times(u32::MAX)).run("flow", "");
    assert!(ended.expect_blocked().contains("begun 10 times"));
}

#[test]
fn all_is_delivered_twice_and_counts_once() {
    let ended = sound().deliver_twice().run("flow", "");
    assert_eq!(ended.expect_completed(), "1 2");
    assert_eq!(ended.runs_of("step"), 4);
    let fired = ended.history().to_string().matches("fired").count();
    assert_eq!(fired, 1, "{}", ended.history());
}

#[test]
fn a_crash_at_every_step_changes_nothing() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    at_every_crash(|crash| {
        seen.lock().unwrap().push(crash.clone());
        let ended = sound().crashes(crash).run("flow", "");
        assert_eq!(ended.expect_completed(), "1 2");
        ended
    });
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1 + 2 * (4 + 2), "{seen:?}");
}

async fn with_deadline(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let deadline = ctx.schedule_timer(Duration::from_secs(30));
    match ctx.select2(ctx.schedule_activity("step", ""), deadline).await {
        Either2::First(_) => Ok("in time".to_owned()),
        Either2::Second(()) => Ok("too late".to_owned()),
    }
}

#[test]
fn a_lost_step_comes_back_at_once_and_late() {
    let mut outputs = Vec::new();
    at_every_crash(|crash| {
        let ended = of(with_deadline).activity("step", Ok).crashes(crash).run("flow", "");
        outputs.push((ended.expect_completed(), ended.elapsed().as_secs()));
        ended
    });
    let expected = [
        ("in time", 0),
        // The first turn: the deadline begins with it.
        ("in time", 0),
        ("in time", 0),
        // The turn that takes the result.
        ("in time", 0),
        ("too late", 30),
        // The activity.
        ("in time", 0),
        ("too late", 30),
    ];
    assert_eq!(outputs, expected.map(|(output, time)| (output.to_owned(), time)));
}

#[test]
fn a_chosen_time_of_redelivery_is_the_only_one() {
    let mut outputs = Vec::new();
    at_every_crash(|crash| {
        let mut simulation = of(with_deadline).activity("step", Ok).crashes(crash);
        simulation = simulation.redelivered_after(Duration::from_secs(20));
        let ended = simulation.run("flow", "");
        outputs.push(ended.expect_completed());
        ended
    });
    assert_eq!(outputs, ["in time"; 1 + 2 + 1]);
}

#[test]
fn failures_are_of_the_chosen_runs() {
    for (simulation, expected) in [
        (sound().fail_activity("step", 1, "no"), "no"),
        (sound().fail_activity("step", 2.., "later"), "later"),
        (sound().fail_activity("step", .., "always"), "always"),
    ] {
        let mut simulation = simulation;
        assert_eq!(simulation.run("flow", "").expect_failed(), expected);
    }
}
