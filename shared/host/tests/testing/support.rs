//! Small workflows.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::testing::Simulation;
use std::future::Future;
use std::time::Duration;

pub const DAY: Duration = Duration::from_secs(86_400);

/// A simulation of one orchestration, `flow`, and no activities.
pub fn of<F, Fut>(flow: F) -> Simulation
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static,
{
    Simulation::of(orchestrations(flow), none())
}

pub fn orchestrations<F, Fut>(flow: F) -> OrchestrationRegistry
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static,
{
    OrchestrationRegistry::builder().register("flow", flow).build()
}

pub fn none() -> ActivityRegistry {
    ActivityRegistry::builder().build()
}

/// The text of the panic of a closure.
pub fn panic_of(run: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).expect_err("it panics");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast::<&str>().expect("a panic with a text")).to_owned(),
    }
}
