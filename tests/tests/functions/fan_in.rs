//! Fan-in: the completions of one invocation are one wakeup for the turn that they make due.

use crate::support::*;
use duroxide::providers::{Provider as _, TagFilter, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::{Probe, Wakeup};
use std::sync::Arc;
use std::time::Duration;
use tests::cloud::Cloud;
use tokio::sync::Barrier;

/// An orchestration of ten activities at once, which all end at the same moment.
async fn cloud() -> Cloud {
    let fan = |ctx: OrchestrationContext, _: String| async move {
        let all = (0..10).map(|n| ctx.schedule_activity("Work", n.to_string())).collect();
        Ok(ctx.join(all).await.len().to_string())
    };
    let meeting = Arc::new(Barrier::new(10));
    let work = move |_: ActivityContext, _: String| {
        let meeting = Arc::clone(&meeting);
        async move {
            meeting.wait().await;
            Ok("done".to_owned())
        }
    };
    Cloud::start(
        OrchestrationRegistry::builder().register("Fan", fan).build(),
        ActivityRegistry::builder().register("Work", work).build(),
    )
    .await
}

/// The wakeups of the ten activities.
async fn works(cloud: &Cloud) -> Vec<Wakeup> {
    let started = start(cloud, "i", "Fan", "").await;
    serve(&cloud.orchestrator, &[started]).await;
    let works = plain(cloud.queue.take());
    assert_eq!(works.len(), 10);
    works
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_completions_in_one_invocation_are_few_wakeups_and_the_last_sees_all_of_them() {
    let cloud = cloud().await;
    let works = works(&cloud).await;
    serve(&cloud.worker, &works).await;
    let wakeups = plain(cloud.queue.take());
    // A machine that stalls between two completions has two wakeups; ten would be no coalescing.
    assert!((1..=3).contains(&wakeups.len()), "{wakeups:?}");
    for wakeup in &wakeups {
        assert_eq!((wakeup.target.instance(), wakeup.execution), ("i", Some(1)));
        assert!(wakeup.consistency_token.is_some(), "{wakeup:?}");
    }
    serve(&cloud.orchestrator, &wakeups[wakeups.len() - 1..]).await;
    assert_eq!(output(&cloud, "i").await, "10");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completions_whose_wakeup_is_refused_are_served_and_counted_as_before() {
    let cloud = cloud().await;
    let works = works(&cloud).await;
    cloud.queue.fail_all(true);
    serve(&cloud.worker, &works).await;
    assert!((1..=3).contains(&cloud.queue.failed()), "{}", cloud.queue.failed());
    assert_eq!(metrics(&cloud.worker)["WakeupsFailed"], cloud.queue.failed());
    // Nothing is lost but the wakeup.
    cloud.queue.fail_all(false);
    serve(&cloud.orchestrator, &[Wakeup::turn("i")]).await;
    assert_eq!(output(&cloud, "i").await, "10");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_is_noted_by_the_function_that_receives_it_and_costs_one_request() {
    let cloud = cloud().await;
    let mut probing = start(&cloud, "i", "Fan", "").await;
    probing.probe = Some(Probe {
        queue: "turn".to_owned(),
        sent_ms: 77,
    });
    let before = cloud.orchestrator.listener.log().len();
    // The same probe twice: SQS delivers some messages twice.
    serve(&cloud.orchestrator, &[probing.clone(), probing.clone()]).await;
    assert_eq!(
        cloud.orchestrator.listener.log().len() - before,
        3,
        "a turn and the note"
    );
    serve(&cloud.orchestrator, &[probing]).await;
    let passed = cloud.silent.passed_probes(0).await.expect("the store is there");
    assert_eq!(passed.len(), 1, "{passed:?}");
    assert_eq!((passed[0].queue.as_str(), passed[0].sent_ms), ("turn", 77));
    assert!(
        cloud
            .silent
            .passed_probes(77)
            .await
            .expect("the store is there")
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_that_cannot_be_noted_fails_nothing() {
    let cloud = cloud().await;
    let mut probing = start(&cloud, "i", "Fan", "").await;
    probing.probe = Some(Probe {
        queue: "turn".to_owned(),
        sent_ms: 77,
    });
    let header = cosmos::PartitionKey::new("maintenance").expect("a key").header();
    cloud.orchestrator.listener.refuse_when(move |request| {
        let is_note = request.partition_key.as_ref() == Some(&header);
        is_note.then(|| cosmos_emulator::Refusing::with(403))
    });
    serve(&cloud.orchestrator, &[probing]).await;
    assert_eq!(plain(cloud.queue.take()).len(), 10, "the turn was committed");
    assert!(
        cloud
            .silent
            .passed_probes(0)
            .await
            .expect("the store is there")
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_for_an_item_that_was_held_back_does_not_come_again_when_the_item_is_busy() {
    let cloud = cloud().await;
    let works = works(&cloud).await;
    let claimed = cloud
        .silent
        .fetch_work_item(Duration::from_secs(600), Duration::ZERO, None, &TagFilter::Any)
        .await;
    let (WorkItem::ActivityExecute { id, .. }, ..) = claimed.expect("the store is there").expect("one is claimed")
    else {
        panic!("an activity is claimed")
    };
    let mut probing = works
        .iter()
        .find(|wakeup| work_of(wakeup).activity == id)
        .expect("its wakeup")
        .clone();
    probing.probe = Some(Probe {
        queue: "work".to_owned(),
        sent_ms: 77,
    });
    for (overdue, again) in [(false, 0), (true, 1)] {
        probing.overdue = overdue;
        serve(&cloud.worker, std::slice::from_ref(&probing)).await;
        let wakeups = plain(cloud.queue.take());
        assert_eq!(wakeups.len(), again, "{wakeups:?}");
        assert!(wakeups.iter().all(|wakeup| wakeup.probe.is_none()), "{wakeups:?}");
    }
}
