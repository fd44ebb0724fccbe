//! The canary: a small workflow that every deployment can run, without anything of the user's.
//!
//! `duroxide-lambda doctor` starts it some times and reads from its history, attempts and usage how long steps take and what
//! they cost. Each function registers it beside the user's names; it costs nothing until somebody starts it.
//!
//! ```text
//!   start ─> step ─> step ─> step ─> timer ─> event ─> end
//! ```
//!
//! Its names begin with `duroxide:`, which is reserved. A user's workflow of the same name comes first. It is not in the lists of
//! registered names that people see (a blocked instance's reason, the replay gate).
//!
//! If nobody sends the event, because the command that started it was killed, it ends by itself after an hour.
//!
//! An activity answers what only its own process knows ([`StepReport`]). A turn cannot: its code must be deterministic.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Either2, OrchestrationContext, OrchestrationRegistry};
use serde::{Deserialize, Serialize};
use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The registered name of the orchestration.
pub const ORCHESTRATION: &str = "duroxide:canary";
/// The registered name of its activity.
pub const ACTIVITY: &str = "duroxide:canary-step";
/// The event that it waits for at its end.
pub const EVENT: &str = "go";
/// Its custom status while it waits for the event.
pub const WAITING: &str = "waiting for the event";
/// How many activities it runs, one after the other.
pub const STEPS: u64 = 3;
/// The turns of one run: the start, each activity's result, the timer, the event.
pub const TURNS: u64 = STEPS + 3;
/// Its timer.
pub const TIMER: Duration = Duration::from_millis(500);
/// How long it waits for the event. So far ahead that no wakeup is sent for it: the timer is a document of commits that are made
/// anyway, and costs no request.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// The requests to Cosmos DB of one run: a start and an event of one request each, turns and activities of two.
pub const REQUESTS: u64 = 2 + 2 * TURNS + 2 * STEPS;

/// The beginning of reserved names.
const RESERVED: &str = "duroxide:";

/// What an activity of the canary answers about its process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StepReport {
    /// The execution environment.
    pub environment: String,
    /// Which invocation of that environment this is, from 1: the first is a cold start.
    pub invocation: u64,
    /// The time since that environment began, in ms.
    pub environment_ms: u64,
    /// The function's timeout, in ms.
    pub timeout_ms: u64,
    /// Its memory in MB, if it runs on Lambda.
    pub memory_mb: Option<u64>,
}

/// What an environment has served.
#[derive(Debug)]
pub(crate) struct Served {
    environment: String,
    began: Instant,
    invocations: AtomicU64,
    timeout_ms: AtomicU64,
}

impl Served {
    pub(crate) fn new(environment: &str) -> Served {
        Served {
            environment: environment.to_owned(),
            began: Instant::now(),
            invocations: AtomicU64::new(0),
            timeout_ms: AtomicU64::new(0),
        }
    }

    /// An invocation begins.
    pub(crate) fn begin(&self, timeout: Duration) {
        self.invocations.fetch_add(1, Ordering::Relaxed);
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.timeout_ms.store(timeout_ms, Ordering::Relaxed);
    }

    fn report(&self) -> StepReport {
        let since = self.began.elapsed().as_millis();
        StepReport {
            environment: self.environment.clone(),
            invocation: self.invocations.load(Ordering::Relaxed),
            environment_ms: u64::try_from(since).unwrap_or(u64::MAX),
            timeout_ms: self.timeout_ms.load(Ordering::Relaxed),
            memory_mb: memory_mb(),
        }
    }
}

/// The memory of this function, as Lambda says.
pub(crate) fn memory_mb() -> Option<u64> {
    env::var("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").ok()?.parse().ok()
}

/// Whether a name is one of ours.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED)
}

/// These orchestrations and the canary.
pub(crate) fn with_orchestration(orchestrations: &OrchestrationRegistry) -> OrchestrationRegistry {
    if orchestrations.has(ORCHESTRATION) {
        return orchestrations.clone();
    }
    OrchestrationRegistry::builder_from(orchestrations)
        .register(ORCHESTRATION, orchestration)
        .build()
}

/// These activities and that of the canary.
pub(crate) fn with_activity(activities: &ActivityRegistry, served: Arc<Served>) -> ActivityRegistry {
    if activities.has(ACTIVITY) {
        return activities.clone();
    }
    let step = move |_: ActivityContext, _: String| {
        let report = serde_json::to_string(&served.report());
        async move { report.map_err(|error| error.to_string()) }
    };
    ActivityRegistry::builder_from(activities)
        .register(ACTIVITY, step)
        .build()
}

async fn orchestration(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    for number in 1..=STEPS {
        ctx.schedule_activity(ACTIVITY, number.to_string()).await?;
    }
    ctx.schedule_timer(TIMER).await;
    ctx.set_custom_status(WAITING);
    match ctx
        .select2(ctx.schedule_wait(EVENT), ctx.schedule_timer(PATIENCE))
        .await
    {
        Either2::First(_) => Ok("done".to_owned()),
        // No failure: whoever killed the command does not want an alarm.
        Either2::Second(()) => Ok("gave up: the event did not come".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_added_beside_the_users_names_and_never_replaces_one() {
        let own = |_: OrchestrationContext, input: String| async move { Ok::<_, String>(input) };
        let users = OrchestrationRegistry::builder().register("order", own).build();
        let all = with_orchestration(&users);
        assert!(all.has("order") && all.has(ORCHESTRATION));
        assert_eq!(users.count() + 1, all.count());
        let taken = OrchestrationRegistry::builder().register(ORCHESTRATION, own).build();
        assert_eq!(with_orchestration(&taken).count(), 1);
    }

    #[cfg(feature = "testing")]
    #[test]
    fn it_ends_with_its_event_and_without_one_after_an_hour() {
        let simulation = || {
            let orchestrations = with_orchestration(&OrchestrationRegistry::builder().build());
            let served = Arc::new(Served::new("e"));
            let activities = with_activity(&ActivityRegistry::builder().build(), served);
            crate::testing::Simulation::of(orchestrations, activities)
        };
        let ended = simulation().raise_when_waiting(EVENT, "").run(ORCHESTRATION, "");
        assert_eq!(ended.expect_completed(), "done");
        assert!(ended.elapsed() < PATIENCE, "{:?}", ended.elapsed());
        let alone = simulation().run(ORCHESTRATION, "");
        assert_eq!(alone.expect_completed(), "gave up: the event did not come");
        assert!(alone.elapsed() >= PATIENCE, "{:?}", alone.elapsed());
    }

    #[test]
    fn the_first_invocation_of_an_environment_is_its_cold_start() {
        let served = Served::new("e");
        served.begin(Duration::from_secs(30));
        assert_eq!((served.report().invocation, served.report().timeout_ms), (1, 30_000));
        served.begin(Duration::from_secs(30));
        assert_eq!(served.report().invocation, 2);
    }
}
