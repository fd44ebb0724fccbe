//! A workflow sees its activity fail: one that was tried as often as allowed, takes too long, panics, or returns too much is an
//! error that the orchestration can handle.

use crate::support::{cloud_with, only, only_delayed, serve, status};
use duroxide::runtime::OrchestrationStatus;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, ErrorDetails, EventKind, OrchestrationContext, OrchestrationRegistry, PoisonMessageType,
};
use duroxide_cosmos::{AttemptEnd, DeadLetterKind};
use duroxide_lambda::config::OnActivityGivenUp;
use duroxide_lambda::{ActivityLimits, Limits, Wakeup};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tests::cloud::Cloud;
use tests::log::LogLines;
use tests::{ShiftedClock, workload};

const SECOND: Duration = Duration::from_secs(1);

/// `Hangs` never ends, `Fragile` panics, `Huge` returns more than a document holds, `Fine` returns at once.
fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Hangs", |_: ActivityContext, _: String| async move {
            std::future::pending::<()>().await;
            Ok(String::new())
        })
        .register("Fragile", |_: ActivityContext, _: String| async move {
            let said = "line 1\n\"line 2\"".to_owned();
            panic!("{said}")
        })
        .register("Huge", |_: ActivityContext, _: String| async move {
            Ok("x".repeat(3_000_000))
        })
        .register(
            "Fine",
            |_: ActivityContext, _: String| async move { Ok("fine".to_owned()) },
        )
        .build()
}

/// `Saga` runs the activity that is its input, and on an error `Fine`, as a compensation.
fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Saga", |ctx: OrchestrationContext, name: String| async move {
            match ctx.schedule_activity(name, "").await {
                Ok(result) => Ok(result),
                Err(error) => {
                    let compensated = ctx.schedule_activity("Fine", "").await?;
                    Ok(format!("{error} | {compensated}"))
                }
            }
        })
        .build()
}

fn limits() -> Limits {
    Limits {
        concurrency: 2,
        max_attempts: 2,
        cancel_grace: Duration::from_millis(100),
        activities: ActivityLimits::default().time("Hangs", SECOND),
        ..Limits::default()
    }
}

async fn cloud(limits: Limits) -> (Cloud, Arc<ShiftedClock>) {
    cloud_with(limits, orchestrations(), activities()).await
}

/// Starts a saga, and answers the wakeup of its activity.
async fn schedule(cloud: &Cloud, activity: &str) -> Wakeup {
    let started = cloud.client.start_orchestration("order", "Saga", activity).await;
    started.expect("it starts");
    serve(&cloud.orchestrator, &only(cloud)).await;
    only(cloud)
}

/// Serves the activity until it is not tried again.
async fn tried(cloud: &Cloud, clock: &ShiftedClock, mut wakeup: Wakeup) -> u32 {
    for attempt in 1.. {
        serve(&cloud.worker, &wakeup).await;
        let (next, delay) = only_delayed(cloud);
        clock.advance(delay);
        if matches!(next.target, duroxide_lambda::Target::Turn { .. }) {
            serve(&cloud.orchestrator, &next).await;
            return attempt;
        }
        wakeup = next;
    }
    unreachable!("the attempts are limited")
}

/// The saga's compensation and its last turn.
async fn compensated(cloud: &Cloud) -> OrchestrationStatus {
    serve(&cloud.worker, &only(cloud)).await;
    serve(&cloud.orchestrator, &only(cloud)).await;
    let history = cloud.client.read_execution_history("order", 1).await;
    workload::assert_sound("order", &history.expect("a history"));
    status(cloud, "order").await
}

#[track_caller]
fn assert_output(status: &OrchestrationStatus, expected: &str) {
    match status {
        OrchestrationStatus::Completed { output, .. } => assert_eq!(output, expected),
        other => panic!("{other:?}"),
    }
}

/// The work item of the first activity.
async fn work_item(cloud: &Cloud) -> Option<Value> {
    cloud.world.document("order", "w:1:2").await
}

