//! The three functions of a fan-out in one binary, for the local cloud: `FanOut` runs as many activities at once as its input
//! says, and `Work` takes as many milliseconds as its input says.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::Error;
use std::time::Duration;

/// The input `1000 20` is a thousand activities of 20 ms.
fn orchestrations() -> OrchestrationRegistry {
    let fan_out = |ctx: OrchestrationContext, input: String| async move {
        let (count, millis) = input.split_once(' ').ok_or("the input is two numbers")?;
        let count: usize = count.parse().map_err(|_| "the count is not a number")?;
        let all = (0..count).map(|_| ctx.schedule_activity("Work", millis)).collect();
        let done = ctx.join(all).await.into_iter().filter(Result::is_ok).count();
        Ok(done.to_string())
    };
    OrchestrationRegistry::builder().register("FanOut", fan_out).build()
}

fn activities() -> ActivityRegistry {
    let work = |_: ActivityContext, millis: String| async move {
        let millis = millis.parse().map_err(|_| "not a number".to_owned())?;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        Ok(String::new())
    };
    ActivityRegistry::builder().register("Work", work).build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    match std::env::var("AWS_LAMBDA_FUNCTION_NAME").as_deref() {
        Ok("orchestrator") => duroxide_lambda::orchestrator(orchestrations()).await,
        Ok("worker") => duroxide_lambda::worker(activities()).await,
        _ => duroxide_lambda::maintenance().await,
    }
}
