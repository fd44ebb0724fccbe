//! Notifiers that fail or hang: a commit stays a commit, its record is served in bounded time, and it is not repeated.

use crate::support::*;
use cosmos_emulator::RequestKind::{Query, Read};
use duroxide_lambda::{Limits, Wakeup, WorkTarget};
use serde_json::Value;
use std::time::{Duration, Instant};
use tests::cloud::{Cloud, CloudOptions, INVOCATION};
use tests::workload;

/// A wakeup for the first activity of `order`, as maintenance sends it.
fn first_activity() -> Wakeup {
    Wakeup::work(WorkTarget {
        instance: "order".to_owned(),
        execution: 1,
        activity: 2,
        ..WorkTarget::default()
    })
}

/// Runs the first turn and the first activity while the notifier is `broken`, repairs it with `mended`, and shows that
/// both ran once and nothing but wakeups was lost.
async fn assert_only_wakeups_are_lost(cloud: &Cloud, broken: impl FnOnce(), mended: impl FnOnce()) {
    let first = start(cloud, "order", "HelloCities", "1").await;
    broken();
    serve(&cloud.orchestrator, std::slice::from_ref(&first)).await;
    serve(&cloud.worker, &[first_activity()]).await;
    for function in [&cloud.orchestrator, &cloud.worker] {
        let counted = metrics(function);
        let wakeups = (&counted["WakeupsSent"], &counted["WakeupsFailed"]);
        assert_eq!((&counted["Committed"], wakeups), (&1.into(), (&Value::Null, &1.into())));
    }
    mended();
    assert_eq!(cloud.queue.take().len(), 0);

    let (response, cost_of_work) = cost_of(&cloud.worker.listener, cloud.worker.invoke(&[first_activity()])).await;
    assert_eq!(failed(&response), [""; 0]);
    cost_of_work.is_exactly(&[Read], 1);
    // The activity's result is due, by whatever wakeup; after it the same wakeup finds nothing.
    serve(&cloud.orchestrator, std::slice::from_ref(&first)).await;
    let (response, cost_of_turn) = cost_of(&cloud.orchestrator.listener, cloud.orchestrator.invoke(&[first])).await;
    assert_eq!(failed(&response), [""; 0]);
    cost_of_turn.is_exactly(&[Query], 1);
    cloud.drain().await;
    assert!(output(cloud, "order").await.contains("Oslo"));
    let history = cloud.client.read_execution_history("order", 1).await;
    workload::assert_sound("order", &history.expect("a history"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_notifier_neither_fails_nor_repeats_a_commit() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    assert_only_wakeups_are_lost(&cloud, || cloud.queue.fail_all(true), || cloud.queue.fail_all(false)).await;
    assert_eq!(cloud.queue.failed(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_notifier_blocks_no_invocation_and_repeats_no_commit() {
    let options = CloudOptions {
        limits: Limits {
            notify_timeout: Duration::from_millis(300),
            ..Limits::default()
        },
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, workload::orchestrations(), workload::activities()).await;
    let begun = Instant::now();
    assert_only_wakeups_are_lost(&cloud, || cloud.queue.hold(), || cloud.queue.release()).await;
    assert!(begun.elapsed() < INVOCATION / 2, "it took {:?}", begun.elapsed());
}

/// All groups of a batch wait for the notifier together, not one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_notifier_delays_a_batch_only_once() {
    let notify_timeout = Duration::from_secs(3);
    let options = CloudOptions {
        limits: Limits {
            notify_timeout,
            ..Limits::default()
        },
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, workload::orchestrations(), workload::activities()).await;
    let mut wakeups = Vec::new();
    for n in 0..10 {
        wakeups.push(start(&cloud, &format!("i{n}"), "HelloCities", "1").await);
    }
    cloud.queue.hold();
    let begun = Instant::now();
    serve(&cloud.orchestrator, &wakeups).await;
    let took = begun.elapsed();
    assert!(took >= notify_timeout && took < 9 * notify_timeout, "{took:?}");
    assert_eq!(metrics(&cloud.orchestrator)["Committed"], 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_wakeup_that_is_refused_does_not_hold_back_the_others() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let first = start(&cloud, "wide", "FanOut", "25").await;
    cloud.queue.fail_next(1);
    serve(&cloud.orchestrator, &[first]).await;
    assert_eq!((cloud.queue.take().len(), cloud.queue.failed()), (24, 1));
    let counted = metrics(&cloud.orchestrator);
    assert_eq!(
        (&counted["WakeupsSent"], &counted["WakeupsFailed"]),
        (&24.into(), &1.into())
    );
}

/// A notifier may be configured to be waited for longer than an invocation has time. Lambda would kill the function at
/// its deadline, and deliver the whole batch again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_notifier_delays_no_invocation_beyond_its_budget() {
    let options = CloudOptions {
        limits: Limits {
            notify_timeout: 4 * INVOCATION,
            ..Limits::default()
        },
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, workload::orchestrations(), workload::activities()).await;
    // The client's wakeup waits for the same notifier, so the notifier hangs only afterwards.
    let first = start(&cloud, "order", "HelloCities", "1").await;
    cloud.queue.hold();
    let budget = Limits::default().turn_reserve + Duration::from_secs(1);
    let ended = tokio::time::timeout(INVOCATION, cloud.orchestrator.invoke_within(&[first], budget)).await;
    assert_eq!(failed(&ended.expect("it ends with its budget")), [""; 0]);
    assert_eq!(metrics(&cloud.orchestrator)["Committed"], 1);
}
