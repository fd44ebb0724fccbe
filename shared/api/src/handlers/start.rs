//! Starting instances.

use super::{Answer, answer};
use crate::api::{Api, Invocation};
use crate::audit::Concerns;
use crate::body::{Body, text_of};
use crate::idempotency::Key;
use crate::path::{Segment, encoded};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::{ProblemType, StartRequest, Started};
use crate::{view, wait};
use axum::extract::State;
use axum::{Extension, extract::RawQuery};
use duroxide_cosmos as store;
use duroxide_cosmos::{Tags, instance_id_of_key};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::time::Duration;

/// The longest id of a new instance: those of its children and redriven instances are longer.
const MOST_ID: usize = 1024;
/// The longest names of orchestrations and versions.
const MOST_NAME: usize = 512;
const MOST_VERSION: usize = 128;

/// Starts an instance of an orchestration.
///
/// With `Idempotency-Key`, a request that is repeated within a day has its effect once. Without an `id` the instance's id derives
/// from the key.
#[utoipa::path(post, path = "/v1/orchestrations/{name}/instances", tag = "instances", operation_id = "start",
    params(
        ("name" = String, Path, description = "The name of the orchestration"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 printable ASCII characters, such as a UUID", min_length = 1, max_length = 255),
        ("Prefer" = Option<String>, Header, description = "`wait=N` waits up to N seconds (at most 25) for the end"),
    ),
    request_body = StartRequest,
    responses(
        (status = 202, description = "Accepted; it has not ended (yet)", body = Started,
            headers(("Location" = String, description = "The path of the instance"))),
        (status = 200, description = "It has ended within the time waited, or the request was accepted before", body = Started,
            headers(("Location" = String, description = "The path of the instance"))),
        (status = 409, description = "The id belongs to another instance"),
        (status = 422, description = "The key was used for another request"),
    ))]
pub(crate) async fn start(
    State(api): State<Api>,
    invocation: Option<Extension<Invocation>>,
    Segment(orchestration): Segment<2>,
    Key(key): Key,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    Body(request): Body<StartRequest>,
) -> Answer {
    Query::read(query.as_deref(), &[])?;
    let invocation = invocation.map(|Extension(invocation)| invocation).unwrap_or_default();
    let seconds = preferred_wait(&headers);
    check_names(&orchestration, &request)?;
    let tags = Tags::new(request.tags).map_err(|error| Refusal::invalid(error.to_string()))?;
    let input = text_of("input", request.input, request.input_text)?;
    let instance = match (request.id, &key) {
        (Some(id), _) => id,
        (None, Some(key)) => instance_id_of_key(key),
        (None, None) => api.parts.ids.unique(),
    };
    let started = api.connection().start(store::StartRequest {
        instance: &instance,
        orchestration: &orchestration,
        version: request.version.as_deref(),
        input: &input,
        tags: &tags,
        key: key.as_deref(),
    });
    let repeated = match started.await? {
        store::Started::Accepted => false,
        store::Started::Repeated => true,
        store::Started::Taken => {
            let detail = format!("instance '{instance}' exists already, and was not started by this request");
            return Err(Refusal::new(ProblemType::InstanceExists, detail));
        }
        store::Started::KeyReused => {
            let detail = "the same Idempotency-Key came with another request before: use a new key for each request";
            return Err(Refusal::new(ProblemType::KeyReused, detail));
        }
    };
    let time = wait::allowed(seconds, &invocation);
    let ended = if time.is_zero() {
        None
    } else {
        let seen = wait::until(&api, &instance, None, time, |summary| summary.status.is_finished()).await?;
        seen.filter(|summary| summary.status.is_finished())
    };
    let status = match repeated || ended.is_some() {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    let body = Started {
        instance: instance.clone(),
        repeated,
        ended: ended.map(|summary| view::instance(&summary, false)),
    };
    let mut response = answer(status, &body)?;
    let location = format!("/v1/instances/{}", encoded(&instance));
    let location = HeaderValue::try_from(location).map_err(|_| Refusal::internal())?;
    response.headers_mut().insert(header::LOCATION, location);
    if seconds.is_some() {
        let applied = format!("wait={}", time.as_secs());
        let applied = HeaderValue::try_from(applied).map_err(|_| Refusal::internal())?;
        response.headers_mut().insert("preference-applied", applied);
    }
    response.extensions_mut().insert(Concerns(instance));
    Ok(response)
}

fn check_names(orchestration: &str, request: &StartRequest) -> Result<(), Refusal> {
    let check = |what: &str, text: &str, most: usize| match (1..=most).contains(&text.len()) {
        true => Ok(()),
        false => Err(Refusal::invalid(format!("{what} has 1 to {most} bytes"))),
    };
    check("the name of an orchestration", orchestration, MOST_NAME)?;
    check("id", request.id.as_deref().unwrap_or("x"), MOST_ID)?;
    check("version", request.version.as_deref().unwrap_or("x"), MOST_VERSION)
}

/// The seconds of `Prefer: wait=N`. A preference that cannot be read is ignored, as RFC 7240 wants it.
fn preferred_wait(headers: &HeaderMap) -> Option<u64> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split([',', ';']));
    preferences.find_map(|preference| {
        let (name, value) = preference.split_once('=')?;
        let seconds = value.trim().trim_matches('"').parse::<u64>().ok()?;
        name.trim()
            .eq_ignore_ascii_case("wait")
            .then_some(seconds.min(Duration::MAX.as_secs()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_wait_is_found_among_other_preferences() {
        for (value, expected) in [
            ("wait=10", Some(10)),
            ("respond-async, wait = 10", Some(10)),
            ("Wait=\"7\"", Some(7)),
            ("respond-async", None),
            ("wait=soon", None),
            ("wait=-1", None),
            ("await=5", None),
        ] {
            let headers = HeaderMap::from_iter([("prefer".parse().unwrap(), value.parse().unwrap())]);
            assert_eq!(preferred_wait(&headers), expected, "{value}");
        }
        assert_eq!(preferred_wait(&HeaderMap::new()), None);
    }
}
