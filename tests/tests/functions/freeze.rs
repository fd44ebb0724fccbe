//! Between invocations nothing happens: no request leaves the process, however long Lambda keeps it frozen. Connections that died
//! meanwhile are replaced.

use crate::support::*;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::Target;
use std::time::Duration;
use tests::cloud::Cloud;
use tests::workload;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starting_an_environment_sends_no_request() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let first = start(&cloud, "order", "HelloCities", "1").await;
    // A turn later everything that the start could have sent has been sent.
    serve(&cloud.orchestrator, &[first]).await;
    assert_eq!(cloud.orchestrator.listener.counts().requests, 2, "the turn's own");
    assert_eq!(cloud.worker.listener.counts().requests, 0);
}

/// The runtime's own time is moved: its pollers, its session manager and its gauges wake as after a real day.
#[tokio::test]
async fn a_frozen_environment_sends_no_request() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Bound", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity_on_session("Work", "", "a session").await
        })
        .build();
    let activities = ActivityRegistry::builder()
        .register(
            "Work",
            |_: ActivityContext, _: String| async move { Ok("done".to_owned()) },
        )
        .build();
    let cloud = Cloud::start(orchestrations, activities).await;
    let first = start(&cloud, "order", "Bound", "").await;
    serve(&cloud.orchestrator, std::slice::from_ref(&first)).await;
    let work = only(cloud.queue.take()).wakeup;
    serve(&cloud.worker, std::slice::from_ref(&work)).await;
    cloud.orchestrator.listener.reset();
    cloud.worker.listener.reset();

    tokio::time::pause();
    for step in [
        Duration::from_secs(1),
        Duration::from_secs(60),
        Duration::from_secs(3_600),
    ] {
        for _ in 0..60 {
            tokio::time::advance(step).await;
            tokio::task::yield_now().await;
        }
    }
    tokio::time::resume();

    // Whatever the freeze sent was sent before these, which find nothing.
    serve(&cloud.orchestrator, &[first]).await;
    serve(&cloud.worker, &[work]).await;
    let sent = (&cloud.orchestrator, &cloud.worker);
    assert_eq!(
        sent.0.listener.counts().requests,
        2,
        "the turn that was due: {:?}",
        sent.0.listener.log()
    );
    assert_eq!(
        sent.1.listener.counts().requests,
        3,
        "the session, which is claimed first, and a claim in vain: {:?}",
        sent.1.listener.log()
    );
    assert_eq!(output(&cloud, "order").await, "done");
}

/// The connections are closed when an invocation begins, so that the function finds out while it uses them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_died_in_a_freeze_fail_no_step() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    cloud
        .client
        .start_orchestration("order", "HelloCities", "1")
        .await
        .expect("it starts");
    let mut steps = 0;
    loop {
        let wakeups = cloud.queue.take();
        if wakeups.is_empty() {
            break;
        }
        for wakeup in plain(wakeups) {
            let function = match wakeup.target {
                Target::Turn { .. } | Target::Batch { .. } => &cloud.orchestrator,
                Target::Work(_) => &cloud.worker,
            };
            function.listener.drop_connections();
            serve(function, &[wakeup]).await;
            steps += 1;
        }
    }
    assert!(steps >= 7, "{steps}");
    assert_eq!(output(&cloud, "order").await.matches("Hello ").count(), 3);
}
