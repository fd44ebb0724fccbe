//! The workflows: plain async Rust. Nothing here knows where it runs.
//!
//! An orchestration decides what happens. After each step it runs again from its beginning, and what
//! happened before is answered from its history. So it must always ask for the same things in the
//! same order: no clock, no randomness and no I/O except through `ctx`. An activity does the work: it
//! may do anything, and may run more than once.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

/// What the function `orchestrator` can run.
pub fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("hello", hello)
        .build()
}

/// What the function `worker` can run.
pub fn activities() -> ActivityRegistry {
    ActivityRegistry::builder().register("greet", greet).build()
}

/// The orchestration `hello`: greets whom its input names.
async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    ctx.schedule_activity("greet", name).await
}

/// The activity `greet`.
async fn greet(_: ActivityContext, name: String) -> Result<String, String> {
    Ok(format!("Hello {name}!"))
}
