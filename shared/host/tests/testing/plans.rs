//! What is planned and does not happen fails the test.

use crate::support::{DAY, of, panic_of};
use duroxide::OrchestrationContext;
use duroxide_lambda::testing::{Crash, Simulation, at_every_crash};
use std::time::{Duration, UNIX_EPOCH};

async fn steps(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let one = ctx.schedule_activity("step", "1").await?;
    let two = ctx.schedule_activity("step", "2").await?;
    Ok(format!("{one} {two}"))
}

fn sound() -> Simulation {
    of(steps).activity("step", Ok)
}

#[test]
fn a_fault_that_does_not_happen_fails_the_test() {
    type Plan = fn(Simulation) -> Simulation;
    let plans: [(Plan, &str); 6] = [
        (
            |simulation| simulation.crash(Crash::activity("stpe")),
            "a crash at run 1 of activity `stpe`",
        ),
        (
            |simulation| simulation.crash(Crash::activity("step").on_run(3)),
            "a crash at run 3 of activity `step`",
        ),
        (|simulation| simulation.crash(Crash::turn(4)), "a crash at turn 4"),
        (
            |simulation| simulation.crash(Crash::any_activity(3)),
            "a crash at run 3 of all activities",
        ),
        (
            |simulation| simulation.fail_activity("stpe", .., "no"),
            "a failure of runs 1.. of activity `stpe`, which ran 0 times",
        ),
        (
            |simulation| simulation.fail_activity("step", 3..9, "no"),
            "a failure of runs 3..=8 of activity `step`, which ran 2 times",
        ),
    ];
    for (plan, expected) in plans {
        let text = panic_of(|| drop(plan(sound()).run("flow", "").expect_completed()));
        assert!(text.contains("has not happened"), "{text}");
        assert!(text.contains(expected), "{expected:?} is not in {text}");
        assert!(text.contains("plans.rs:"), "the place is not in {text}");
    }
}

#[test]
fn an_expectation_that_fails_names_what_did_not_happen() {
    let mut simulation = sound().fail_activity("stpe", 1, "no");
    let text = panic_of(move || drop(simulation.run("flow", "").expect_failed()));
    assert!(text.contains("is not failed: it has completed"), "{text}");
    assert!(
        text.contains("not happened: a failure of run 1 of activity `stpe`"),
        "{text}"
    );
}

#[test]
fn one_of_several_runs_is_enough() {
    let retried = |ctx: OrchestrationContext, _: String| async move {
        let policy = duroxide::RetryPolicy::new(3);
        ctx.schedule_activity_with_retry("step", "", policy).await
    };
    let ended = of(retried)
        .activity("step", Ok)
        .fail_activity("step", 1..=5, "no")
        .run("flow", "");
    assert_eq!((ended.expect_failed().as_str(), ended.runs_of("step")), ("no", 3));
    let ended = sound()
        .crash(Crash::activity("step").on_run(2).times(5))
        .run("flow", "");
    assert_eq!(ended.expect_completed(), "1 2");
}

#[test]
fn a_fault_may_happen_in_a_later_instance() {
    let mut simulation = sound().crash(Crash::activity("step").on_run(3));
    simulation.start("a", "flow", "");
    assert_eq!(simulation.run_to_end("a").runs_of("step"), 2);
    simulation.start("b", "flow", "");
    assert_eq!(simulation.run_to_end("b").runs_of("step"), 3);
}

#[test]
fn numbers_count_from_one() {
    for (refused, expected) in [
        (panic_of(|| drop(Crash::turn(0))), "turns count from 1"),
        (panic_of(|| drop(Crash::any_activity(0))), "runs count from 1"),
        (
            panic_of(|| drop(Crash::activity("step").on_run(0))),
            "runs count from 1",
        ),
        (panic_of(|| drop(Crash::activity("step").times(0))), "0 times is none"),
        (
            panic_of(|| drop(sound().fail_activity("step", 0, "no"))),
            "runs count from 1",
        ),
        (
            panic_of(|| drop(sound().fail_activity("step", 0..3, "no"))),
            "runs count from 1",
        ),
        (
            panic_of(|| drop(sound().fail_activity("step", 3..3, "no"))),
            "runs count from 1",
        ),
    ] {
        assert!(refused.contains(expected), "{expected:?} is not in {refused}");
    }
}

#[test]
fn planned_messages_reach_an_instance_that_is_driven_by_hand() {
    let waits = |ctx: OrchestrationContext, _: String| async move {
        let event = ctx.schedule_wait("go").await;
        let message = ctx.dequeue_event("orders").await;
        ctx.set_custom_status(format!("{event} {message}"));
        Ok(ctx.schedule_wait("never").await)
    };
    let mut simulation = of(waits)
        .raise_after(DAY, "go", "now")
        .enqueue_after(2 * DAY, "orders", "tea")
        .cancel_after(3 * DAY, "enough");
    simulation.start("a", "flow", "");
    simulation.start("b", "flow", "");
    let ended = simulation.run_to_end("a");
    assert!(ended.expect_failed().contains("enough"));
    assert_eq!((ended.custom_status(), ended.elapsed()), (Some("now tea"), 3 * DAY));
    assert_eq!(simulation.instance("b").expect_waiting(), ["event go"]);
}

#[test]
fn a_planned_message_without_an_instance_fails_the_test() {
    let mut simulation = sound();
    simulation.run("flow", "").expect_completed();
    let simulation = simulation.raise_after(DAY, "go", "now");
    let text = panic_of(move || drop(simulation));
    assert!(
        text.contains("a message to the next instance that is started"),
        "{text}"
    );
}

#[test]
fn a_simulation_that_has_begun_is_not_set_up_any_more() {
    let begun = || {
        let mut simulation = sound();
        simulation.start("a", "flow", "");
        simulation
    };
    for (method, text) in [
        ("activity", panic_of(|| drop(begun().activity("other", Ok)))),
        (
            "activity",
            panic_of(|| drop(begun().activity_typed("other", |n: u32| Ok(n)))),
        ),
        ("starting_at", panic_of(|| drop(begun().starting_at(UNIX_EPOCH)))),
    ] {
        let expected = format!("`{method}` would have no effect: call it before the first `start` or `run`");
        assert!(text.contains(&expected), "{text}");
    }
    // These are read when they are needed.
    let minute = Duration::from_secs(60);
    let mut simulation = begun().fail_activity("step", 2, "no").activity_takes("step", minute);
    assert_eq!(simulation.run_to_end("a").elapsed(), minute * 2);
}

#[test]
fn a_test_that_ignores_the_crash_is_found_out() {
    let text = panic_of(|| at_every_crash(|_| sound().run("flow", "")));
    let expected = "the crash at turn 1 has not happened: give `crash` to `Simulation::crashes`";
    assert!(text.contains(expected), "{text}");
    let mut runs = 0;
    at_every_crash(|crash| {
        runs += 1;
        let mut simulation = sound().crashes(crash).redelivered_after(Duration::ZERO);
        simulation.run("flow", "")
    });
    assert_eq!(runs, 1 + 3 + 2);
}