async fn dead_letters(cloud: &Cloud) -> Vec<(DeadLetterKind, String, u32)> {
    let page = cloud.silent.dead_letters(100, None).await;
    let letters = page.expect("dead letters").dead_letters.into_iter();
    letters
        .map(|letter| (letter.kind, letter.reason, letter.attempts))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_hangs_is_given_up_and_its_orchestration_compensates() {
    let (cloud, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "Hangs").await;
    assert_eq!(
        tried(&cloud, &clock, wakeup).await,
        2,
        "no further claim just to give up"
    );
    let counts = cloud.worker.counted();
    assert_eq!(
        (
            counts.get("TimedOut"),
            counts.get("GivenUp"),
            counts.get("ActivitiesGivenUp")
        ),
        (Some(&1), Some(&1), Some(&1))
    );
    let OrchestrationStatus::Completed { output, .. } = compensated(&cloud).await else {
        panic!("{:?}", status(&cloud, "order").await);
    };
    let (error, compensation) = output.split_once(" | ").expect("an error");
    assert!(
        error.starts_with("activity `Hangs` timed out 2 times after 1.") && error.ends_with(" s (time limit 1 s)"),
        "{error}"
    );
    assert_eq!(compensation, "fine");
    assert!(work_item(&cloud).await.is_none());
    assert_eq!(
        dead_letters(&cloud).await,
        [(DeadLetterKind::PoisonActivity, error.to_owned(), 2)],
        "one cause, one dead letter, which says the same"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_kills_its_process_is_given_up_before_it_runs_again() {
    let (cloud, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "Fine").await;
    let duroxide_lambda::Target::Work(target) = &wakeup.target else {
        panic!("{wakeup:?}");
    };
    // Two processes claim it, and are never heard of again.
    for _ in 0..2 {
        let fetched = cloud
            .silent
            .fetch_work(&target.identifier(), limits().work_lock, None, &Default::default())
            .await;
        assert!(matches!(fetched, Ok(duroxide_cosmos::Fetched::Ready(_))), "{fetched:?}");
        clock.advance(limits().work_lock);
    }
    let again = Wakeup::to(wakeup.target.without_version());
    assert_eq!(tried(&cloud, &clock, again).await, 1);
    let error = "activity `Fine` killed its process 2 times (out of memory?)";
    assert_output(&compensated(&cloud).await, &format!("{error} | fine"));
    assert_eq!(
        dead_letters(&cloud).await,
        [(DeadLetterKind::PoisonActivity, error.to_owned(), 2)]
    );
    let attempts = cloud.silent.activity_attempts("order", 1).await.expect("attempts");
    let ends: Vec<AttemptEnd> = attempts[0].ended.iter().map(|attempt| attempt.end).collect();
    assert_eq!(ends, [AttemptEnd::Lost, AttemptEnd::Lost], "{attempts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_up_activity_fails_its_orchestration_if_that_is_configured() {
    let (cloud, clock) = cloud(Limits {
        max_attempts: 1,
        on_activity_given_up: OnActivityGivenUp::FailOrchestration,
        ..limits()
    })
    .await;
    let wakeup = schedule(&cloud, "Hangs").await;
    assert_eq!(tried(&cloud, &clock, wakeup).await, 1);
    let status = status(&cloud, "order").await;
    let OrchestrationStatus::Failed {
        details:
            ErrorDetails::Poison {
                attempt_count: 1,
                max_attempts: 1,
                message_type: PoisonMessageType::Activity { activity_name, .. },
                message,
            },
        ..
    } = &status
    else {
        panic!("{status:?}");
    };
    assert!(
        activity_name == "Hangs" && message.contains("ActivityExecute"),
        "{message}"
    );
    assert_eq!(dead_letters(&cloud).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_and_time_are_limited_by_name() {
    let activities = ActivityLimits::default().attempts("Hangs", 1).time("Hangs", SECOND);
    let (cloud, clock) = cloud(Limits { activities, ..limits() }).await;
    let began = tokio::time::Instant::now();
    let wakeup = schedule(&cloud, "Hangs").await;
    assert_eq!(tried(&cloud, &clock, wakeup).await, 1, "the others have 2 attempts");
    assert!(began.elapsed() < Duration::from_secs(40), "the invocation has 60 s");
    let status = compensated(&cloud).await;
    let OrchestrationStatus::Completed { output, .. } = &status else {
        panic!("{status:?}");
    };
    assert!(output.contains("timed out once"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_an_error_with_its_text() {
    let (cloud, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "Fragile").await;
    assert_eq!(tried(&cloud, &clock, wakeup).await, 1, "a panic is not tried again");
    let expected = "activity `Fragile` panicked: line 1\n\"line 2\" | fine";
    assert_output(&compensated(&cloud).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_too_large_can_be_handled() {
    let (cloud, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "Huge").await;
    assert_eq!(tried(&cloud, &clock, wakeup).await, 1);
    let status = compensated(&cloud).await;
    let OrchestrationStatus::Completed { output, .. } = &status else {
        panic!("{status:?}");
    };
    assert!(
        output.contains("the result of an activity") && output.ends_with("| fine"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_document_has_the_attempts_of_completed_activities() {
    let (cloud, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "Hangs").await;
    serve(&cloud.worker, &wakeup).await;
    let item = work_item(&cloud).await.expect("a work item");
    assert_eq!(item["log"][0]["end"], "timed-out", "{item}");
    let open = cloud.silent.activity_attempts("order", 1).await.expect("attempts");
    let activity = open[0].open.as_ref().expect("it is open");
    assert_eq!(
        (activity.name.as_str(), activity.attempts, activity.began),
        ("Hangs", 1, None)
    );

    let (again, delay) = only_delayed(&cloud);
    clock.advance(delay);
    assert_eq!(tried(&cloud, &clock, again).await, 1);
    compensated(&cloud).await;
    let attempts = cloud.silent.activity_attempts("order", 1).await.expect("attempts");
    let ends: Vec<Vec<(u32, AttemptEnd)>> = attempts
        .iter()
        .map(|of| of.ended.iter().map(|attempt| (attempt.number, attempt.end)).collect())
        .collect();
    assert_eq!(
        ends,
        [
            vec![(1, AttemptEnd::TimedOut), (2, AttemptEnd::TimedOut)],
            vec![(1, AttemptEnd::Completed)]
        ]
    );
    assert!(attempts.iter().all(|of| of.open.is_none()));
    let hung = &attempts[0].ended[0];
    assert!(hung.ended - hung.began >= 1_000, "{hung:?}");
    let events = cloud
        .client
        .read_execution_history("order", 1)
        .await
        .expect("a history");
    let failed = events
        .iter()
        .find(|event| matches!(event.kind, EventKind::ActivityFailed { .. }));
    assert_eq!(
        failed.and_then(|event| event.source_event_id),
        Some(attempts[0].activity)
    );
}

#[tokio::test]
async fn a_time_out_is_logged_as_such() {
    let (lines, _guard) = LogLines::capture();
    let (cloud, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "Hangs").await;
    assert_eq!(tried(&cloud, &clock, wakeup).await, 2);
    let lines = lines.read();
    let timed_out: Vec<_> = lines
        .iter()
        .filter(|line| line["message"] == "an activity timed out")
        .collect();
    assert_eq!(timed_out.len(), 2, "{lines:#?}");
    for (attempt, line) in (1..).zip(timed_out) {
        assert_eq!(line["level"], "WARN", "{line}");
        assert_eq!(
            (&line["attempt"], &line["most_attempts"], &line["activity_name"]),
            (&attempt.into(), &2.into(), &"Hangs".into()),
            "{line}"
        );
        assert!(line["limit_ms"].as_u64().is_some_and(|limit| limit >= 1_000), "{line}");
    }
    for wrong in ["Lock renewal failed", "Orchestration terminated"] {
        let shown = |line: &&serde_json::Value| line["message"].as_str().is_some_and(|text| text.starts_with(wrong));
        assert_eq!(lines.iter().find(shown), None);
    }
}

#[tokio::test]
async fn a_limit_that_the_function_cannot_keep_is_logged_once() {
    let (lines, _guard) = LogLines::capture();
    let activities = ActivityLimits::default()
        .time("Hangs", Duration::from_secs(3_600))
        .time("Fine", SECOND);
    let (cloud, clock) = cloud(Limits { activities, ..limits() }).await;
    let wakeup = schedule(&cloud, "Fragile").await;
    assert_eq!(tried(&cloud, &clock, wakeup).await, 1);
    compensated(&cloud).await;
    let lines = lines.read();
    let warnings: Vec<_> = lines
        .iter()
        .filter(|line| line["limit_ms"] == 3_600_000 && line["level"] == "WARN")
        .collect();
    let [warning] = warnings[..] else { panic!("{lines:#?}") };
    assert_eq!(warning["activity_name"], "Hangs");
    let most = warning["most_ms"].as_u64().expect("a number");
    assert!((50_000..58_000).contains(&most), "an invocation has 60 s: {warning}");
}
