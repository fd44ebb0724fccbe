//! Compares the store with what the model predicts.

use crate::driver::{Accepted, message};
use crate::fleet::Fleet;
use crate::script::{Job, Plot, Step, children, executions, predict};
use duroxide::providers::Provider;
use duroxide::{AppErrorKind, Client, ErrorDetails, Event, EventKind, OrchestrationStatus};
use serde_json::Value;
use std::sync::Arc;
use tests::workload::assert_sound;

/// Whether a document is work that is not done. The cancellation of a child that its parent did not start any more waits for
/// its grace period.
pub fn is_unrest(doc: &Value) -> bool {
    match doc["type"].as_str().expect("every document has a type") {
        "message" if doc["queue"] == "repair" => doc["item"]["CancelInstance"].is_null(),
        "message" | "work" | "intent" | "staged" | "staged-head" | "deletion" | "dead-letter" => true,
        "instance" => !doc["holder"].is_null() || !doc["unfinished"].is_null(),
        _ => false,
    }
}

/// Fails unless every instance ended as predicted. Returns how many there are, children included.
pub async fn everything(fleet: &Fleet, jobs: &[Job], accepted: &Accepted) -> usize {
    let client = Client::new(Arc::clone(fleet.calm_provider()) as Arc<dyn Provider>);
    let mut expected = 0;
    for job in jobs {
        match &job.plot {
            Plot::Script { steps, messages, .. } => {
                let output = predict(steps, &mut (0..*messages).map(message));
                completed(&client, &job.instance, steps, &output).await;
                for (child, steps) in children(&job.instance, steps) {
                    let output = predict(&steps, &mut std::iter::empty());
                    completed(&client, &child, &steps, &output).await;
                    expected += 1;
                }
            }
            Plot::Cancelled(steps) => expected += cancelled(&client, &job.instance, steps).await,
            Plot::Race(_) => race(&client, &job.instance, accepted[&job.instance]).await,
        }
        expected += 1;
    }
    // Without a commit, the document only fences messages that wait for a start.
    let documents = fleet.world().documents_of("instance").await;
    let instances = documents.iter().filter(|doc| !doc["commits"].is_null()).count();
    assert_eq!(
        instances, expected,
        "instances that nobody started, or that are missing"
    );
    instances
}

async fn completed(client: &Client, instance: &str, steps: &[Step], expected: &str) {
    let status = client.get_orchestration_status(instance).await.expect("a status");
    let OrchestrationStatus::Completed { output, .. } = status else {
        panic!("{instance} did not complete: {status:?}\n{steps:?}");
    };
    if output != expected {
        let events = history(client, instance, executions(steps)).await;
        panic!("{instance} answered {output:?} instead of {expected:?}: {steps:?}\n{events:#?}");
    }
    let all = client.list_executions(instance).await.expect("executions");
    assert!(all.iter().copied().eq(1..=executions(steps)), "{instance}: {all:?}");
    for execution in all {
        assert_sound(instance, &history(client, instance, execution).await);
    }
}

/// Checks an instance that was cancelled, and its children as far as they were started. Returns how many these are.
async fn cancelled(client: &Client, instance: &str, steps: &[Step]) -> usize {
    assert_cancelled(client, instance).await;
    let mut started = 0;
    for (child, steps) in children(instance, steps) {
        let status = client.get_orchestration_status(&child).await.expect("a status");
        match status {
            OrchestrationStatus::NotFound => continue,
            OrchestrationStatus::Completed { .. } => {
                completed(client, &child, &steps, &predict(&steps, &mut std::iter::empty())).await;
            }
            _ => assert_cancelled(client, &child).await,
        }
        started += 1;
    }
    started
}

async fn assert_cancelled(client: &Client, instance: &str) {
    let status = client.get_orchestration_status(instance).await.expect("a status");
    let is_cancelled = matches!(
        &status,
        OrchestrationStatus::Failed {
            details: ErrorDetails::Application {
                kind: AppErrorKind::Cancelled { .. },
                ..
            },
            ..
        }
    );
    assert!(is_cancelled, "{instance} was not cancelled: {status:?}");
}

/// A message that was accepted before the timer was due wins; one that came later may lose.
async fn race(client: &Client, instance: &str, accepted_ms: u64) {
    let status = client.get_orchestration_status(instance).await.expect("a status");
    let OrchestrationStatus::Completed { output, .. } = status else {
        panic!("{instance} did not complete: {status:?}");
    };
    let events = history(client, instance, 1).await;
    let fires = |event: &Event| match event.kind {
        EventKind::TimerCreated { fire_at_ms } => Some(fire_at_ms),
        _ => None,
    };
    let due_ms = events.iter().find_map(fires).expect("the race has a timer");
    if output == "timer" {
        assert!(
            accepted_ms >= due_ms,
            "{instance}: the message was accepted {} ms before the timer was due, and lost: {events:#?}",
            due_ms - accepted_ms
        );
    } else {
        assert_eq!(output, message(0), "{instance}");
    }
}

async fn history(client: &Client, instance: &str, execution: u64) -> Vec<Event> {
    let history = client.read_execution_history(instance, execution).await;
    history.expect("the history can be read")
}
