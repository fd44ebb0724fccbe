//! Affinity sessions under duroxide's polling runtime: each worker slot owns sessions of its own, and a slot at the limit of its
//! runtime asks without sessions. Neither may delay an activity.
//!
//! No process sweeps after its first fetch here, so an activity whose candidate is spent by the wrong slot is never run.

use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tests::{World, connect};

const NEVER: Duration = Duration::from_secs(3_600);
/// Below the default lock of a session (30 s) times the number of activities.
const SOON: Duration = Duration::from_secs(100);

/// How many activities ran at once at most.
#[derive(Clone, Default)]
struct Peak(Arc<(AtomicUsize, AtomicUsize)>);

impl Peak {
    async fn run(self) -> Result<String, String> {
        let (running, peak) = &*self.0;
        peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
        running.fetch_sub(1, Ordering::SeqCst);
        Ok("done".to_owned())
    }

    fn highest(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

/// Runs the orchestration `name` to its end. Its output is the number of activities.
async fn run(name: &str, slots: usize, max_sessions: usize) -> (String, Peak) {
    let world = World::start().await;
    let provider = connect(world.builder().sweep_interval(NEVER)).await as Arc<dyn Provider>;
    let peak = Peak::default();
    let counted = peak.clone();
    let activities = ActivityRegistry::builder()
        .register("Act", move |_: ActivityContext, _: String| counted.clone().run())
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Sequence", |ctx: OrchestrationContext, _: String| async move {
            for n in 0..20 {
                ctx.schedule_activity_on_session("Act", n.to_string(), "session")
                    .await?;
            }
            Ok("20".to_owned())
        })
        .register("Sessions", |ctx: OrchestrationContext, _: String| async move {
            let all = (0..6).map(|n| ctx.schedule_activity_on_session("Act", "", format!("session-{n}")));
            let results = ctx.join(all.collect::<Vec<_>>()).await;
            results.into_iter().collect::<Result<Vec<String>, String>>()?;
            Ok("6".to_owned())
        })
        .build();
    let options = RuntimeOptions {
        worker_concurrency: slots,
        max_sessions_per_runtime: max_sessions,
        // A slot that waits without sessions until this ends hangs the test.
        dispatcher_long_poll_timeout: NEVER,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(Arc::clone(&provider), activities, orchestrations, options).await;
    let client = Client::new(provider);
    client.start_orchestration("order", name, "").await.expect("it starts");
    let status = client.wait_for_orchestration("order", SOON).await;
    let output = match status.expect("it ends soon") {
        OrchestrationStatus::Completed { output, .. } => output,
        other => panic!("{name} should complete: {other:?}"),
    };
    runtime.shutdown(None).await;
    (output, peak)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_does_not_own_a_session_does_not_spend_its_activities() {
    for slots in [2, 5] {
        assert_eq!(run("Sequence", slots, 10).await.0, "20");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_at_its_limit_of_sessions_serves_one_as_soon_as_another_ends() {
    let (output, peak) = run("Sessions", 2, 1).await;
    assert_eq!((output.as_str(), peak.highest()), ("6", 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_sessions_than_slots_and_limits_all_end() {
    let (output, peak) = run("Sessions", 4, 2).await;
    assert_eq!(output, "6");
    assert!(peak.highest() <= 2, "{}", peak.highest());
}
