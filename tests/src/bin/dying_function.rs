//! The three functions in one binary, for the local cloud, with code that ends its process: an activity, and an orchestration.
//! The input says how.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::Error;
use std::env;
use std::time::Duration;

/// Ends the process, or has Lambda end it.
fn die(how: &str) -> ! {
    match how {
        "memory" => {
            let mut all: Vec<Vec<u8>> = Vec::new();
            loop {
                all.push(Vec::with_capacity(256 * 1024 * 1024));
            }
        }
        "hang" => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        _ => std::process::abort(),
    }
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Saga", |ctx: OrchestrationContext, how: String| async move {
            match ctx.schedule_activity("Dies", how).await {
                Err(error) => Ok(format!("undone: {error}")),
                done => done,
            }
        })
        .register("Dies", |_: OrchestrationContext, how: String| async move { die(&how) })
        .build()
}

fn activities() -> ActivityRegistry {
    let dies = |_: ActivityContext, how: String| async move { die(&how) };
    ActivityRegistry::builder().register("Dies", dies).build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    match env::var("AWS_LAMBDA_FUNCTION_NAME").as_deref() {
        Ok("orchestrator") => duroxide_lambda::orchestrator(orchestrations()).await,
        Ok("worker") => duroxide_lambda::worker(activities()).await,
        _ => duroxide_lambda::maintenance().await,
    }
}
