//! The audit line: one for each call that changes something, with who, what, which instance and the outcome, and never with a
//! payload. Its target is `audit`.

use crate::auth::Caller;
use crate::path;
use crate::routes::Route;
use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::{Method, StatusCode};

/// The instance that a handler has chosen or found, for the line. An extension of its response.
#[derive(Clone, Debug)]
pub(crate) struct Concerns(pub String);

/// Writes the line of a request.
pub(crate) async fn line(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    if method == Method::GET || method == Method::HEAD || method == Method::OPTIONS {
        return next.run(request).await;
    }
    let matched = request
        .extensions()
        .get::<MatchedPath>()
        .map(|path| path.as_str().to_owned());
    let (action, named) = described(&method, matched.as_deref(), request.uri().path());
    let response = next.run(request).await;
    let caller = response.extensions().get::<Caller>();
    let chosen = response
        .extensions()
        .get::<Concerns>()
        .map(|Concerns(instance)| instance.clone());
    tracing::info!(
        target: "audit",
        who = caller.map_or("unknown", |caller| caller.who.as_str()),
        role = caller.and_then(|caller| caller.role).map_or("none", |role| role.name()),
        action,
        instance = chosen.or(named).unwrap_or_default(),
        status = response.status().as_u16(),
        outcome = outcome(response.status()),
        "a call that changes something"
    );
    response
}

/// The route as the OpenAPI document writes it, and the instance in the path.
fn described(method: &Method, matched: Option<&str>, uri: &str) -> (String, Option<String>) {
    let Some(matched) = matched else {
        return (format!("{method} (no route)"), None);
    };
    let last = uri.rsplit('/').next().unwrap_or_default();
    let verb = path::verbed(last).ok().map(|(_, verb)| verb);
    // Only verbs that exist: the text comes from the caller.
    let known = crate::routes::ROUTES.iter().find(|route: &&Route| {
        let has_verb = verb
            .as_deref()
            .is_some_and(|verb| route.path.ends_with(&format!("}}:{verb}")));
        route.method == *method && route.matched_path() == matched && has_verb
    });
    let action = format!("{method} {}", known.map_or(matched, |route| route.path));
    let has_instance = matched.starts_with("/v1/instances/") || matched.starts_with("/v1/dead-letters/");
    let segment = path::raw_segment(uri, 2).filter(|_| has_instance);
    let instance = segment.and_then(|segment| {
        let is_verbed = known.is_some() && matched.ends_with("{id}");
        match is_verbed {
            true => path::verbed(segment).ok().map(|(id, _)| id),
            false => path::decoded(segment).ok(),
        }
    });
    (action, instance)
}

fn outcome(status: StatusCode) -> &'static str {
    match status.as_u16() {
        200..300 => "done",
        400..500 => "refused",
        _ => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_route_and_the_instance() {
        for (method, matched, uri, action, instance) in [
            (
                Method::POST,
                "/v1/instances/{id}",
                "/v1/instances/a%2Fb:cancel",
                "POST /v1/instances/{id}:cancel",
                Some("a/b"),
            ),
            (
                Method::POST,
                "/v1/instances/{id}",
                "/v1/instances/a:forge",
                "POST /v1/instances/{id}",
                Some("a:forge"),
            ),
            (
                Method::DELETE,
                "/v1/instances/{id}",
                "/v1/instances/a:cancel",
                "DELETE /v1/instances/{id}",
                Some("a:cancel"),
            ),
            (
                Method::POST,
                "/v1/instances/{id}/events/{name}",
                "/v1/instances/a/events/x:cancel",
                "POST /v1/instances/{id}/events/{name}",
                Some("a"),
            ),
            (
                Method::POST,
                "/v1/dead-letters/{instance}/{letter}",
                "/v1/dead-letters/a/dead:t:1:redrive",
                "POST /v1/dead-letters/{instance}/{letter}:redrive",
                Some("a"),
            ),
            (
                Method::POST,
                "/v1/maintenance",
                "/v1/maintenance",
                "POST /v1/maintenance",
                None,
            ),
        ] {
            let (is, of) = described(&method, Some(matched), uri);
            assert_eq!((is.as_str(), of.as_deref()), (action, instance), "{uri}");
        }
    }
}
