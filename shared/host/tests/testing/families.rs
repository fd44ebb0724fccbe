//! Children, detached instances and continue-as-new.

use crate::support::{DAY, none, of};
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::testing::Simulation;

fn family() -> Simulation {
    let parent = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_orchestration("child", "apart", "3");
        let both = vec![
            ctx.schedule_sub_orchestration("child", "1"),
            ctx.schedule_sub_orchestration_with_id("child", "named", "2"),
        ];
        let answers = ctx.join(both).await;
        answers
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .map(|all| all.join(" "))
    };
    let child = |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_timer(DAY).await;
        ctx.schedule_activity("work", input).await
    };
    let both = OrchestrationRegistry::builder()
        .register("parent", parent)
        .register("child", child)
        .build();
    Simulation::of(both, none()).activity("work", |input| Ok(format!("did {input}")))
}

#[test]
fn children_and_detached_instances_run() {
    let mut simulation = family();
    let ended = simulation.run("parent", "");
    assert_eq!(ended.expect_completed(), "did 1 did 2");
    assert_eq!(ended.inputs_of("work"), ["1", "2"]);
    assert_eq!(ended.activities(), [""; 0], "they are of the children");
    let children = ended.children();
    assert_eq!(children.len(), 2);
    for child in &children {
        assert_eq!(child.runs_of("work"), 1);
        assert_eq!(child.orchestration(), "child");
    }
    assert_eq!(simulation.run_to_end("apart").expect_completed(), "did 3");
    assert_eq!(simulation.instances().len(), 4);
    assert!(
        ended.history().to_string().contains("history of `named`"),
        "{}",
        ended.history()
    );
}

#[test]
fn a_failed_child_fails_in_its_parent() {
    let ended = family().fail_activity("work", .., "no").run("parent", "");
    assert!(ended.expect_failed().contains("no"));
}

#[test]
fn executions_and_their_keys_continue() {
    let count = |ctx: OrchestrationContext, n: String| async move {
        let n: u32 = n.parse().map_err(|_| "no number".to_owned())?;
        ctx.set_kv_value(format!("round-{n}"), "done");
        ctx.schedule_timer(DAY).await;
        match n {
            3 => Ok(ctx.get_kv_length().to_string()),
            n => ctx.continue_as_new((n + 1).to_string()).await,
        }
    };
    let ended = of(count).run("flow", "1");
    assert_eq!(ended.expect_completed(), "3");
    assert_eq!((ended.executions(), ended.elapsed()), (3, 3 * DAY));
    ended.expect_deterministic();
    assert!(ended.history().to_string().contains("execution 3"));
}
