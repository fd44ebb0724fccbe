//! Pausing and resuming an instance.

use super::{Answer, answer};
use crate::api::Api;
use crate::refusal::Refusal;
use crate::types::{PauseChanged, PauseRequest, ProblemType, ResumeRequest};
use duroxide_cosmos::{PauseOutcome, PauseResult};
use http::StatusCode;

/// The longest reason, in bytes: it is a part of the instance.
const MOST_REASON: usize = 1024;

/// Pauses an instance: no turn of it is taken and no activity begins until it is resumed.
///
/// Activities that run complete, and what arrives is kept in order. Cancelling it takes effect at once. Pausing it again changes
/// nothing. With `children` all its descendants are paused, too.
#[utoipa::path(post, path = "/v1/instances/{id}:pause", tag = "operators", operation_id = "pause",
    params(("id" = String, Path, description = "The instance")),
    request_body = PauseRequest,
    responses(
        (status = 202, description = "It is paused", body = PauseChanged),
        (status = 404, description = "There is no such instance"),
        (status = 409, description = "It has ended, or is being deleted"),
    ))]
pub(crate) async fn pause(api: &Api, id: &str, request: PauseRequest) -> Answer {
    let reason = request.reason.as_deref();
    if reason.is_some_and(|reason| reason.len() > MOST_REASON) {
        return Err(Refusal::invalid(format!("reason has at most {MOST_REASON} bytes")));
    }
    let paused = api.connection().pause(id, reason, request.children).await?;
    changed(id, &paused)
}

/// Resumes a paused instance: everything that waits is due again, and timers that fell due meanwhile fire once.
///
/// Resuming an instance that is not paused sends its wakeups again. With `children` all its descendants are resumed, too, whoever
/// has paused them.
#[utoipa::path(post, path = "/v1/instances/{id}:resume", tag = "operators", operation_id = "resume",
    params(("id" = String, Path, description = "The instance")),
    request_body = ResumeRequest,
    responses(
        (status = 202, description = "It goes on", body = PauseChanged),
        (status = 404, description = "There is no such instance"),
        (status = 409, description = "It has ended, or is being deleted"),
    ))]
pub(crate) async fn resume(api: &Api, id: &str, request: ResumeRequest) -> Answer {
    let resumed = api.connection().resume(id, request.children).await?;
    changed(id, &resumed)
}

fn changed(id: &str, result: &PauseResult) -> Answer {
    let wrong_state = |why: &str| {
        let detail = format!("instance '{id}' {why}");
        Err(Refusal::new(ProblemType::WrongState, detail))
    };
    match result.outcome {
        PauseOutcome::NotFound => Err(Refusal::no_instance(id)),
        PauseOutcome::Ended => wrong_state("has ended"),
        PauseOutcome::Deleting => wrong_state("is being deleted"),
        PauseOutcome::Changed | PauseOutcome::Unchanged => {
            let changed = PauseChanged {
                instance: id.to_owned(),
                changed: result.changed,
            };
            answer(StatusCode::ACCEPTED, &changed)
        }
    }
}
