//! A worker function that dies at any write of one activity: its wakeup comes again, and the activity completes once.

use super::kill::{AFTERWARDS, BOTH};
use cosmos_emulator::CrashPoint;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_lambda::{Target, Wakeup};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tests::cloud::{Cloud, CloudOptions};
use tests::{ShiftedClock, until_crash, workload};

/// One activity, in an affinity session if the input is one.
fn orchestrations() -> OrchestrationRegistry {
    let one = |ctx: OrchestrationContext, session: String| async move {
        match session.as_str() {
            "" => ctx.schedule_activity("Say", "hello").await,
            session => ctx.schedule_activity_on_session("Say", "hello", session).await,
        }
    };
    OrchestrationRegistry::builder().register("One", one).build()
}

fn activities(runs: &Arc<AtomicU64>) -> ActivityRegistry {
    let runs = Arc::clone(runs);
    let say = move |_: ActivityContext, input: String| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move { Ok(input) }
    };
    ActivityRegistry::builder().register("Say", say).build()
}

/// The wakeups that are queued, apart: of activities, of turns.
fn queued(cloud: &Cloud) -> (Vec<Wakeup>, Vec<Wakeup>) {
    let all = cloud.queue.take().into_iter().map(|delayed| delayed.wakeup);
    all.partition(|wakeup| matches!(wakeup.target, Target::Work(_)))
}

/// Runs the activity in a worker that dies at write `n`, then in another. Answers whether the first one died.
async fn run_with_crash_at(n: u64, when: CrashPoint, session: &str) -> bool {
    let context = format!("session '{session}', crash at write {n}, {when:?}");
    let (clock, runs) = (Arc::new(ShiftedClock::default()), Arc::new(AtomicU64::new(0)));
    let options = CloudOptions {
        clock: Arc::clone(&clock) as Arc<dyn cosmos::Clock>,
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, orchestrations(), activities(&runs)).await;
    let started = cloud.client.start_orchestration("order", "One", session).await;
    started.expect("it starts");
    let (_, turns) = queued(&cloud);
    cloud.orchestrator.invoke(&turns).await;
    let (mut works, _) = queued(&cloud);
    assert_eq!(works.len(), 1, "{context}");

    cloud.worker.listener.crash_at_write(n, when);
    let served = until_crash(&cloud.worker.listener, cloud.worker.invoke(&works)).await;
    let crashed = served.is_none();
    let mut turns = queued(&cloud).1;
    if crashed {
        // SQS delivers the record again, with the version from before the crash.
        clock.advance(AFTERWARDS);
        let other = cloud
            .another_worker("other", activities(&runs), Default::default())
            .await;
        for _ in 0..3 {
            other.invoke(&works).await;
            let (again, more) = queued(&cloud);
            turns.extend(more);
            works = again;
        }
        assert!(works.is_empty(), "{context}: {works:?}");
    }
    // A completion whose wakeup died with its process is found by maintenance.
    turns.push(Wakeup::turn("order"));
    cloud.orchestrator.invoke(&turns).await;

    match cloud.client.get_orchestration_status("order").await {
        Ok(OrchestrationStatus::Completed { output, .. }) => assert_eq!(output, "hello", "{context}"),
        other => panic!("{context}: {other:?}"),
    }
    let history = cloud.client.read_execution_history("order", 1).await;
    workload::assert_sound("order", &history.expect("a history"));
    assert_eq!(cloud.world.documents_of("work").await.len(), 0, "{context}");
    let runs = runs.load(Ordering::SeqCst);
    assert!((1..=2).contains(&runs), "{context}: {runs} runs");
    crashed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_whose_worker_dies_at_any_write_completes_once() {
    // The claim and the completion; with a session, also its claim and its use.
    for (session, writes) in [("", 2), ("cart", 4)] {
        for when in BOTH {
            for n in 1..=writes {
                assert!(run_with_crash_at(n, when, session).await, "write {n} was not reached");
            }
            assert!(
                !run_with_crash_at(writes + 1, when, session).await,
                "more than {writes} writes"
            );
        }
    }
}
