//! How a run ends, and what a test is shown of it.

use crate::support::{DAY, none, of, orchestrations, panic_of};
use duroxide::OrchestrationContext;
use duroxide_lambda::testing::{Outcome, Simulation};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

async fn greet(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    ctx.schedule_activity("greet", name).await
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Name {
    name: String,
}

#[test]
fn a_closure_stands_in_for_an_activity() {
    let mut greeted = 0;
    let mut simulation = of(greet).activity("greet", move |name| {
        greeted += 1;
        Ok(format!("Hello {name}, {greeted}"))
    });
    let ended = simulation.run("flow", "ada");
    assert_eq!(ended.expect_completed(), "Hello ada, 1");
    assert_eq!(ended.activities(), ["greet"]);
    let call = &ended.calls()[0];
    assert_eq!(
        (call.instance.as_str(), call.input.as_str(), call.run),
        ("main", "ada", 1)
    );
    assert_eq!(call.result, Some(Ok("Hello ada, 1".to_owned())));
}

#[test]
fn typed_inputs_and_outputs_are_json() {
    let typed = |ctx: OrchestrationContext, input: String| async move {
        let name: Name = serde_json::from_str(&input).map_err(|error| error.to_string())?;
        let answer: Name = ctx.schedule_activity_typed("double", &name).await?;
        serde_json::to_string(&answer).map_err(|error| error.to_string())
    };
    let mut simulation = of(typed).activity_typed("double", |name: Name| {
        Ok(Name {
            name: name.name.repeat(2),
        })
    });
    let ended = simulation.run_typed("flow", &Name { name: "ab".to_owned() });
    let name: Name = ended.expect_completed_typed();
    assert_eq!(name.name, "abab");
}

#[test]
fn a_wait_for_nothing_ends_at_once_and_says_what_is_missing() {
    let began = Instant::now();
    let wait = |ctx: OrchestrationContext, _: String| async move {
        ctx.set_custom_status("asking");
        Ok(ctx.schedule_wait("approval").await)
    };
    let ended = of(wait).run("flow", "the order");
    assert_eq!(ended.expect_waiting(), ["event approval"]);
    let text = panic_of(|| drop(ended.expect_completed()));
    for said in [
        "it waits for event approval",
        "started with the order",
        "custom status asking",
    ] {
        assert!(text.contains(said), "{said:?} is not in {text}");
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn an_activity_that_nobody_registers_is_named() {
    let ended = of(greet).run("flow", "ada");
    let text = panic_of(|| drop(ended.expect_completed()));
    assert!(
        text.contains("no deployed function registers activity `greet`"),
        "{text}"
    );
}

#[test]
fn an_orchestration_that_nobody_registers_is_blocked() {
    let ended = of(greet).run("flwo", "ada");
    let reason = ended.expect_blocked();
    assert!(
        reason.contains("orchestration `flwo`; registered here: `flow`"),
        "{reason}"
    );
}

#[test]
fn a_child_that_waits_is_named_by_its_parent() {
    let parent =
        |ctx: OrchestrationContext, _: String| async move { ctx.schedule_sub_orchestration("child", "").await };
    let child = |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait("signal").await) };
    let both = duroxide::OrchestrationRegistry::builder()
        .register("parent", parent)
        .register("child", child)
        .build();
    let ended = Simulation::of(both, none()).run("parent", "");
    let text = panic_of(|| drop(ended.expect_completed()));
    assert!(text.contains("waits for event signal"), "{text}");
}

#[test]
fn a_child_that_is_blocked_in_its_first_turn_is_named_by_its_parent() {
    let parent = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_sub_orchestration_with_id("middle", "m", "").await
    };
    let middle = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_sub_orchestration_versioned("chlid", Some("2.0.0".to_owned()), "")
            .await
    };
    let both = duroxide::OrchestrationRegistry::builder()
        .register("parent", parent)
        .register("middle", middle)
        .build();
    let ended = Simulation::of(both, none()).run("parent", "");
    let text = panic_of(|| drop(ended.expect_completed()));
    assert!(
        text.contains("no deployed function registers orchestration `chlid`"),
        "{text}"
    );
    let middle = &ended.children()[0];
    let child = &middle.children()[0];
    assert_eq!((child.orchestration(), child.version()), ("chlid", Some("2.0.0")));
    assert!(text.contains(&format!("`{}` is blocked", child.id())), "{text}");
}

#[test]
fn an_activity_that_never_ends_stops_the_test() {
    let activities = duroxide::runtime::registry::ActivityRegistry::builder()
        .register("greet", |_, _| std::future::pending())
        .build();
    let ended = Simulation::of(orchestrations(greet), activities).run("flow", "");
    let text = panic_of(|| drop(ended.expect_completed()));
    assert!(
        text.contains("activity `greet` has not ended within 15 minutes"),
        "{text}"
    );
    let text = panic_of(|| drop(ended.expect_waiting()));
    assert!(text.contains("is not waiting: it has not gone on"), "{text}");
}

#[test]
fn time_does_not_advance_over_an_activity_that_never_ends() {
    let activities = duroxide::runtime::registry::ActivityRegistry::builder()
        .register("greet", |_, _| std::future::pending())
        .build();
    let mut simulation = Simulation::of(orchestrations(greet), activities);
    let began = simulation.now();
    simulation.start("a", "flow", "");
    simulation.advance(Duration::from_secs(600));
    for _ in 0..2 {
        let text = panic_of(|| simulation.advance(DAY));
        assert!(
            text.contains("cannot advance: activity `greet` has not ended"),
            "{text}"
        );
    }
    assert!(simulation.now() < began + Duration::from_secs(1_000));
    let healthy = duroxide::runtime::registry::ActivityRegistry::builder()
        .register("greet", |_, name| async { Ok(name) })
        .build();
    simulation.upgrade(orchestrations(greet), healthy);
    simulation.advance(DAY);
    assert_eq!(simulation.instance("a").expect_completed(), "");
}

