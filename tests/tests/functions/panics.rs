//! Code that panics, and the environment continues to serve. What blocks is tested in `failures`.

use crate::activities::*;
use duroxide::runtime::OrchestrationStatus;
use duroxide::{AppErrorKind, ErrorDetails, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::Limits;
use duroxide_lambda::config::OnDefect;
use tests::cloud::Cloud;

/// More often than there are dispatchers.
const OFTEN: usize = 10;

fn limits() -> Limits {
    Limits {
        concurrency: 2,
        max_attempts: 2,
        ..Limits::default()
    }
}

async fn failure(cloud: &Cloud, instance: &str) -> ErrorDetails {
    match status(cloud, instance).await {
        OrchestrationStatus::Failed { details, .. } => details,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panicking_activity_fails_and_the_environment_serves_on() {
    let (cloud, stage, _) = cloud(limits()).await;
    for n in 0..OFTEN {
        let instance = format!("order-{n}");
        let wakeup = schedule(&cloud, &instance, "Panicking").await;
        served(&cloud.worker.invoke(&[wakeup]).await);
        conclude(&cloud, &instance).await;
        let details = failure(&cloud, &instance).await;
        let ErrorDetails::Application { message, .. } = &details else {
            panic!("{details:?}");
        };
        assert_eq!(message, "activity `Panicking` panicked: an activity that panics");
        assert_eq!(stage.count("began", &instance), 1, "a panic is not tried again");
    }
    assert_outcomes(&cloud.worker, &[("Committed", OFTEN as u64)]);
    // Both dispatchers are there: two activities run at the same time.
    let wakeups = [
        schedule(&cloud, "left", "Patient").await,
        schedule(&cloud, "right", "Patient").await,
    ];
    let both = async {
        until(|| stage.count("began", "left") + stage.count("began", "right") == 2).await;
        stage.let_go("left");
        stage.let_go("right");
    };
    let (response, ()) = futures::join!(cloud.worker.invoke(&wakeups), both);
    served(&response);
    conclude(&cloud, "left").await;
    assert_output(&status(&cloud, "left").await, "done");
    assert_output(&status(&cloud, "right").await, "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_panicking_orchestration_that_may_fail_fails_and_the_environment_serves_on() {
    let (cloud, stage, _) = cloud(Limits {
        on_panic: OnDefect::Fail,
        ..limits()
    })
    .await;
    for n in 0..OFTEN {
        let instance = format!("order-{n}");
        let wakeup = start(&cloud, &instance, "Panicking", "").await;
        served(&cloud.orchestrator.invoke(&[wakeup]).await);
        assert_panicked(&failure(&cloud, &instance).await, "an orchestration that panics");
    }
    let later = start(&cloud, "later", "PanickingLater", "").await;
    served(&cloud.orchestrator.invoke(&[later]).await);
    served(&cloud.worker.invoke(&[only(cloud.queue.take()).wakeup]).await);
    conclude(&cloud, "later").await;
    assert_panicked(&failure(&cloud, "later").await, "an orchestration that panics later");
    let counts = counted(&cloud.orchestrator);
    assert_eq!(counts.get("OrchestrationsFailed"), Some(&(OFTEN as u64 + 1)));
    assert_eq!(
        (counts.get("Committed"), counts.get("Failed")),
        (Some(&(OFTEN as u64 + 2)), None)
    );
    assert!(cloud.queue.take().is_empty());
    // Both dispatchers are there: two turns run at the same time.
    let wakeups = [
        start(&cloud, "left", "Slow", "").await,
        start(&cloud, "right", "Slow", "").await,
    ];
    let both = async {
        until(|| stage.count("began", "left") + stage.count("began", "right") == 2).await;
        stage.let_go("left");
        stage.let_go("right");
    };
    let (response, ()) = futures::join!(cloud.orchestrator.invoke(&wakeups), both);
    served(&response);
    assert_output(&status(&cloud, "left").await, "slow");
    assert_output(&status(&cloud, "right").await, "slow");
}

#[track_caller]
fn assert_panicked(details: &ErrorDetails, expected: &str) {
    let ErrorDetails::Application {
        kind: AppErrorKind::Panicked,
        message,
        ..
    } = details
    else {
        panic!("{details:?}");
    };
    assert_eq!(message, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orchestration_that_is_registered_in_time_runs() {
    let (cloud, stage, clock) = cloud(limits()).await;
    let wakeup = start(&cloud, "order", "Late", "").await;
    served(&cloud.orchestrator.invoke(&[wakeup]).await);
    let again = only(cloud.queue.take());
    assert!(again.wakeup.due_ms.is_some(), "a wakeup that comes early must know it");
    clock.advance(again.delay);
    let newer = OrchestrationRegistry::builder()
        .register("Late", |_: OrchestrationContext, _: String| async move {
            Ok("at last".to_owned())
        })
        .build();
    let another = cloud.another_orchestrator("another", newer).await;
    served(&another.invoke(&[again.wakeup]).await);
    assert_output(&status(&cloud, "order").await, "at last");
    assert_eq!(stage.total("began"), 0);
}
