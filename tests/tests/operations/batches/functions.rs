//! The functions take the steps of a batch: wakeups, delays, metrics; an idle maintenance run does not know of batches.

use super::support::*;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_cosmos::{BatchCounts, BatchState, InstanceFilter, InstanceStatus, StartRequest, Started, Tags};
use duroxide_lambda::{Target, Wakeup};
use std::time::Duration;
use tests::cloud::Cloud;

async fn cloud() -> Cloud {
    let wait = |ctx: OrchestrationContext, _: String| async move {
        let data = ctx.schedule_wait("go").await;
        Ok(data)
    };
    let orchestrations = OrchestrationRegistry::builder().register("Wait", wait).build();
    Cloud::start(orchestrations, ActivityRegistry::builder().build()).await
}

async fn started(cloud: &Cloud, count: usize) {
    for n in 0..count {
        let (instance, tags) = (format!("i-{n}"), Tags::default());
        let started = cloud.notifying.start(StartRequest {
            instance: &instance,
            orchestration: "Wait",
            version: None,
            input: "",
            tags: &tags,
            key: None,
        });
        assert_eq!(started.await.expect("the store answers"), Started::Accepted);
    }
    cloud.drain().await;
    tokio::time::sleep(Duration::from_millis(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_orchestrator_takes_the_steps_of_a_batch_and_its_instances_go_on() {
    let cloud = cloud().await;
    started(&cloud, 12).await;
    let mut request = request(raise(), InstanceFilter::default());
    request.rate = 50;
    cloud.notifying.start_batch("b", &request).await.expect("it is begun");
    cloud.drain().await;
    let done = cloud
        .silent
        .batch("b")
        .await
        .expect("the store answers")
        .expect("it is there");
    assert_eq!(done.state, BatchState::Completed, "{done:?}");
    let expected = BatchCounts {
        examined: 12,
        changed: 12,
        ..BatchCounts::default()
    };
    assert_eq!(done.counts, expected);
    for n in 0..12 {
        let summary = cloud.silent.instance_summary(&format!("i-{n}")).await;
        let summary = summary.expect("the store answers").expect("it is there");
        assert_eq!(
            (&summary.status, summary.output.as_deref()),
            (&InstanceStatus::Completed, Some("1"))
        );
    }
    let counted = cloud.orchestrator.counted();
    assert_eq!(counted["BatchInstances"], 12, "{counted:?}");
    assert!(counted["BatchSteps"] >= 2, "{counted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_step_is_sent_with_the_delay_that_keeps_the_rate() {
    let cloud = cloud().await;
    started(&cloud, 3).await;
    let mut request = request(pause(), InstanceFilter::default());
    request.rate = 1;
    cloud.notifying.start_batch("b", &request).await.expect("it is begun");
    let take = || -> Vec<duroxide_lambda::Delayed> { cloud.queue.take() };
    let first = take();
    assert_eq!(first[0].wakeup.target, Target::Batch { id: "b".to_owned() });
    assert!(
        cloud
            .orchestrator
            .invoke(&[first[0].wakeup.clone()])
            .await
            .batch_item_failures
            .is_empty()
    );
    let second = take();
    assert_eq!(second.len(), 1, "it has only planned: {second:?}");
    let now = cosmos::Clock::now_ms(&cosmos::SystemClock);
    cloud.orchestrator.invoke(&[second[0].wakeup.clone()]).await;
    let third = take();
    let own: Vec<&Wakeup> = third
        .iter()
        .map(|delayed| &delayed.wakeup)
        .filter(|wakeup| matches!(wakeup.target, Target::Batch { .. }))
        .collect();
    assert_eq!(own.len(), 1);
    let due = own[0].due_ms.expect("a time");
    assert!(due > now, "one instance in a second: {due} after {now}");
    // A worker gets such a wakeup by mistake only.
    let misrouted = cloud.worker.invoke(&[first[0].wakeup.clone()]).await;
    assert_eq!(misrouted.batch_item_failures.len(), 1);
}
