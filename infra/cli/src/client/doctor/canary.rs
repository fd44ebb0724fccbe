//! Runs the canary, some instances at once, and deletes all of them: also after an error, a timeout or Ctrl-C.

use super::super::answer::{Failure, warn};
use super::super::connection::Connection;
use super::super::event;
use super::super::instance::blocked_lines;
use super::super::wait::Changes;
use super::measure::Run;
use crate::ambient;
use duroxide_lambda::canary::{EVENT, ORCHESTRATION, WAITING};
use duroxide_lambda_api::types::{Instance, StartRequest, Status};
use futures::StreamExt as _;
use futures::stream;
use std::time::Duration;

/// How many run at once: enough to be done soon, and too few to wait for each other.
const AT_ONCE: usize = 4;

/// What became of one run: what was measured, or why it did not end.
pub(super) type Outcome = Result<Run, String>;

/// Runs the canary so often.
pub(super) async fn run(connection: &Connection, count: u32, limit: Duration) -> Result<Vec<Outcome>, Failure> {
    let group = ambient::unique();
    let ids: Vec<String> = (1..=count)
        .map(|number| format!("{ORCHESTRATION}:{group}:{number}"))
        .collect();
    let all = stream::iter(&ids).map(|id| one(connection, id, limit));
    let all = all.buffer_unordered(AT_ONCE).collect::<Vec<Outcome>>();
    tokio::select! {
        outcomes = all => Ok(outcomes),
        stopped = tokio::signal::ctrl_c() => {
            warn("stopping: the instances of the canary are deleted");
            for id in &ids {
                remove(connection, id).await;
            }
            stopped.map_err(|error| Failure::error(error.to_string()))?;
            Err(Failure::error("interrupted; nothing of the canary is left"))
        }
    }
}

async fn one(connection: &Connection, id: &str, limit: Duration) -> Outcome {
    let outcome = tokio::time::timeout(limit, measured(connection, id, limit)).await;
    remove(connection, id).await;
    match outcome {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("not done after {} s", limit.as_secs_f64())),
    }
}

async fn measured(connection: &Connection, id: &str, limit: Duration) -> Outcome {
    let said = |failure: Failure| failure.message;
    let request = StartRequest {
        id: Some(id.to_owned()),
        input_text: Some(String::new()),
        ..StartRequest::default()
    };
    let started = connection.start(ORCHESTRATION, &request).await;
    started.map_err(|refused| said(refused.into()))?;
    let mut changes = Changes::of(connection, id, Some(limit));
    let mut raised = false;
    while let Some(now) = changes.next().await.map_err(said)? {
        if let Some(blocked) = &now.blocked {
            return Err(format!("blocked: {}", blocked_lines(blocked, connection.now_ms())));
        }
        if now.status.is_finished() {
            return ended(connection, id, &now).await;
        }
        if !raised && now.custom_status.as_deref() == Some(WAITING) {
            let answer = connection.raise(id, EVENT, String::new()).await;
            answer.map_err(|refused| said(refused.into()))?;
            raised = true;
        }
    }
    Err(format!("not done after {} s", limit.as_secs_f64()))
}

/// Measures a run that has ended.
async fn ended(connection: &Connection, id: &str, now: &Instance) -> Outcome {
    if now.status != Status::Completed {
        return Err(format!("{}: {}", now.status, now.error.as_deref().unwrap_or_default()));
    }
    let history = connection.history(id, None).await;
    let history = history.map_err(|refused| Failure::from(refused).message)?;
    let events = event::parsed(&history.events).map_err(|failure| failure.message)?;
    Ok(Run::of(
        now.usage.clone().unwrap_or_default(),
        &events,
        &history.attempts,
    ))
}

/// Deletes an instance, if it is there.
async fn remove(connection: &Connection, id: &str) {
    if let Err(failure) = connection.remove(id).await {
        warn(&format!(
            "warning: {}; delete the canary's instance '{id}' yourself",
            failure.message
        ));
    }
}
