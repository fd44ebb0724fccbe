//! The workflows of the worlds in this process.

use super::hostile;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

/// Returns its input.
pub const ECHO: &str = "echo";
/// Waits for the event `go`.
pub const WAIT: &str = "wait-for-go";
/// Continues as new, as often as its input says.
pub const ROUNDS: &str = "rounds";
/// Sends a mail, whose worker may give up.
pub const MAIL: &str = "send-mail";
/// The activity of [`MAIL`].
pub const DELIVER: &str = "deliver-mail";

/// Has a child for the pages.
pub const INVOICE: &str = "send-invoice";
/// The child of [`INVOICE`], with an activity that no worker has.
pub const PAGES: &str = "print-pages";

/// The sample's workflows, those of this file and hostile ones.
pub fn all() -> (OrchestrationRegistry, ActivityRegistry) {
    let (orchestrations, activities) = plain();
    let orchestrations = OrchestrationRegistry::builder().merge(orchestrations);
    let activities = ActivityRegistry::builder().merge(activities);
    (
        hostile::orchestrations(orchestrations).build(),
        hostile::activities(activities).build(),
    )
}

/// The same without hostile ones: what is blocked names everything that is registered.
pub fn plain() -> (OrchestrationRegistry, ActivityRegistry) {
    let orchestrations = OrchestrationRegistry::builder()
        .merge(::workflows::orchestrations())
        .register(ECHO, |_: OrchestrationContext, input: String| async move { Ok(input) })
        .register(WAIT, |ctx: OrchestrationContext, _: String| async move {
            ctx.set_custom_status("waiting for go");
            Ok(ctx.schedule_wait("go").await)
        })
        .register(ROUNDS, |ctx: OrchestrationContext, left: String| async move {
            match left.parse::<u32>() {
                Ok(0) | Err(_) => Ok("done".to_owned()),
                Ok(left) => ctx.continue_as_new((left - 1).to_string()).await,
            }
        })
        .register(MAIL, |ctx: OrchestrationContext, to: String| async move {
            ctx.schedule_activity(DELIVER, to).await
        })
        .register(INVOICE, |ctx: OrchestrationContext, order: String| async move {
            ctx.set_custom_status("printing");
            ctx.schedule_sub_orchestration(PAGES, order).await
        })
        .register(PAGES, |ctx: OrchestrationContext, order: String| async move {
            ctx.schedule_activity("print-page", order).await
        });
    let activities = ActivityRegistry::builder()
        .merge(::workflows::activities())
        .register(DELIVER, |_: ActivityContext, to: String| async move {
            Ok(format!("delivered to {to}"))
        });
    (orchestrations.build(), activities.build())
}
