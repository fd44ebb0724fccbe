//! The same order at every run.

use crate::support::{DAY, none};
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::testing::Simulation;
use std::time::{Duration, Instant};

/// Many things at once: parallel activities with pauses and failures, children, timers, races.
fn busy() -> Simulation {
    let parent = |ctx: OrchestrationContext, _: String| async move {
        let children = (0..6)
            .map(|n| ctx.schedule_sub_orchestration("child", n.to_string()))
            .collect();
        let mut all = Vec::new();
        for answer in ctx.join(children).await {
            all.push(answer?);
        }
        Ok(all.join(","))
    };
    let child = |ctx: OrchestrationContext, n: String| async move {
        let policy = duroxide::RetryPolicy::new(5);
        let id = ctx.new_guid().await?;
        let fan: Vec<_> = (0..5).map(|m| ctx.schedule_activity("a", format!("{n}-{m}"))).collect();
        ctx.join(fan).await;
        ctx.schedule_timer(Duration::from_millis(17)).await;
        let b = ctx.schedule_activity_with_retry("b", id, policy).await?;
        let deadline = ctx.schedule_timer(DAY);
        ctx.select2(ctx.schedule_activity("slow", n), deadline).await;
        Ok(b)
    };
    let both = OrchestrationRegistry::builder()
        .register("parent", parent)
        .register("child", child)
        .build();
    Simulation::of(both, none())
        .activity("a", Ok)
        .activity("b", Ok)
        .activity("slow", Ok)
        .activity_takes("slow", Duration::from_secs(3))
        .fail_activity("b", 2..=5, "no")
}

#[test]
fn every_run_is_the_same() {
    let trace = || {
        let ended = busy().run("parent", "");
        ended.expect_completed();
        let calls: Vec<_> = ended
            .calls()
            .into_iter()
            .map(|call| (call.activity, call.instance, call.input))
            .collect();
        (ended.history().to_string(), calls)
    };
    let first = trace();
    for _ in 0..30 {
        assert_eq!(trace(), first);
    }
}

/// An hour of a workflow in many steps: milliseconds, and in any case far less than it simulates.
#[test]
fn an_hour_takes_milliseconds() {
    let hour = |ctx: OrchestrationContext, _: String| async move {
        for _ in 0..60 {
            ctx.schedule_timer(Duration::from_secs(60)).await;
            ctx.schedule_activity("tick", "").await?;
        }
        Ok(String::new())
    };
    let began = Instant::now();
    let orchestrations = OrchestrationRegistry::builder().register("hour", hour).build();
    let ended = Simulation::of(orchestrations, none())
        .activity("tick", Ok)
        .run("hour", "");
    ended.expect_completed();
    let took = began.elapsed();
    assert_eq!(
        (ended.runs_of("tick"), ended.elapsed()),
        (60, Duration::from_secs(3_600))
    );
    println!("an hour in 120 steps took {took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
}
