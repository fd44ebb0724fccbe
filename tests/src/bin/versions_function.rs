//! The three functions of a workflow in one binary, for the local cloud, as versions of it would be built one after the other: the
//! variable `VERSION` says which, or else what follows `VERSION:` at the end of the executable's file.
//!
//! `Steps` runs the activity `Step` three times, waits for the event `go`, and runs it three times more. Its output names the
//! version of each step, and of the turn that ended it. Each step notes that it ran in the file `EFFECTS`. The second one does not end as
//! long as there is a file of that name with `.hold` at its end. The version `careless` has one more step at the beginning, without care for
//! running instances.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::Error;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// How long a step takes: long enough to be under way when its function is replaced.
const STEP: Duration = Duration::from_millis(150);

/// How many bytes at the end of the file may hold the version.
const END: u64 = 64;

/// The version, which a file that was replaced meanwhile has not any more: it is read once.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| env::var("VERSION").unwrap_or_else(|_| at_the_end().unwrap_or_default()))
}

fn at_the_end() -> std::io::Result<String> {
    let mut file = File::open("/proc/self/exe")?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(END)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let end = String::from_utf8_lossy(&end);
    Ok(end
        .rsplit_once("VERSION:")
        .map(|(_, version)| version.to_owned())
        .unwrap_or_default())
}

async fn three(ctx: &OrchestrationContext, first: usize) -> Result<Vec<String>, String> {
    let mut versions = Vec::new();
    for step in first..first + 3 {
        versions.push(ctx.schedule_activity("Step", step.to_string()).await?);
    }
    Ok(versions)
}

fn orchestrations() -> OrchestrationRegistry {
    let steps = |ctx: OrchestrationContext, _: String| async move {
        if version() == "careless" {
            ctx.schedule_activity("Step", "0").await?;
        }
        let mut versions = three(&ctx, 1).await?;
        ctx.dequeue_event("go").await;
        versions.extend(three(&ctx, 4).await?);
        // Only the last turn gets here, so the output may name the version that runs it.
        versions.push(version().to_owned());
        Ok(versions.join(" "))
    };
    OrchestrationRegistry::builder().register("Steps", steps).build()
}

fn activities() -> ActivityRegistry {
    let step = |ctx: ActivityContext, input: String| async move {
        let path = env::var("EFFECTS").map_err(|error| error.to_string())?;
        let line = format!("{} {input}\n", ctx.instance_id());
        let file = OpenOptions::new().append(true).create(true).open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(|error| error.to_string())?;
        tokio::time::sleep(STEP).await;
        while input == "2" && Path::new(&format!("{path}.hold")).exists() {
            tokio::time::sleep(STEP).await;
        }
        Ok(version().to_owned())
    };
    ActivityRegistry::builder().register("Step", step).build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    match env::var("AWS_LAMBDA_FUNCTION_NAME").as_deref() {
        Ok("orchestrator") => duroxide_lambda::orchestrator(orchestrations()).await,
        Ok("worker") => duroxide_lambda::worker(activities()).await,
        _ => duroxide_lambda::maintenance().await,
    }
}
