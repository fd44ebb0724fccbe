//! The OpenAPI 3.1 document, from the handlers and types.
//!
//! Each handler documents its own answers. The problems that every route shares are added here.

use crate::handlers::{
    batches, dashboard, dead_letters, details, doctor, explain, fork, instances, manage, numbers, pause, restart,
    rewind, send, service, start,
};
use crate::routes::ROUTES;
use crate::types::{self, Problem, ProblemType};
use sha2::{Digest as _, Sha256};
use std::sync::OnceLock;
use utoipa::OpenApi as _;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, PathItem, Ref, RefOr, ResponseBuilder};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "duroxide-lambda",
        description = "Durable workflows on AWS Lambda: start instances, send them events, watch and manage them. Errors are RFC 9457 problems."
    ),
    paths(
        service::health, service::openapi, service::me, dashboard::config, start::start, instances::list, instances::get, manage::delete, manage::cancel,
        manage::prune, pause::pause, pause::resume, restart::restart, rewind::rewind, fork::fork,
        batches::start, batches::list, batches::get, batches::cancel, batches::failures, details::history, details::tree, details::key_values, details::executions, details::stats,
        send::event, send::queue, numbers::counts, numbers::overview, numbers::throughput,
        numbers::overdue, numbers::stats, dead_letters::list, dead_letters::get,
        dead_letters::redrive, dead_letters::discard, numbers::maintenance, doctor::examine, explain::explain,
    ),
    components(schemas(types::Instance, types::InstanceList, Problem)),
    security(("aws" = []), ("bearer" = []), ()),
    tags(
        (name = "instances", description = "Start and watch instances, and send them events"),
        (name = "operators", description = "Cancel, pause, resume, rewind, restart, fork, prune, delete, maintain, examine"),
        (name = "batches", description = "One action on many instances"),
        (name = "dead letters", description = "What was given up"),
        (name = "numbers", description = "Counts, and what needs attention"),
        (name = "service", description = "The API itself"),
    )
)]
struct Document;

/// The document.
pub fn document() -> OpenApi {
    let mut document = Document::openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let components = document.components.get_or_insert_default();
    let bearer = Http::builder().scheme(HttpAuthScheme::Bearer).bearer_format("JWT");
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer.build()));
    let signed = utoipa::openapi::security::ApiKey::Header(utoipa::openapi::security::ApiKeyValue::with_description(
        "Authorization",
        "AWS Signature Version 4",
    ));
    components.add_security_scheme("aws", SecurityScheme::ApiKey(signed));
    for (path, item) in &mut document.paths.paths {
        let PathItem { get, post, delete, .. } = item;
        for operation in [get, post, delete].into_iter().flatten() {
            add_problems(path, operation);
        }
    }
    document
}

fn add_problems(path: &str, operation: &mut Operation) {
    let is_open = ROUTES.iter().any(|route| route.path == path && route.role.is_none());
    let mut kinds = vec![ProblemType::MethodNotAllowed, ProblemType::Internal];
    if !is_open {
        kinds.extend([
            ProblemType::InvalidRequest,
            ProblemType::Unauthenticated,
            ProblemType::Forbidden,
            ProblemType::NotFound,
            ProblemType::StoreUnavailable,
        ]);
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        // An empty one counts as {}.
        body.required = None;
        kinds.extend([ProblemType::TooLarge, ProblemType::UnsupportedMediaType]);
    }
    let responses = &mut operation.responses.responses;
    for kind in kinds {
        let response = ResponseBuilder::new().description(kind.title());
        let status = kind.status().to_string();
        responses.entry(status).or_insert_with(|| response.build().into());
    }
    for (status, response) in responses {
        if status.as_str() >= "400"
            && let RefOr::T(response) = response
        {
            let problem = Content::new(Some(Ref::from_schema_name("Problem")));
            response
                .content
                .insert("application/problem+json".to_owned(), problem.into());
        }
    }
}

/// The document's text, and its ETag.
pub(crate) fn served() -> (&'static str, &'static str) {
    static SERVED: OnceLock<(String, String)> = OnceLock::new();
    let (text, etag) = SERVED.get_or_init(|| {
        let text = document().to_json().expect("the document has a JSON form");
        let digest: String = Sha256::digest(&text)
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        (text, format!("\"{digest}\""))
    });
    (text, etag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_route_is_documented_and_every_documented_route_exists() {
        let value = serde_json::to_value(document()).unwrap();
        assert_eq!(value["openapi"], "3.1.0");
        let mut documented = BTreeSet::new();
        for (path, item) in value["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                documented.insert((method.to_uppercase(), path.clone()));
                assert!(operation["operationId"].is_string(), "{method} {path}");
            }
        }
        let routes: BTreeSet<_> = ROUTES
            .iter()
            .filter(|route| !route.is_page())
            .map(|route| (route.method.to_string(), route.path.to_owned()))
            .collect();
        assert_eq!(documented, routes);
        let pages = ROUTES.iter().filter(|route| route.is_page()).map(|route| route.path);
        assert_eq!(pages.collect::<Vec<_>>(), ["/", "/dashboard/{version}/{*file}"]);
    }

    #[test]
    fn every_reference_is_defined() {
        let text = document().to_json().unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let schemas = value["components"]["schemas"].as_object().unwrap();
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}