#[test]
fn time_does_not_advance_without_turns() {
    let daily = |ctx: OrchestrationContext, _: String| async move {
        for _ in 0..5 {
            ctx.schedule_timer(DAY).await;
        }
        Ok(ctx.schedule_wait("end").await)
    };
    let mut simulation = of(daily).most_turns(6);
    simulation.start("a", "flow", "");
    simulation.advance(10 * DAY);
    assert_eq!(
        simulation.instance("a").expect_waiting(),
        ["event end"],
        "six turns are enough"
    );
    let mut simulation = of(daily).most_turns(5);
    simulation.start("a", "flow", "");
    let text = panic_of(|| simulation.advance(10 * DAY));
    assert!(text.contains("cannot advance: it needs more than 5 turns"), "{text}");
    let text = panic_of(|| drop(simulation.instance("a").expect_waiting()));
    assert!(text.contains("most_turns"), "{text}");
}

#[test]
fn a_workflow_that_continues_for_ever_stops_the_test() {
    let eternal = |ctx: OrchestrationContext, n: String| async move {
        ctx.schedule_timer(DAY).await;
        ctx.continue_as_new(n + "1").await
    };
    let mut simulation = of(eternal).most_turns(100);
    let text = panic_of(|| drop(simulation.run("flow", "").expect_completed()));
    assert!(text.contains("most_turns"), "{text}");
    let mut simulation = of(eternal);
    simulation.start("a", "flow", "");
    simulation.advance(10 * DAY);
    assert_eq!(simulation.instance("a").executions(), 11);
}

#[test]
fn code_that_is_not_deterministic_is_blocked() {
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let chance = move |ctx: OrchestrationContext, _: String| {
        let n = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async move { ctx.schedule_activity(if n == 0 { "first" } else { "second" }, "").await }
    };
    let ended = of(chance).activity("first", Ok).activity("second", Ok).run("flow", "");
    let reason = ended.expect_blocked();
    assert!(reason.contains("does not do what its history says"), "{reason}");
}

#[test]
fn a_last_turn_that_is_not_deterministic_is_found_by_a_replay() {
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let chance = move |ctx: OrchestrationContext, _: String| {
        let n = runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async move {
            ctx.schedule_activity("a", "").await?;
            Ok(n.to_string())
        }
    };
    let ended = of(chance).activity("a", Ok).run("flow", "");
    ended.expect_completed();
    let text = panic_of(|| ended.expect_deterministic());
    assert!(text.contains("ends with another output"), "{text}");
    of(greet).activity("greet", Ok).run("flow", "").expect_deterministic();
}

#[test]
fn panics_of_activities_are_errors_and_those_of_orchestrations_block() {
    let ended = of(greet).activity("greet", |_| panic!("a bug")).run("flow", "");
    assert!(ended.expect_failed().contains("activity `greet` panicked: a bug"));
    let ended = of(|_, _| async { panic!("another") }).run("flow", "");
    assert!(
        ended
            .expect_blocked()
            .contains("the orchestration's code panicked: another")
    );
    assert!(matches!(ended.outcome(), Outcome::Blocked(_)));
}

#[test]
fn status_and_keys_are_seen() {
    let keys = |ctx: OrchestrationContext, _: String| async move {
        ctx.set_custom_status("one");
        ctx.set_kv_value("k", "1");
        ctx.set_kv_value("gone", "1");
        ctx.schedule_timer(DAY).await;
        ctx.set_custom_status("two");
        ctx.clear_kv_value("gone");
        Ok(ctx.get_kv_value("k").unwrap_or_default())
    };
    let ended = of(keys).run("flow", "");
    assert_eq!(ended.expect_completed(), "1");
    assert_eq!(
        (ended.custom_status(), ended.custom_statuses()),
        (Some("two"), vec!["one".to_owned(), "two".to_owned()])
    );
    assert_eq!((ended.key("k"), ended.keys().len()), (Some("1"), 1));
}

#[test]
fn a_simulation_runs_within_another_runtime() {
    let outer = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let output = outer.block_on(async { of(greet).activity("greet", Ok).run("flow", "ada").expect_completed() });
    assert_eq!(output, "ada");
}

#[test]
fn a_history_is_readable() {
    let ended = of(greet)
        .activity("greet", |name| Ok(format!("Hello {name}!")))
        .run("flow", "ada");
    let text = ended.history().to_string();
    let expected = "history of `main` (flow 1.0.0):\n     1         0s  started with ada\n     2         0s  activity greet with \
                    ada\n     3         0s  activity greet returned Hello ada!\n     4         0s  completed with Hello ada!\n";
    assert_eq!(text, expected);
}

#[test]
fn tags_and_sessions_are_served() {
    let tagged = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_activity_on_session("greet", "in a session", "s").await?;
        ctx.schedule_activity("greet", "tagged").with_tag("gpu").await
    };
    let ended = of(tagged).activity("greet", Ok).run("flow", "");
    ended.expect_completed();
    let tags: Vec<_> = ended.calls().into_iter().map(|call| call.tag).collect();
    assert_eq!(tags, [None, Some("gpu".to_owned())]);
}
