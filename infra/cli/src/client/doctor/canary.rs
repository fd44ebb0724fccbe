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
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;

/// How many run at once: enough to be done soon, and too few to wait for each other.
const AT_ONCE: usize = 4;

/// What became of one run: what was measured, or why it did not end.
pub(super) type Outcome = Result<Run, String>;

/// A run, and whether its instance is gone.
struct Ended {
    outcome: Outcome,
    removed: bool,
}

/// Runs the canary so often.
pub(super) async fn run(connection: &Connection, count: u32, limit: Duration) -> Result<Vec<Outcome>, Failure> {
    let group = ambient::unique();
    let ids: Vec<String> = (1..=count)
        .map(|number| format!("{ORCHESTRATION}:{group}:{number}"))
        .collect();
    let stop = watch::Sender::new(false);
    let all = stream::iter(&ids).map(|id| one(connection, id, limit, stop.subscribe()));
    let mut all = pin!(all.buffer_unordered(AT_ONCE).collect::<Vec<Ended>>());
    let interrupted = tokio::select! {
        ended = &mut all => return Ok(ended.into_iter().map(|ended| ended.outcome).collect()),
        interrupted = tokio::signal::ctrl_c() => interrupted,
    };
    warn("stopping: the instances of the canary are deleted");
    // Runs are not dropped: a start that is under way would be applied after its instance was deleted.
    stop.send_replace(true);
    let left = all.await.iter().filter(|ended| !ended.removed).count();
    interrupted.map_err(|error| Failure::error(error.to_string()))?;
    Err(Failure::error(match left {
        0 => "interrupted; nothing of the canary is left".to_owned(),
        left => format!("interrupted; {left} of the canary's instances are left: delete them as said above"),
    }))
}

async fn one(connection: &Connection, id: &str, limit: Duration, mut stop: watch::Receiver<bool>) -> Ended {
    if *stop.borrow() {
        return Ended {
            outcome: Err("interrupted".to_owned()),
            removed: true,
        };
    }
    let outcome = match start(connection, id).await {
        Ok(()) => tokio::select! {
            outcome = tokio::time::timeout(limit, measured(connection, id, limit)) => {
                outcome.unwrap_or_else(|_| Err(not_done(limit)))
            }
            _ = stop.wait_for(|stop| *stop) => Err("interrupted".to_owned()),
        },
        Err(failure) => Err(failure.message),
    };
    let removed = remove(connection, id).await;
    Ended { outcome, removed }
}

fn not_done(limit: Duration) -> String {
    format!("not done after {} s", limit.as_secs_f64())
}

async fn start(connection: &Connection, id: &str) -> Result<(), Failure> {
    let request = StartRequest {
        id: Some(id.to_owned()),
        input_text: Some(String::new()),
        ..StartRequest::default()
    };
    connection.start(ORCHESTRATION, &request).await.map(drop)?;
    Ok(())
}

async fn measured(connection: &Connection, id: &str, limit: Duration) -> Outcome {
    let said = |failure: Failure| failure.message;
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
    Err(not_done(limit))
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

/// Deletes an instance, if it is there, and returns whether it is gone.
async fn remove(connection: &Connection, id: &str) -> bool {
    let removed = connection.remove(id).await;
    if let Err(failure) = &removed {
        warn(&format!(
            "warning: {}; delete the canary's instance '{id}' yourself",
            failure.message
        ));
    }
    removed.is_ok()
}
