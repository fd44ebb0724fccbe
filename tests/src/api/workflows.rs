//! Small workflows for tests of the API.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

pub(super) fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "Echo",
            |_: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .register("Refuse", |_: OrchestrationContext, input: String| async move {
            Err::<String, _>(format!("refused: {input}"))
        })
        .register("Event", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.schedule_wait("Go").await)
        })
        .register("Inbox", |ctx: OrchestrationContext, count: String| async move {
            let mut taken = Vec::new();
            for _ in 0..count.parse::<usize>().map_err(|error| error.to_string())? {
                taken.push(ctx.dequeue_event("inbox").await);
            }
            Ok(format!("[{}]", taken.join(",")))
        })
        .register("Keys", |ctx: OrchestrationContext, name: String| async move {
            ctx.set_custom_status("begun");
            let greeting = ctx.schedule_activity("Greet", name).await?;
            ctx.set_kv_value("greeting", greeting.as_str());
            ctx.set_kv_value("tag:customer", "ada");
            Ok(greeting)
        })
        .register("Parent", |ctx: OrchestrationContext, input: String| async move {
            let child = format!("{}/child", ctx.instance_id());
            ctx.schedule_sub_orchestration_with_id("Keys", child, input).await
        })
        .register("Rounds", |ctx: OrchestrationContext, left: String| async move {
            match left.parse::<u32>() {
                Ok(0) | Err(_) => Ok("done".to_owned()),
                Ok(left) => ctx.continue_as_new((left - 1).to_string()).await,
            }
        })
        .build()
}

pub(super) fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello, {name}!"))
        })
        .build()
}
