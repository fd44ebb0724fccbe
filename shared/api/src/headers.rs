//! Headers of every answer: what keeps a browser from misusing it, and CORS for the one origin that is configured.

use crate::api::Api;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

const SECURITY: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];
/// Of every answer that is not a part of the dashboard, which has its own.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";
const METHODS: &str = "GET, POST, DELETE";
const ALLOWED: &str = "authorization, content-type, idempotency-key, if-none-match, prefer";
const EXPOSED: &str = "etag, location, preference-applied, retry-after";
/// How long a browser may keep the answer to a preflight.
const PREFLIGHT_SECONDS: &str = "600";

/// Adds the headers, and answers preflights.
pub(crate) async fn add(State(api): State<Api>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = origin.filter(|origin| {
        let configured = api.parts.cors_origin.as_deref();
        configured.is_some_and(|configured| origin.as_bytes() == configured.as_bytes())
    });
    let is_preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match (&allowed, is_preflight) {
        (Some(_), true) => preflight(),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    secure(headers, api.parts.auth.is_remote());
    if api.parts.cors_origin.is_some() {
        vary_by_origin(headers);
    }
    if let Some(origin) = allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
    }
    response
}

/// Adds `origin` to what a handler has set. One line: Lambda passes on only the first of several.
fn vary_by_origin(headers: &mut HeaderMap) {
    let mut names: Vec<&[u8]> = headers
        .get_all(header::VARY)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    names.push(b"origin");
    // Header values joined by a comma are one.
    let value = HeaderValue::from_bytes(&names.join(b", ".as_slice()));
    headers.insert(header::VARY, value.unwrap_or(HeaderValue::from_static("*")));
}

fn preflight() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED),
        (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn secure(headers: &mut HeaderMap, is_remote: bool) {
    for (name, value) in SECURITY {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // What a handler has not said otherwise.
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if is_remote {
        headers.insert(
            header::STRICT_TRANSPORT_SECURITY,
            HeaderValue::from_static("max-age=63072000"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_added_to_what_a_handler_has_set() {
        for (set, expected) in [
            (&[] as &[&'static str], "origin"),
            (&["accept-encoding"], "accept-encoding, origin"),
            (
                &["accept-encoding, accept", "cookie"],
                "accept-encoding, accept, cookie, origin",
            ),
        ] {
            let mut headers = HeaderMap::new();
            for value in set {
                headers.append(header::VARY, HeaderValue::from_static(value));
            }
            vary_by_origin(&mut headers);
            let found: Vec<_> = headers.get_all(header::VARY).iter().collect();
            assert_eq!(found, [expected]);
        }
    }
}
