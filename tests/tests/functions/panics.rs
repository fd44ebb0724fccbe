//! Code that panics, is missing or has changed fails as duroxide defines, visibly, and the environment continues to serve.

use crate::activities::*;
use cosmos::PartitionKey;
use duroxide::runtime::OrchestrationStatus;
use duroxide::{AppErrorKind, ConfigErrorKind, ErrorDetails, OrchestrationContext, OrchestrationRegistry};
use duroxide::{EventKind, PoisonMessageType};
use duroxide_lambda::{Limits, Target, Wakeup};
use serde_json::json;
use std::slice::from_ref;
use std::time::Duration;
use tests::ShiftedClock;
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

/// Serves the wakeups until none is left, and answers the pauses. Time is moved instead of waited for.
async fn pauses(cloud: &Cloud, clock: &ShiftedClock, first: Wakeup) -> Vec<u64> {
    let mut next = vec![first];
    let mut pauses = Vec::new();
    while !next.is_empty() {
        assert!(pauses.len() < 20, "it goes on for ever: {pauses:?}");
        let (turns, works): (Vec<Wakeup>, Vec<Wakeup>) = next
            .into_iter()
            .partition(|wakeup| matches!(wakeup.target, Target::Turn { .. }));
        served(&cloud.orchestrator.invoke(&turns).await);
        served(&cloud.worker.invoke(&works).await);
        let notified = cloud.queue.take();
        let longest = notified.iter().map(|delayed| delayed.delay).max().unwrap_or_default();
        clock.advance(longest);
        next = notified.into_iter().map(|delayed| delayed.wakeup).collect();
        pauses.push(longest.as_secs());
    }
    pauses
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
async fn a_panicking_orchestration_fails_and_the_environment_serves_on() {
    let (cloud, stage, _) = cloud(limits()).await;
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
async fn an_orchestration_that_is_not_registered_is_retried_and_given_up() {
    let (cloud, _, clock) = cloud(limits()).await;
    let wakeup = start(&cloud, "order", "Missing", "").await;
    // Abandoned for one second, then two; the third attempt is one too many.
    assert_eq!(pauses(&cloud, &clock, wakeup).await, [1, 2, 0]);
    let counts = counted(&cloud.orchestrator);
    assert_eq!((counts.get("Abandoned"), counts.get("Committed")), (Some(&2), Some(&1)));
    assert_eq!(
        (counts.get("OrchestrationsFailed"), counts.get("GivenUp")),
        (Some(&1), Some(&1))
    );
    let details = failure(&cloud, "order").await;
    let ErrorDetails::Poison {
        message_type: PoisonMessageType::Orchestration { .. },
        ..
    } = &details
    else {
        panic!("{details:?}");
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_is_given_up_fails_its_parent() {
    let (cloud, _, clock) = cloud(limits()).await;
    let wakeup = start(&cloud, "parent", "Parent", "Missing").await;
    // The parent's turn, the child's three attempts, and the turn that takes its failure.
    assert_eq!(pauses(&cloud, &clock, wakeup).await, [0, 1, 2, 0, 0]);
    let counts = counted(&cloud.orchestrator);
    assert_eq!(counts.get("OrchestrationsFailed"), Some(&2));
    for instance in ["parent", "child"] {
        let details = failure(&cloud, instance).await;
        assert!(details.display_message().contains("poison"), "{details:?}");
    }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_is_not_registered_is_retried_and_given_up() {
    let (cloud, _, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Missing").await;
    // Abandoned for one second, then two; then it fails, and a turn takes the failure.
    assert_eq!(pauses(&cloud, &clock, wakeup).await, [1, 2, 0, 0]);
    let counts = counted(&cloud.worker);
    assert_eq!((counts.get("Abandoned"), counts.get("Committed")), (Some(&2), Some(&1)));
    assert_eq!(counts.get("GivenUp"), Some(&1));
    assert_eq!(counted(&cloud.orchestrator).get("OrchestrationsFailed"), Some(&1));
    let details = failure(&cloud, "order").await;
    let ErrorDetails::Application {
        kind: AppErrorKind::OrchestrationFailed,
        message,
        retryable: false,
    } = &details
    else {
        panic!("{details:?}");
    };
    assert_eq!(
        message,
        "activity `Missing` was released 2 times without a result (is it registered?)"
    );
    assert!(work_item(&cloud, "order").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orchestration_that_changed_under_a_running_instance_fails_visibly() {
    let (cloud, stage, _) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Quick").await;
    served(&cloud.worker.invoke(&[wakeup]).await);
    let turn = only(cloud.queue.take());
    let changed = OrchestrationRegistry::builder()
        .register("Run", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_timer(Duration::from_secs(1)).await;
            ctx.schedule_activity("Quick", "").await
        })
        .build();
    let another = cloud.another_orchestrator("another", changed).await;
    served(&another.invoke(&[turn.wakeup]).await);
    let details = failure(&cloud, "order").await;
    assert!(
        matches!(
            &details,
            ErrorDetails::Configuration {
                kind: ConfigErrorKind::Nondeterminism,
                ..
            }
        ),
        "{details:?}"
    );
    let counts = counted(&another);
    assert_eq!(
        (counts.get("OrchestrationsFailed"), counts.get("Committed")),
        (Some(&1), Some(&1))
    );
    assert!(cloud.queue.take().is_empty());
    // The environment continues to serve.
    let next = start(&cloud, "next", "Run", "Quick").await;
    served(&another.invoke(&[next]).await);
    assert_eq!(stage.count("began", "order"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_with_a_corrupt_history_is_given_up_and_others_are_served() {
    let (cloud, _, clock) = cloud(Limits {
        history_cache: 0,
        ..limits()
    })
    .await;
    let wakeup = schedule(&cloud, "order", "Quick").await;
    corrupt(&cloud, "order").await;
    served(&cloud.worker.invoke(&[wakeup]).await);
    let turn = only(cloud.queue.take());
    let healthy = start(&cloud, "healthy", "Turn", "").await;
    served(&cloud.orchestrator.invoke(from_ref(&healthy)).await);
    counted(&cloud.orchestrator);
    assert_eq!(pauses(&cloud, &clock, turn.wakeup).await, [1, 1, 0]);
    let counts = counted(&cloud.orchestrator);
    assert_eq!((counts.get("Abandoned"), counts.get("Committed")), (Some(&2), Some(&1)));
    assert_eq!(
        (counts.get("OrchestrationsFailed"), counts.get("GivenUp")),
        (Some(&1), Some(&1))
    );
    let instance = cloud.world.document("order", "instance").await.expect("an instance");
    assert!(instance.to_string().contains("Failed"), "{instance}");
    let status = cloud
        .client
        .get_orchestration_status("healthy")
        .await
        .expect("a status");
    assert_output(&status, "turned");
}

/// Makes an event of an instance's history one that no version of duroxide knows.
async fn corrupt(cloud: &Cloud, instance: &str) {
    let pk = PartitionKey::new(instance).expect("a valid partition key");
    let mut histories = cloud.world.documents_of("history").await;
    let mut history = histories.remove(0);
    let events = history["events"].as_array_mut().expect("events");
    let scheduled = events.last_mut().expect("an event");
    assert!(matches!(
        serde_json::from_value::<duroxide::Event>(scheduled.clone())
            .expect("an event")
            .kind,
        EventKind::ActivityScheduled { .. }
    ));
    *scheduled = json!({"event_id": 2, "type": "FromTheFuture"});
    let id = history["id"].as_str().expect("an id").to_owned();
    let raw = cloud.world.raw();
    let replaced = raw.replace(&pk, &id, &history, None, cosmos::Retry::Idempotent).await;
    replaced.expect("the history is replaced");
}
