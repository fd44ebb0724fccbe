//! Passes requests of a browser on to the API.
//!
//! Invariant: what a browser says of itself (cookies, its own credentials, where the page comes from) does not leave this machine.

use super::super::connection::Connection;
use super::super::transport::Passed;
use bytes::Bytes;
use duroxide_lambda_api::types::AuthMode;
use http_body_util::Full;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};

/// The headers of a request that are passed on.
const ASKED: [&str; 6] = [
    "accept",
    "accept-encoding",
    "content-type",
    "idempotency-key",
    "if-none-match",
    "prefer",
];
/// The headers of an answer that are not: they belong to the connection to the API.
const OF_THE_CONNECTION: [&str; 7] = [
    "connection",
    "content-length",
    "keep-alive",
    "set-cookie",
    "strict-transport-security",
    "transfer-encoding",
    "upgrade",
];
const CONFIG: &str = "/v1/dashboard-config";

/// See the module.
pub(super) struct Proxy {
    connection: Connection,
    /// How each path begins.
    prefix: String,
}

impl Proxy {
    pub(super) fn new(connection: Connection, secret: &str) -> Proxy {
        Proxy {
            connection,
            prefix: format!("/{secret}"),
        }
    }

    pub(super) async fn answer(&self, request: Request<Bytes>) -> Response<Full<Bytes>> {
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        let Some(target) = target.strip_prefix(&self.prefix).filter(|rest| rest.starts_with('/')) else {
            return problem(
                StatusCode::NOT_FOUND,
                "use the whole address that the command has printed",
            );
        };
        let is_config = request.uri().path().strip_prefix(&self.prefix) == Some(CONFIG);
        let passed = Passed {
            method: request.method().clone(),
            target: target.to_owned(),
            headers: kept(request.headers(), |name| ASKED.contains(&name)),
            body: request.body().clone(),
        };
        let (status, headers, body) = match self.connection.pass(passed).await {
            Ok(answer) => answer,
            Err(failure) => return problem(StatusCode::BAD_GATEWAY, &failure.message),
        };
        let headers = kept(&headers, |name| !OF_THE_CONNECTION.contains(&name));
        match is_config && status.is_success() {
            true => response(status, without_encoding(headers), signed_in(&body).unwrap_or(body)),
            false => response(status, headers, body),
        }
    }
}

fn kept(headers: &HeaderMap, is_kept: impl Fn(&str) -> bool) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| is_kept(name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The settings of a page that need not sign in: its requests are signed here.
fn signed_in(config: &[u8]) -> Option<Bytes> {
    let mut config: Value = serde_json::from_slice(config).ok()?;
    let fields = config.as_object_mut()?;
    fields.insert("auth".to_owned(), json!(AuthMode::None));
    fields.remove("signIn");
    Some(Bytes::from(config.to_string()))
}

fn without_encoding(mut headers: HeaderMap) -> HeaderMap {
    for name in [CONTENT_ENCODING, CONTENT_LENGTH, ETAG] {
        headers.remove(name);
    }
    headers
}

fn response(status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn problem(status: StatusCode, detail: &str) -> Response<Full<Bytes>> {
    let body = json!({ "type": "about:blank", "title": "The proxy has no answer", "status": status.as_u16(), "detail": detail });
    let kind = HeaderValue::from_static("application/problem+json");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind)]);
    response(status, headers, Bytes::from(body.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_behind_the_proxy_need_not_sign_in() {
        let config = br#"{"auth": "jwt", "version": "v", "signIn": {"issuer": "https://issuer"}, "new": 1}"#;
        let changed: Value = serde_json::from_slice(&signed_in(config).unwrap()).unwrap();
        assert_eq!(changed, json!({"auth": "none", "version": "v", "new": 1}));
        assert!(signed_in(b"<html>").is_none());
    }

    #[test]
    fn what_a_browser_says_of_itself_is_not_passed_on() {
        let sent = [
            "accept",
            "authorization",
            "cookie",
            "host",
            "if-none-match",
            "origin",
            "referer",
            "x-amz-date",
        ];
        let value = HeaderValue::from_static("x");
        let headers: HeaderMap = sent
            .iter()
            .map(|name| (hyper::header::HeaderName::from_static(name), value.clone()))
            .collect();
        let mut passed: Vec<String> = kept(&headers, |name| ASKED.contains(&name))
            .keys()
            .map(ToString::to_string)
            .collect();
        passed.sort_unstable();
        assert_eq!(passed, ["accept", "if-none-match"]);
    }
}
