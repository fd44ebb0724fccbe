//! Panics of activities: each becomes an error of its activity that says so.
//!
//! duroxide's runtime would report tokio's text, which has the number of a task and differs from run to run.

use crate::function_error::panic_text;
use duroxide::ActivityContext;
use duroxide::runtime::registry::ActivityRegistry;
use futures::FutureExt as _;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// The same activities; one that panics fails with the panic's text.
pub(crate) fn caught(activities: &ActivityRegistry) -> ActivityRegistry {
    let mut caught = ActivityRegistry::builder();
    for name in activities.list_names() {
        let Some((_, activity)) = activities.resolve_handler(&name) else {
            continue;
        };
        let shown = name.clone();
        caught = caught.register(name, move |ctx: ActivityContext, input: String| {
            let (activity, shown) = (Arc::clone(&activity), shown.clone());
            async move {
                let run = AssertUnwindSafe(activity.invoke(ctx, input)).catch_unwind();
                run.await
                    .unwrap_or_else(|panic| Err(format!("activity `{shown}` panicked: {}", panic_text(panic.as_ref()))))
            }
        });
    }
    caught.build()
}
