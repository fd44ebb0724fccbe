//! Requests and replies of the local cloud's servers (Lambda's Runtime API and function URLs, SQS), on the HTTP server of the emulator crate.

use bytes::Bytes;
use cosmos_emulator::http_server::{BoundPort, HttpServer};
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::Value;
use std::sync::Arc;

/// More than Lambda (6 MB) and SQS (1 MB) accept.
const LARGEST_BODY: usize = 8 * 1024 * 1024;

/// One request with its whole body.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// With its percent-encoding.
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn new(request: Request<Bytes>) -> Call {
        let (parts, body) = request.into_parts();
        Call {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().map(str::to_owned),
            headers: parts.headers,
            body,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The parts of the path between slashes.
    pub(crate) fn segments(&self) -> Vec<&str> {
        self.path.split('/').filter(|part| !part.is_empty()).collect()
    }
}

/// Replies to requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Replies to one request.
    fn handle(&self, call: Call) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// Serves a port. Dropping the server closes the port and every connection, and cancels requests in progress.
pub(crate) fn serve(port: BoundPort, handler: Arc<impl Handler>) -> HttpServer {
    serve_up_to(LARGEST_BODY, port, handler)
}

/// The same, with another limit for bodies.
pub(crate) fn serve_up_to(largest_body: usize, port: BoundPort, handler: Arc<impl Handler>) -> HttpServer {
    port.serve(largest_body, move |request| {
        let handler = Arc::clone(&handler);
        async move { Some(handler.handle(Call::new(request)).await) }
    })
}

/// A JSON reply.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response<Full<Bytes>> {
    with_type(status, "application/json", value.to_string())
}

/// A plain-text reply.
pub(crate) fn text(status: StatusCode, message: impl Into<String>) -> Response<Full<Bytes>> {
    with_type(status, "text/plain; charset=utf-8", message.into())
}

fn with_type(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
