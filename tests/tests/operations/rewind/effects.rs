//! What runs again, and what does not: each effect happens once.

use super::support::*;
use duroxide::EventKind;
use duroxide_cosmos::{InstanceStatus, RewindOutcome, RewindRequest, StepKind};
use duroxide_lambda::Limits;
use duroxide_lambda::config::OnDefect;
use tests::cloud::{Cloud, CloudOptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_activity_runs_again_and_no_other() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Steps", "pay,ship,thank").await;
    assert_failed(&summary(&cloud, "order").await);
    let before = cloud
        .client
        .read_execution_history("order", 1)
        .await
        .expect("a history");
    shop.repair("ship");

    let dry = RewindRequest {
        instance: "order",
        dry_run: true,
        ..RewindRequest::default()
    };
    let planned = cloud.silent.rewind(&dry).await.expect("the store answers");
    assert_eq!(planned.outcome, RewindOutcome::Planned);
    let plan = planned.plan.expect("a plan");
    let shown: Vec<_> = plan
        .activities
        .iter()
        .map(|step| (step.kind, step.name.as_str(), step.failures))
        .collect();
    assert_eq!(shown, [(StepKind::Activity, "Act", 1)]);
    assert!(plan.delivered.is_empty() && plan.reused.is_empty(), "{plan:?}");
    assert_failed(&summary(&cloud, "order").await);

    let result = rewound(&cloud, "order").await;
    assert_eq!(result.plan, Some(plan));
    assert_eq!(output(&cloud, "order").await, "pay,ship,thank");
    shop.assert_once(&["pay", "ship", "thank"]);

    // What was undone is kept and shown.
    let rewinds = summary(&cloud, "order").await.rewinds;
    assert_eq!(
        (rewinds.len(), rewinds[0].number, rewinds[0].reason.as_deref()),
        (1, 1, Some("repaired"))
    );
    assert!(
        rewinds[0]
            .error
            .as_deref()
            .is_some_and(|error| error.contains("ship is broken"))
    );
    let undone = cloud
        .silent
        .undone_history("order", 1)
        .await
        .expect("the store answers")
        .expect("a rewind");
    assert_eq!(
        undone.events[..],
        before[rewinds[0].before as usize - 1..],
        "event for event"
    );
    let last = undone.events.last().map(|event| &event.kind);
    assert!(matches!(last, Some(EventKind::OrchestrationFailed { .. })), "{last:?}");
    assert!(
        cloud
            .silent
            .undone_history("order", 2)
            .await
            .expect("the store answers")
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_retry_policy_applies_again() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Retry", "").await;
    assert_failed(&summary(&cloud, "order").await);
    assert_eq!(shop.tried("ship"), 3);
    let result = rewound(&cloud, "order").await;
    let plan = result.plan.expect("a plan");
    assert_eq!(
        plan.activities.iter().map(|step| step.failures).collect::<Vec<_>>(),
        [3],
        "{plan:?}"
    );
    assert_failed(&summary(&cloud, "order").await);
    assert_eq!(shop.tried("ship"), 6, "all attempts again");
    shop.repair("ship");
    rewound(&cloud, "order").await;
    assert_eq!(output(&cloud, "order").await, "pay,ship");
    shop.assert_once(&["pay", "ship"]);
    assert_eq!(summary(&cloud, "order").await.rewinds.len(), 2);
    let undone = cloud
        .silent
        .undone_history("order", 1)
        .await
        .expect("the store answers")
        .expect("a rewind");
    let failures = undone
        .events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::ActivityFailed { .. }));
    assert_eq!(failures.count(), 3, "the first rewind's undone events are still there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_parallel_branches_are_kept() {
    let shop = Shop::default();
    shop.break_down("b");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Fan", "a,b,c,d").await;
    assert_failed(&summary(&cloud, "order").await);
    shop.repair("b");
    let plan = rewound(&cloud, "order").await.plan.expect("a plan");
    assert_eq!((plan.activities.len(), plan.delivered.len()), (1, 3), "{plan:?}");
    assert_eq!(output(&cloud, "order").await, "4");
    shop.assert_once(&["a", "b", "c", "d"]);
}

/// More than one batch: the commit is staged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_failed_activities_run_again_once_each() {
    many(105).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 600 activities"]
async fn three_hundred_failed_activities_run_again_once_each() {
    many(300).await;
}

