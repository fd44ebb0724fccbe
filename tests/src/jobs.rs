//! Runs the jobs of the workload: start them, send what they wait for, see which are open, check how they ended.

use crate::workload::{Job, Nudge, assert_sound};
use duroxide::{Client, EventKind, OrchestrationStatus};

/// Starts all jobs, and queues the messages that some of them wait for.
pub async fn start(client: &Client, jobs: &[Job]) {
    for job in jobs {
        let started = client.start_orchestration(&job.instance, job.orchestration, job.input.as_str());
        started.await.expect("it starts");
        if job.nudge == Nudge::Message {
            let queued = client.enqueue_event(&job.instance, "inbox", &job.output);
            queued.await.expect("it is queued");
        }
    }
}

/// Whether a job waits for an event, which counts only after its instance has subscribed.
pub fn waits_for_event(job: &Job) -> bool {
    job.nudge == Nudge::Event
}

/// Waits until a job that waits for an event has subscribed.
pub async fn until_subscribed(client: &Client, job: &Job) {
    crate::until(&format!("{} subscribes", job.instance), async || {
        has(client, job, |kind| matches!(kind, EventKind::ExternalSubscribed { .. })).await
    })
    .await;
}

/// Whether the history of a job has an event.
async fn has(client: &Client, job: &Job, wanted: fn(&EventKind) -> bool) -> bool {
    let history = client.read_execution_history(&job.instance, 1).await;
    history.is_ok_and(|history| history.iter().any(|event| wanted(&event.kind)))
}

/// Raises the events whose instances have subscribed and not received theirs. Calling it again changes nothing.
pub async fn nudge(client: &Client, jobs: &[Job]) {
    for job in jobs.iter().filter(|job| waits_for_event(job)) {
        if has(client, job, |kind| matches!(kind, EventKind::ExternalSubscribed { .. })).await
            && !has(client, job, |kind| matches!(kind, EventKind::ExternalEvent { .. })).await
        {
            let raised = client.raise_event(&job.instance, "Go", &job.output).await;
            raised.expect("it is raised");
        }
    }
}

/// The jobs that have not completed.
pub async fn open<'a>(client: &Client, jobs: &'a [Job]) -> Vec<&'a Job> {
    let mut open = Vec::new();
    for job in jobs {
        let status = client.get_orchestration_status(&job.instance).await;
        if !matches!(status, Ok(OrchestrationStatus::Completed { .. })) {
            open.push(job);
        }
    }
    open
}

/// Fails unless every job has its output, its executions, and each activity one result.
pub async fn check(client: &Client, jobs: &[Job]) {
    for job in jobs {
        let instance = job.instance.as_str();
        let status = client.get_orchestration_status(instance).await;
        let Ok(OrchestrationStatus::Completed {
            output,
            custom_status,
            custom_status_version,
        }) = status
        else {
            panic!("{instance} did not complete: {status:?}");
        };
        assert_eq!(output, job.output, "{instance}");
        if job.orchestration == "Keys" {
            let expected = (Some("greeted"), 2);
            assert_eq!(
                (custom_status.as_deref(), custom_status_version),
                expected,
                "{instance}"
            );
            let kept = client.get_kv_value(instance, "greeting").await;
            assert_eq!(
                kept.expect("the key can be read"),
                Some(format!("Hello {}!", job.input))
            );
        }
        let executions = client.list_executions(instance).await.expect("executions are listed");
        assert!(
            executions.iter().copied().eq(1..=job.executions),
            "{instance}: {executions:?}"
        );
        for execution in executions {
            check_history(client, instance, execution).await;
        }
        if let Some(child) = &job.child {
            check_history(client, child, 1).await;
        }
    }
}

async fn check_history(client: &Client, instance: &str, execution: u64) {
    let history = client.read_execution_history(instance, execution).await;
    let history = history.expect("the history can be read");
    assert_sound(instance, &history);
    let ends = history.iter().filter(|event| event.is_terminal()).count();
    assert_eq!(ends, 1, "execution {execution} of {instance} ends once: {history:#?}");
}
