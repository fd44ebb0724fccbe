//! The API itself: health, the OpenAPI document, who the caller is, and paths that do not exist.

use super::{Answer, ok};
use crate::auth::Caller;
use crate::openapi;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::{Health, Me, ProblemType};
use crate::view;
use axum::Extension;
use axum::body::Body;
use axum::extract::RawQuery;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// Whether the API answers. It does not ask the store.
#[utoipa::path(get, path = "/v1/health", tag = "service", operation_id = "health", security(()),
    responses((status = 200, description = "It answers", body = Health)))]
pub(crate) async fn health() -> Answer {
    ok(&Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "service", operation_id = "openapi", security(()),
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer")),
    responses((status = 200, description = "The document", body = Object), (status = 304, description = "It has not changed")))]
pub(crate) async fn openapi(headers: HeaderMap) -> Response {
    let (text, etag) = openapi::served();
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == etag);
    let mut response = Response::new(match is_known {
        true => Body::empty(),
        false => Body::from(text),
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::ETAG, HeaderValue::from_static(etag));
    response
}

/// Who calls, and with which role.
#[utoipa::path(get, path = "/v1/me", tag = "service", operation_id = "getMe",
    responses((status = 200, description = "The caller", body = Me)))]
pub(crate) async fn me(Extension(caller): Extension<Caller>, RawQuery(query): RawQuery) -> Answer {
    Query::read(query.as_deref(), &[])?;
    // The layer `access` has let it through, so it has one.
    let role = caller.role.ok_or_else(Refusal::forbidden)?;
    ok(&Me {
        who: caller.who,
        role: view::role(role),
    })
}

pub(crate) async fn no_such_route() -> Refusal {
    Refusal::new(
        ProblemType::NoSuchRoute,
        "GET /v1/openapi.json lists all paths; ids are percent-encoded, slashes too",
    )
}

pub(crate) async fn no_such_method() -> Refusal {
    Refusal::new(
        ProblemType::MethodNotAllowed,
        "GET /v1/openapi.json lists the methods of each path",
    )
}
