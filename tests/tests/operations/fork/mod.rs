//! Fork: a new instance from a point of another one's history. The source never changes.

use crate::rewind::support::*;
use cosmos::Clock;
use cosmos_emulator::CrashPoint;
use duroxide_cosmos::{ForkOutcome, ForkPlan, ForkRequest, InstanceStatus};
use duroxide_lambda::Wakeup;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tests::cloud::{Cloud, CloudOptions};
use tests::turns::REPAIRABLE;
use tests::{ShiftedClock, connect, recover, until_crash};

/// Every document of an instance.
async fn documents(cloud: &Cloud, instance: &str) -> Vec<Value> {
    let all = cloud.world.documents().await;
    all.into_iter().filter(|doc| doc["pk"] == instance).collect()
}

fn of<'a>(instance: &'a str, new_id: &'a str) -> ForkRequest<'a> {
    ForkRequest {
        instance,
        new_id,
        ..ForkRequest::default()
    }
}

/// Forks, which must succeed and leave the source as it is, and lets everything run.
async fn forked(cloud: &Cloud, request: &ForkRequest<'_>) -> ForkPlan {
    let before = documents(cloud, request.instance).await;
    let dry = ForkRequest {
        dry_run: true,
        ..request.clone()
    };
    let planned = cloud.silent.fork(&dry).await.expect("the store answers");
    assert_eq!(planned.outcome, ForkOutcome::Planned);
    assert!(
        documents(cloud, request.new_id).await.is_empty(),
        "a dry run writes nothing"
    );
    let result = cloud.notifying.fork(request).await.expect("the store answers");
    assert_eq!((&result.outcome, &result.plan), (&ForkOutcome::Forked, &planned.plan));
    assert_eq!(
        documents(cloud, request.instance).await,
        before,
        "the source is only read"
    );
    cloud.drain().await;
    let taken = cloud.silent.fork(request).await.expect("the store answers");
    assert_eq!(taken.outcome, ForkOutcome::Taken);
    result.plan.expect("a plan")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_a_failed_instance_goes_on_with_an_edited_result() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Steps", "pay,ship,thank").await;
    let history = cloud
        .client
        .read_execution_history("order", 1)
        .await
        .expect("a history");
    let failure = history
        .iter()
        .find(|event| matches!(event.kind, duroxide::EventKind::ActivityFailed { .. }));
    let failure = failure.expect("a failure").event_id();
    let plan = forked(&cloud, &of("order", "again")).await;
    assert_eq!(plan.activities.len(), 1, "it would try to ship: {plan:?}");
    assert_failed(&summary(&cloud, "again").await);
    assert_eq!(shop.tried("ship"), 2);
    let request = ForkRequest {
        results: vec![(failure, "by hand".to_owned())],
        ..of("order", "fixed")
    };
    let plan = forked(&cloud, &request).await;
    assert!(plan.activities.is_empty(), "{plan:?}");
    assert_eq!(output(&cloud, "fixed").await, "pay,by hand,thank");
    assert_eq!((shop.tried("pay"), shop.tried("ship"), shop.tried("thank")), (1, 2, 1));
    assert_failed(&summary(&cloud, "order").await);
    let made = summary(&cloud, "fixed").await;
    let from = made.forked_from.expect("it says where it comes from");
    assert_eq!((from.instance.as_str(), from.execution), ("order", 1));
    assert_eq!(made.parent, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_a_running_instance_is_independent_of_it() {
    let shop = Shop::default();
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Wait", "").await;
    cloud.client.raise_event("order", "go", "1").await.expect("accepted");
    cloud.drain().await;
    forked(&cloud, &of("order", "copy")).await;
    let edited = ForkRequest {
        results: vec![(3, "other".to_owned())],
        ..of("order", "edited")
    };
    forked(&cloud, &edited).await;
    for (instance, data) in [("order", "2"), ("copy", "4"), ("edited", "6")] {
        cloud
            .client
            .enqueue_event(instance, "more", data)
            .await
            .expect("accepted");
        cloud.drain().await;
        cloud.client.raise_event(instance, "go", "end").await.expect("accepted");
        cloud.drain().await;
    }
    assert_eq!(output(&cloud, "order").await, "1,2,end");
    assert_eq!(output(&cloud, "copy").await, "1,4,end");
    assert_eq!(output(&cloud, "edited").await, "other,6,end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_begins_at_any_event_with_another_input() {
    let shop = Shop::default();
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Steps", "a,b,c").await;
    let events = cloud
        .client
        .read_execution_history("order", 1)
        .await
        .expect("a history")
        .len() as u64;
    for at in 1..=events {
        let id = format!("fork-{at}");
        let request = ForkRequest {
            at: Some(at),
            ..of("order", &id)
        };
        forked(&cloud, &request).await;
        assert_eq!(output(&cloud, &id).await, "a,b,c", "from event {at}");
    }
    let request = ForkRequest {
        at: Some(1),
        input: Some("x,y"),
        ..of("order", "other")
    };
    forked(&cloud, &request).await;
    assert_eq!(output(&cloud, "other").await, "x,y");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_refused() {
    let shop = Shop::default();
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Again", "0").await;
    let outcome =
        async |request: ForkRequest<'_>| cloud.silent.fork(&request).await.expect("the store answers").outcome;
    assert_eq!(outcome(of("nobody", "x")).await, ForkOutcome::NotFound);
    let execution = |execution| ForkRequest {
        execution: Some(execution),
        ..of("order", "x")
    };
    assert_eq!(outcome(execution(9)).await, ForkOutcome::NotFound);
    assert!(
        matches!(outcome(execution(1)).await, ForkOutcome::Impossible(_)),
        "its keys are not kept"
    );
    let result = |event| ForkRequest {
        results: vec![(event, String::new())],
        ..of("order", "x")
    };
    assert!(matches!(outcome(result(1)).await, ForkOutcome::Invalid(_)));
    assert!(matches!(outcome(result(99)).await, ForkOutcome::Invalid(_)));
    let version = ForkRequest {
        version: Some("two"),
        ..of("order", "x")
    };
    assert!(matches!(outcome(version).await, ForkOutcome::Invalid(_)));
    forked(&cloud, &of("order", "x")).await;
    assert_eq!(
        output(&cloud, "x").await,
        "Some(\"0\")",
        "with the key that its execution found"
    );
    assert_eq!(summary(&cloud, "x").await.execution, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_child_is_started_under_an_id_of_the_fork() {
    let shop = Shop::default();
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Parent", "Wait:").await;
    let children = || async {
        let all = cloud.world.documents_of("instance").await;
        let child = |of: &str| {
            all.iter()
                .find(|doc| doc["parent"] == of)
                .map(|doc| doc["pk"].as_str().map(str::to_owned))
        };
        (child("order").flatten(), child("copy").flatten())
    };
    let plan = forked(&cloud, &of("order", "copy")).await;
    let (theirs, own) = children().await;
    let (theirs, own) = (theirs.expect("a child"), own.expect("a child"));
    assert_eq!(
        plan.children.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(),
        [own.as_str()]
    );
    assert_ne!(theirs, own);
    for data in ["1", "3"] {
        cloud.client.raise_event(&own, "go", data).await.expect("accepted");
        cloud.drain().await;
        cloud.client.enqueue_event(&own, "more", "2").await.expect("accepted");
        cloud.drain().await;
    }
    assert_eq!(output(&cloud, "copy").await, "1,2,3");
    assert_eq!(summary(&cloud, "order").await.status, InstanceStatus::Running);
    assert_eq!(shop.tried("pay"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_tags_and_status_are_those_of_the_point() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Keys", "").await;
    shop.repair("ship");
    let result = cloud
        .notifying
        .fork(&of("order", "copy"))
        .await
        .expect("the store answers");
    assert_eq!(result.outcome, ForkOutcome::Forked);
    let made = summary(&cloud, "copy").await;
    assert_eq!(
        (made.custom_status.as_deref(), made.tags["stage"].as_str()),
        (Some("shipping"), "shipping")
    );
    cloud.drain().await;
    assert_eq!(output(&cloud, "copy").await, "kept None");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_killed_at_any_write_is_whole_or_invisible() {
    sweep(3, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a run for each write of a commit of several batches"]
async fn a_fork_of_many_batches_killed_at_any_write_is_whole_or_invisible() {
    sweep(120, 4).await;
}

/// Kills at every write, of which there are at least so many.
async fn sweep(activities: usize, writes: u64) {
    let steps: Vec<String> = (0..activities).map(|n| format!("s{n}")).collect();
    for when in [CrashPoint::BeforeApplied, CrashPoint::AfterApplied] {
        let mut n = 1;
        while fork_killed_at(&steps.join(","), steps.len(), n, when).await {
            n += 1;
        }
        assert!(n > writes, "it takes several writes: {n}");
    }
}

/// Returns whether the process was killed.
async fn fork_killed_at(input: &str, count: usize, n: u64, when: CrashPoint) -> bool {
    let context = format!("killed at write {n}, {when:?}");
    let shop = Shop::default();
    let clock = Arc::new(ShiftedClock::default());
    let options = CloudOptions {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, orchestrations(), shop.activities()).await;
    let started = cloud.client.start_orchestration("order", "Fan", input).await;
    started.expect("it starts");
    cloud.orchestrator.invoke(&[Wakeup::turn("order")]).await;
    cloud.queue.take();
    let listener = cloud.world.open_listener().await;
    let time = Duration::from_secs(5);
    let config = cloud
        .world
        .builder_through(&listener)
        .clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let operator = connect(config.request_timeout(time).operation_timeout(time)).await;
    listener.crash_at_write(n, when);
    let done = until_crash(&listener, operator.fork(&of("order", "copy"))).await;
    clock.advance(REPAIRABLE + REPAIRABLE);
    recover(&cloud.silent).await;
    if cloud
        .silent
        .instance_summary("copy")
        .await
        .expect("the store answers")
        .is_none()
    {
        let again = cloud
            .silent
            .fork(&of("order", "copy"))
            .await
            .expect("the store answers");
        assert_eq!(again.outcome, ForkOutcome::Forked, "{context}");
    }
    for _ in 0..4 {
        let works = cloud.world.work_wakeups().await;
        for some in works.chunks(10) {
            cloud.worker.invoke(some).await;
        }
        for instance in ["order", "copy"] {
            cloud.orchestrator.invoke(&[Wakeup::turn(instance)]).await;
        }
        cloud.drain().await;
    }
    for instance in ["order", "copy"] {
        assert_eq!(
            output(&cloud, instance).await,
            count.to_string(),
            "{context}: {instance}"
        );
    }
    assert!(shop.done().values().all(|done| *done == 2), "{context}: once in each");
    done.is_none()
}
