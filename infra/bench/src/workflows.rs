//! The workflows that both sides run, with their expected outputs.
//!
//! The activities count their runs ([`Progress`]), so that the benchmark can wait for the end of a workload without reading
//! from the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use tokio::sync::Notify;

/// Five activities, one after the other.
pub const HELLO_CITIES: &str = "HelloCities";
/// As many activities at once as the input says.
pub const FAN_OUT: &str = "FanOut";
/// One child, which runs one activity.
pub const PARENT: &str = "Parent";
const CHILD: &str = "Child";
const GREET: &str = "Greet";

/// The cities of [`HELLO_CITIES`].
pub const CITIES: [&str; 5] = ["Tokyo", "Seattle", "London", "Nairobi", "Lima"];

/// How many activities have run, repeated ones included.
#[derive(Debug, Default)]
pub struct Progress {
    run: AtomicU64,
    changed: Notify,
}

impl Progress {
    /// How many activities have run so far.
    pub fn run(&self) -> u64 {
        self.run.load(Ordering::Relaxed)
    }

    fn step(&self) {
        self.run.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Waits until this many have run. It returns early if an activity ran twice; the outputs are checked afterwards.
    pub async fn reached(&self, count: u64) {
        while self.run() < count {
            // The timeout covers a notification between the check and the wait.
            if tokio::time::timeout(Duration::from_millis(100), self.changed.notified())
                .await
                .is_err()
            {
                continue;
            }
        }
    }
}

/// The activities, reporting to `progress`.
pub fn activities(progress: &Arc<Progress>) -> ActivityRegistry {
    let progress = Arc::clone(progress);
    ActivityRegistry::builder()
        .register(GREET, move |_context: ActivityContext, name: String| {
            let progress = Arc::clone(&progress);
            async move {
                progress.step();
                Ok(greeting(&name))
            }
        })
        .build()
}

/// The orchestrations.
pub fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            HELLO_CITIES,
            |context: OrchestrationContext, _input: String| async move {
                let mut greetings = Vec::new();
                for city in CITIES {
                    greetings.push(context.schedule_activity(GREET, city).await?);
                }
                Ok(greetings.join(","))
            },
        )
        .register(FAN_OUT, |context: OrchestrationContext, input: String| async move {
            let width: usize = input
                .parse()
                .map_err(|error| format!("the width is no number: {error}"))?;
            let all = (0..width)
                .map(|index| context.schedule_activity(GREET, index.to_string()))
                .collect();
            let greetings: Result<Vec<String>, String> = context.join(all).await.into_iter().collect();
            Ok(greetings?.join(","))
        })
        .register(PARENT, |context: OrchestrationContext, input: String| async move {
            context.schedule_sub_orchestration(CHILD, input).await
        })
        .register(CHILD, |context: OrchestrationContext, input: String| async move {
            context.schedule_activity(GREET, input).await
        })
        .build()
}

fn greeting(name: &str) -> String {
    format!("Hello, {name}!")
}

/// What [`HELLO_CITIES`] answers.
pub fn hello_cities_answer() -> String {
    CITIES.map(greeting).join(",")
}

/// What [`FAN_OUT`] answers.
pub fn fan_out_answer(width: usize) -> String {
    (0..width)
        .map(|index| greeting(&index.to_string()))
        .collect::<Vec<_>>()
        .join(",")
}

/// What [`PARENT`] answers.
pub fn parent_answer(input: &str) -> String {
    greeting(input)
}
