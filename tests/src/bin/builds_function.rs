//! The three functions of an order in one binary, for the local cloud, as builds of it would be deployed: `ORDER_BUILD` says which.
//! Each activity notes that it ran in the file `ORDER_EFFECTS`.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::Error;
use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

/// `first` charges, waits for the delivery, and ships. `careless` has one activity more before, without care for running
/// instances. `fixed` has it too, for new orders only.
fn orchestrations() -> OrchestrationRegistry {
    let first = |ctx: OrchestrationContext, _: String| async move { ship(&ctx).await };
    let checked = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_activity("Check", "").await?;
        ship(&ctx).await
    };
    let orders = OrchestrationRegistry::builder();
    match env::var("ORDER_BUILD").as_deref() {
        Ok("careless") => orders.register("Order", checked),
        Ok("fixed") => orders
            .register("Order", first)
            .register_versioned("Order", "2.0.0", checked),
        _ => orders.register("Order", first),
    }
    .build()
}

async fn ship(ctx: &OrchestrationContext) -> Result<String, String> {
    ctx.schedule_activity("Charge", "").await?;
    let day = ctx.dequeue_event("delivery").await;
    ctx.schedule_activity("Ship", day).await
}

fn activities() -> ActivityRegistry {
    ["Charge", "Check", "Ship"]
        .into_iter()
        .fold(ActivityRegistry::builder(), |activities, name| {
            activities.register(name, move |ctx: ActivityContext, input: String| async move {
                let file = env::var("ORDER_EFFECTS").map_err(|error| error.to_string())?;
                let noted = OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(file)
                    .and_then(|mut file| file.write_all(format!("{name} {}\n", ctx.instance_id()).as_bytes()));
                noted.map_err(|error| error.to_string())?;
                Ok(input)
            })
        })
        .build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    match env::var("AWS_LAMBDA_FUNCTION_NAME").as_deref() {
        Ok("orchestrator") => duroxide_lambda::orchestrator(orchestrations()).await,
        Ok("worker") => duroxide_lambda::worker(activities()).await,
        _ => duroxide_lambda::maintenance().await,
    }
}
