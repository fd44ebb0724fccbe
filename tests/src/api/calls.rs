//! Requests to the API, and its answers.

use axum::body::Body;
use duroxide_lambda::config::{ApiAuth, ApiRole};
use duroxide_lambda_api::Invocation;
use duroxide_lambda_api::types::{Problem, ProblemType};
use http::{HeaderMap, Request, StatusCode};
use serde_json::Value;
use std::collections::BTreeMap;

/// A request of a program on this machine.
pub fn request(method: &str, path: &str, body: Option<Value>) -> Request<Body> {
    let builder = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:9401");
    match body {
        Some(body) => builder
            .header("content-type", "application/json")
            .body(Body::from(body.to_string())),
        None => builder.body(Body::empty()),
    }
    .expect("a request")
}

/// Adds a header.
pub fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(name, value.parse().expect("a header"));
    request
}

/// Lets AWS have authenticated this caller.
pub fn signed_by(mut request: Request<Body>, arn: &str) -> Request<Body> {
    request.extensions_mut().insert(Invocation {
        caller: Some(arn.to_owned()),
        deadline: None,
    });
    request
}

/// Callers `arn:test:reader` and so on.
pub fn iam() -> ApiAuth {
    let role = |role: ApiRole| (format!("arn:test:{role}"), role);
    ApiAuth::Iam {
        roles: BTreeMap::from([ApiRole::Reader, ApiRole::Client, ApiRole::Operator].map(role)),
        default_role: None,
    }
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// A header, or the empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("a text"))
    }

    /// Fails unless this is the status; returns the body.
    #[track_caller]
    pub fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// Fails unless this is the problem.
    #[track_caller]
    pub fn is_problem(&self, kind: ProblemType) -> Problem {
        assert_eq!(self.status, kind.status(), "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem: Problem = serde_json::from_slice(&self.body).expect("a problem");
        assert_eq!(problem.kind, kind.uri(), "{problem:?}");
        assert_eq!(problem.status, kind.status());
        problem
    }
}
