//! Events and queue messages.

use super::{Answer, answer};
use crate::api::Api;
use crate::body::{Body, text_of};
use crate::idempotency::Key;
use crate::path::Segment;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::{Accepted, EventRequest, ProblemType};
use axum::extract::{RawQuery, State};
use duroxide_cosmos as store;
use duroxide_cosmos::{EventTarget, Raised};
use http::StatusCode;

/// The longest name of an event or a queue.
const MOST_NAME: usize = 512;

/// Raises an event for those who wait for it.
///
/// An event that nobody waits for yet may be lost; a message in a queue is not.
#[utoipa::path(post, path = "/v1/instances/{id}/events/{name}", tag = "instances", operation_id = "raiseEvent",
    params(
        ("id" = String, Path, description = "The instance"),
        ("name" = String, Path, description = "The name of the event"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 printable ASCII characters, such as a UUID", min_length = 1, max_length = 255),
    ),
    request_body = EventRequest,
    responses(
        (status = 202, description = "Accepted", body = Accepted),
        (status = 404, description = "There is no such instance"),
        (status = 410, description = "The instance has ended"),
        (status = 422, description = "The key was used for another request"),
    ))]
pub(crate) async fn event(
    State(api): State<Api>,
    Segment(instance): Segment<2>,
    Segment(name): Segment<4>,
    key: Key,
    RawQuery(query): RawQuery,
    Body(request): Body<EventRequest>,
) -> Answer {
    Query::read(query.as_deref(), &[])?;
    send(&api, &instance, EventTarget::Event(&name), key, request).await
}

/// Puts a message into a queue of an instance, which keeps it until the workflow takes it.
#[utoipa::path(post, path = "/v1/instances/{id}/queues/{name}", tag = "instances", operation_id = "enqueue",
    params(
        ("id" = String, Path, description = "The instance"),
        ("name" = String, Path, description = "The name of the queue"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 printable ASCII characters, such as a UUID", min_length = 1, max_length = 255),
    ),
    request_body = EventRequest,
    responses(
        (status = 202, description = "Accepted", body = Accepted),
        (status = 404, description = "There is no such instance"),
        (status = 410, description = "The instance has ended"),
        (status = 422, description = "The key was used for another request"),
    ))]
pub(crate) async fn queue(
    State(api): State<Api>,
    Segment(instance): Segment<2>,
    Segment(name): Segment<4>,
    key: Key,
    RawQuery(query): RawQuery,
    Body(request): Body<EventRequest>,
) -> Answer {
    Query::read(query.as_deref(), &[])?;
    send(&api, &instance, EventTarget::Queue(&name), key, request).await
}

async fn send(api: &Api, instance: &str, target: EventTarget<'_>, Key(key): Key, request: EventRequest) -> Answer {
    let (EventTarget::Event(name) | EventTarget::Queue(name)) = target;
    if name.len() > MOST_NAME {
        return Err(Refusal::invalid(format!("a name has at most {MOST_NAME} bytes")));
    }
    let data = text_of("data", request.data, request.data_text)?;
    super::check_known(instance)?;
    let raised = api.connection().raise(store::EventRequest {
        instance,
        target,
        data: &data,
        key: key.as_deref(),
    });
    let repeated = match raised.await? {
        Raised::Accepted => false,
        Raised::Repeated => true,
        Raised::NotFound => return Err(Refusal::no_instance(instance)),
        Raised::Ended => {
            let detail = format!("instance '{instance}' has ended and takes no more events");
            return Err(Refusal::new(ProblemType::InstanceEnded, detail));
        }
        Raised::KeyReused => {
            let detail = "the same Idempotency-Key came with another request before: use a new key for each request";
            return Err(Refusal::new(ProblemType::KeyReused, detail));
        }
    };
    answer(
        StatusCode::ACCEPTED,
        &Accepted {
            instance: instance.to_owned(),
            repeated,
        },
    )
}
