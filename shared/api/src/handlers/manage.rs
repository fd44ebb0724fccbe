//! What operators do with an instance: cancel, prune, delete; `pause`, `restart`, `rewind` and `fork` have the rest.

use super::{Answer, answer, fork, ok, pause, restart, rewind};
use crate::api::Api;
use crate::body::Body;
use crate::idempotency::Key;
use crate::path::{Segment, Verbed};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::{Accepted, CancelRequest, Deleted, ProblemType, PruneRequest, Pruned};
use crate::wait::{self, Seen};
use axum::extract::{FromRequest as _, RawQuery, Request, State};
use duroxide::ClientError;
use duroxide::providers::{DeleteInstanceResult, ProviderAdmin as _, PruneOptions};
use duroxide_cosmos::InstanceSummary;
use http::StatusCode;

/// Why an instance was cancelled, if the request does not say it.
const NO_REASON: &str = "cancelled through the API";
/// The longest reason, in bytes.
const MOST_REASON: usize = 4096;

/// A POST to an instance, with a verb.
pub(crate) async fn verb(
    State(api): State<Api>,
    Verbed { id, verb }: Verbed<2>,
    Key(key): Key,
    RawQuery(query): RawQuery,
    request: Request,
) -> Answer {
    match verb.as_str() {
        "cancel" => {
            Query::read(query.as_deref(), &[])?;
            let Body(request) = Body::from_request(request, &()).await?;
            cancel(&api, &id, request).await
        }
        "prune" => {
            Query::read(query.as_deref(), &[])?;
            let Body(request) = Body::from_request(request, &()).await?;
            prune(&api, &id, &request).await
        }
        "pause" => {
            Query::read(query.as_deref(), &[])?;
            let Body(request) = Body::from_request(request, &()).await?;
            pause::pause(&api, &id, request).await
        }
        "resume" => {
            Query::read(query.as_deref(), &[])?;
            let Body(request) = Body::from_request(request, &()).await?;
            pause::resume(&api, &id, request).await
        }
        "restart" => {
            Query::read(query.as_deref(), &[])?;
            let Body(request) = Body::from_request(request, &()).await?;
            restart::restart(&api, &id, key.as_deref(), request).await
        }
        "rewind" => {
            Query::read(query.as_deref(), &[])?;
            let Body(request) = Body::from_request(request, &()).await?;
            rewind::rewind(&api, &id, request).await
        }
        "fork" => {
            Query::read(query.as_deref(), &[])?;
            let Body(request) = Body::from_request(request, &()).await?;
            fork::fork(&api, &id, request).await
        }
        _ => Err(Refusal::new(
            ProblemType::NoSuchRoute,
            "the verbs of an instance are cancel, prune, pause, resume, rewind, restart and fork",
        )),
    }
}

/// Cancels an instance and its children.
///
/// It fails with the reason at its next turn; `GET` with `wait` waits for that.
#[utoipa::path(post, path = "/v1/instances/{id}:cancel", tag = "operators", operation_id = "cancel",
    params(("id" = String, Path, description = "The instance")),
    request_body = CancelRequest,
    responses(
        (status = 202, description = "Accepted", body = Accepted),
        (status = 404, description = "There is no such instance"),
        (status = 409, description = "It has ended"),
    ))]
pub(crate) async fn cancel(api: &Api, id: &str, request: CancelRequest) -> Answer {
    let reason = request.reason.unwrap_or_else(|| NO_REASON.to_owned());
    if reason.len() > MOST_REASON {
        return Err(Refusal::invalid(format!("reason has at most {MOST_REASON} bytes")));
    }
    let summary = found(api, id).await?;
    if summary.status.is_finished() {
        let detail = format!("instance '{id}' has ended ({})", summary.status);
        return Err(Refusal::new(ProblemType::WrongState, detail));
    }
    api.connection().client().cancel_instance(id, reason).await?;
    let accepted = Accepted {
        instance: id.to_owned(),
        repeated: false,
    };
    answer(StatusCode::ACCEPTED, &accepted)
}

/// Deletes earlier executions of an instance that continues as new.
#[utoipa::path(post, path = "/v1/instances/{id}:prune", tag = "operators", operation_id = "prune",
    params(("id" = String, Path, description = "The instance")),
    request_body = PruneRequest,
    responses(
        (status = 200, description = "What was deleted", body = Pruned),
        (status = 404, description = "There is no such instance"),
    ))]
pub(crate) async fn prune(api: &Api, id: &str, request: &PruneRequest) -> Answer {
    let keep = request.keep.unwrap_or(1);
    if keep == 0 {
        return Err(Refusal::invalid(
            "keep is at least 1: the current execution cannot be deleted",
        ));
    }
    if found(api, id).await?.started_at.is_none() {
        return ok(&Pruned::default());
    }
    let options = PruneOptions {
        keep_last: Some(keep),
        completed_before: None,
    };
    let pruned = api.connection().client().prune_executions(id, options).await?;
    ok(&Pruned {
        executions: pruned.executions_deleted,
        events: pruned.events_deleted,
    })
}

/// Deletes an instance that has ended, with its children.
#[utoipa::path(delete, path = "/v1/instances/{id}", tag = "operators", operation_id = "deleteInstance",
    params(
        ("id" = String, Path, description = "The instance"),
        ("force" = Option<bool>, Query, description = "Also if it has not ended; what it did is not undone"),
    ),
    responses(
        (status = 200, description = "What was deleted", body = Deleted),
        (status = 404, description = "There is no such instance"),
        (status = 409, description = "It has not ended, or it is a child"),
    ))]
pub(crate) async fn delete(State(api): State<Api>, Segment(id): Segment<2>, RawQuery(query): RawQuery) -> Answer {
    let force = Query::read(query.as_deref(), &["force"])?.flag("force")?;
    let summary = api
        .store()
        .instance_summary(&id)
        .await?
        .ok_or_else(|| Refusal::no_instance(&id))?;
    // duroxide's client knows these cases by the text of an error.
    if summary.parent.is_some() {
        return Err(ClientError::CannotDeleteSubOrchestration { instance_id: id }.into());
    }
    if !force && !summary.status.is_finished() {
        return Err(ClientError::InstanceStillRunning { instance_id: id }.into());
    }
    let deleted = match summary.started_at {
        Some(_) => api.connection().client().delete_instance(&id, force).await?,
        // For duroxide it does not exist.
        None => DeleteInstanceResult {
            instances_deleted: 1,
            ..api.store().delete_instances_atomic(&[id], true).await?
        },
    };
    ok(&Deleted {
        instances: deleted.instances_deleted,
        executions: deleted.executions_deleted,
        events: deleted.events_deleted,
        queued: deleted.queue_messages_deleted,
    })
}

pub(super) async fn found(api: &Api, id: &str) -> Result<Box<InstanceSummary>, Refusal> {
    match wait::read(api, id, None).await? {
        Seen::Changed(summary) => Ok(summary),
        Seen::Missing | Seen::Unchanged => Err(Refusal::no_instance(id)),
    }
}