async fn many(count: usize) {
    let shop = Shop::default();
    let steps: Vec<String> = (0..count).map(|n| format!("s{n}")).collect();
    steps.iter().for_each(|step| shop.break_down(step));
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Fan", &steps.join(",")).await;
    assert_failed(&summary(&cloud, "order").await);
    steps.iter().for_each(|step| shop.repair(step));
    let plan = rewound(&cloud, "order").await.plan.expect("a plan");
    assert_eq!(plan.activities.len(), count);
    assert_eq!(output(&cloud, "order").await, count.to_string());
    let once: Vec<&str> = steps.iter().map(String::as_str).collect();
    shop.assert_once(&once);
    assert!(cloud.world.documents_of("staged").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_saga_did_after_its_failure_is_not_done_again() {
    let shop = Shop::default();
    shop.break_down("refund");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Saga", "recall,refund,release").await;
    let failed = summary(&cloud, "order").await;
    assert_failed(&failed);
    shop.assert_once(&["recall", "release"]);
    shop.repair("refund");
    let plan = rewound(&cloud, "order").await.plan.expect("a plan");
    assert_eq!((plan.activities.len(), plan.reused.len()), (1, 1), "{plan:?}");
    assert_eq!(output(&cloud, "order").await, "undone");
    shop.assert_once(&["recall", "refund", "release"]);
    assert_eq!(shop.tried("release"), 1, "its result was used");
    assert!(cloud.world.documents_of("kept-result").await.is_empty());
    let doc = cloud.world.document("order", "instance").await.expect("the instance");
    assert_eq!(doc["v"], 1, "nothing guards it any more: {doc}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_result_outlasts_another_failure() {
    let shop = Shop::default();
    shop.break_down("refund");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Saga", "recall,refund,release").await;
    // To before the refund, in which the code fails again before it comes to the release.
    let stop = RewindRequest {
        instance: "order",
        ..RewindRequest::default()
    };
    for _ in 0..2 {
        let result = cloud.notifying.rewind(&stop).await.expect("the store answers");
        assert_eq!(result.outcome, RewindOutcome::Rewound);
        cloud.drain().await;
        assert_failed(&summary(&cloud, "order").await);
        assert_eq!(shop.tried("release"), 1);
    }
    assert_eq!(rewind(&cloud, "order").await.outcome, RewindOutcome::Rewound);
    cloud
        .client
        .cancel_instance("order", "not now")
        .await
        .expect("accepted");
    cloud.drain().await;
    assert_eq!(summary(&cloud, "order").await.status, InstanceStatus::Cancelled);
    assert_eq!(cloud.world.documents_of("kept-result").await.len(), 1);
    shop.repair("refund");
    rewound(&cloud, "order").await;
    assert_eq!(output(&cloud, "order").await, "undone");
    shop.assert_once(&["recall", "refund", "release"]);
    assert_eq!(shop.tried("release"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_may_go_further_back_and_run_everything_again() {
    for discard in [false, true] {
        let shop = Shop::default();
        shop.break_down("ship");
        let cloud = shop.cloud().await;
        run(&cloud, "order", "Steps", "pay,pack,ship").await;
        shop.repair("ship");
        let request = RewindRequest {
            instance: "order",
            before: Some(2),
            discard_results: discard,
            ..RewindRequest::default()
        };
        let result = cloud.notifying.rewind(&request).await.expect("the store answers");
        assert_eq!(result.outcome, RewindOutcome::Rewound);
        cloud.drain().await;
        assert_eq!(output(&cloud, "order").await, "pay,pack,ship");
        let times = if discard { 2 } else { 1 };
        assert_eq!(
            (shop.tried("pay"), shop.tried("pack"), shop.tried("ship")),
            (times, times, 2)
        );
        let history = cloud
            .client
            .read_execution_history("order", 1)
            .await
            .expect("a history");
        let ids: Vec<u64> = history.iter().map(|event| event.event_id()).collect();
        assert!(ids.iter().copied().eq(1..=ids.len() as u64), "{ids:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_tags_and_status_are_as_they_were() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Keys", "").await;
    let failed = summary(&cloud, "order").await;
    assert_eq!(
        (failed.custom_status.as_deref(), failed.tags["stage"].as_str()),
        (Some("failed"), "failed")
    );
    shop.repair("ship");
    assert_eq!(rewind(&cloud, "order").await.outcome, RewindOutcome::Rewound);
    let now = summary(&cloud, "order").await;
    assert_eq!(now.status, InstanceStatus::Running);
    assert_eq!(
        (now.custom_status.as_deref(), now.tags["stage"].as_str()),
        (Some("shipping"), "shipping")
    );
    assert!(
        now.custom_status_version > failed.custom_status_version,
        "those who wait for it see it"
    );
    assert_eq!(
        cloud
            .client
            .get_kv_value("order", "key")
            .await
            .expect("keys")
            .as_deref(),
        Some("kept")
    );
    assert_eq!(cloud.client.get_kv_value("order", "new").await.expect("keys"), None);
    cloud.drain().await;
    assert_eq!(output(&cloud, "order").await, "kept None");
    shop.assert_once(&["pay", "ship"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_execution_is_rewound_in_place() {
    let shop = Shop::default();
    shop.break_down("step-1");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Again", "0").await;
    assert_eq!(summary(&cloud, "order").await.execution, 2);
    shop.repair("step-1");
    rewound(&cloud, "order").await;
    assert_eq!(output(&cloud, "order").await, "Some(\"0\")");
    assert_eq!(summary(&cloud, "order").await.execution, 2);
    shop.assert_once(&["step-0", "step-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_failed_in_its_first_turn_runs_from_its_start() {
    let shop = Shop::default();
    let cloud = shop.cloud().await;
    run(&cloud, "order", "First", "").await;
    let failed = summary(&cloud, "order").await;
    assert_failed(&failed);
    let result = rewound(&cloud, "order").await;
    assert_eq!(result.plan.map(|plan| plan.kept), Some(1));
    let again = summary(&cloud, "order").await;
    assert_failed(&again);
    assert_eq!(
        (again.events, again.rewinds.len()),
        (failed.events, 1),
        "the same code fails the same way"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_messages_and_timers_are_delivered_again_in_their_order() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Wait", "").await;
    for (name, data) in [("go", "1"), ("go", "unwanted")] {
        cloud.client.raise_event("order", name, data).await.expect("accepted");
        cloud.drain().await;
    }
    cloud
        .client
        .enqueue_event("order", "more", "2")
        .await
        .expect("accepted");
    cloud.drain().await;
    assert_failed(&summary(&cloud, "order").await);
    shop.repair("ship");
    let request = RewindRequest {
        instance: "order",
        before: Some(2),
        ..RewindRequest::default()
    };
    let result = cloud.notifying.rewind(&request).await.expect("the store answers");
    assert_eq!(result.outcome, RewindOutcome::Rewound);
    cloud.drain().await;
    assert_eq!(summary(&cloud, "order").await.status, InstanceStatus::Running);
    cloud.client.raise_event("order", "go", "3").await.expect("accepted");
    cloud.drain().await;
    assert_eq!(output(&cloud, "order").await, "1,2,3");
    shop.assert_once(&["ship"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_instance_goes_on() {
    let shop = Shop::default();
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Wait", "").await;
    cloud
        .client
        .cancel_instance("order", "by mistake")
        .await
        .expect("accepted");
    cloud.drain().await;
    assert_eq!(summary(&cloud, "order").await.status, InstanceStatus::Cancelled);
    rewound(&cloud, "order").await;
    let now = summary(&cloud, "order").await;
    assert_eq!(now.status, InstanceStatus::Running, "the cancellation is undone");
    assert!(now.rewinds[0].cancelled);
    for data in ["1", "3"] {
        cloud.client.raise_event("order", "go", data).await.expect("accepted");
        cloud.drain().await;
        cloud
            .client
            .enqueue_event("order", "more", "2")
            .await
            .expect("accepted");
        cloud.drain().await;
    }
    assert_eq!(output(&cloud, "order").await, "1,2,3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_failed_by_nondeterminism_goes_on_with_a_fixed_build() {
    let shop = Shop::default();
    let limits = |build: &str| Limits {
        build: Some(build.to_owned()),
        on_nondeterminism: OnDefect::Fail,
        ..Limits::default()
    };
    let options = CloudOptions {
        limits: limits("one"),
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, orchestrations(), shop.activities()).await;
    run(&cloud, "order", "Wait", "").await;
    let careless =
        |ctx: duroxide::OrchestrationContext, _: String| async move { ctx.schedule_activity("Act", "careless").await };
    let careless = duroxide::OrchestrationRegistry::builder()
        .register("Wait", careless)
        .build();
    let careless = cloud.another_build(limits("two"), careless).await;
    cloud.client.raise_event("order", "go", "1").await.expect("accepted");
    for sent in cloud.queue.take() {
        careless.invoke(&[sent.wakeup]).await;
    }
    cloud.queue.take();
    let failed = summary(&cloud, "order").await;
    assert_failed(&failed);
    assert!(
        failed
            .error
            .as_deref()
            .is_some_and(|error| error.contains("nondeterministic")),
        "{failed:?}"
    );
    let plan = rewound(&cloud, "order").await.plan.expect("a plan");
    assert_eq!(
        plan.delivered.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(),
        ["go"]
    );
    cloud
        .client
        .enqueue_event("order", "more", "2")
        .await
        .expect("accepted");
    cloud.drain().await;
    cloud.client.raise_event("order", "go", "3").await.expect("accepted");
    cloud.drain().await;
    assert_eq!(output(&cloud, "order").await, "1,2,3");
    shop.assert_once(&["ship"]);
}
