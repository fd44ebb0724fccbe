//! A function URL: each HTTP request becomes one invocation of a function, in payload format 2.0. It knows `lambda`, which
//! does not know it.
//!
//! ```text
//!   HTTP request ── event (pure) ──> Function::invoke_now ── reply (pure) ──> HTTP response
//! ```
//!
//! | what happened | status |
//! |---|---|
//! | the function answered | the status in its answer; 200 if the answer has none |
//! | the event would be larger than Lambda takes | 413 |
//! | all environments that the function may have are busy | 429 |
//! | the function failed, or its answer is not a response | 502 |
//! | the invocation took too long | 504 |
//!
//! As on Lambda, an answer is passed on as a whole (`BUFFERED`), and a client that hangs up does not end the invocation.
//! Differences: plain HTTP, and no authentication (auth type `NONE`). Requests of foreign web pages are refused, as on every
//! port of the local cloud.

mod event;
mod reply;

use crate::aws::function_url_name;
use crate::lambda::{Function, InvokeError};
use crate::net::{Call, Handler, json, text};
use bytes::Bytes;
use cosmos::{Clock as _, SystemClock};
use duroxide_cosmos::{Ids as _, RandomIds};
use event::Context;
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::{Response, StatusCode};
use serde_json::json;
use std::sync::Arc;

/// Lambda's limit for the event of a synchronous invocation: the body is a part of it, often in base64.
const LARGEST_EVENT: usize = 6 * 1024 * 1024;
/// What the server reads before it refuses a body. More than an event may have, so that a client that sends a little too
/// much gets an answer, and not a broken connection.
pub(crate) const LARGEST_BODY: usize = 4 * LARGEST_EVENT;

/// See the module.
#[derive(Debug)]
pub(crate) struct FunctionUrl {
    function: Arc<Function>,
    /// The host and port of the URL.
    authority: String,
}

impl FunctionUrl {
    pub(crate) fn new(function: Arc<Function>, authority: String) -> FunctionUrl {
        FunctionUrl { function, authority }
    }
}

impl Handler for FunctionUrl {
    async fn handle(&self, call: Call) -> Response<Full<Bytes>> {
        let context = Context {
            id: RandomIds.unique(),
            now_ms: SystemClock.now_ms(),
            name: function_url_name(&self.function.settings().name),
            authority: self.authority.clone(),
        };
        let event = Bytes::from(event::of(&call, &context).to_string());
        if event.len() > LARGEST_EVENT {
            return with_id(too_large(), &context.id);
        }
        let function = Arc::clone(&self.function);
        // A task of its own: the invocation continues when the client hangs up.
        let invocation = tokio::spawn(async move { function.invoke_now(event).await });
        let answer = invocation
            .await
            .unwrap_or_else(|error| Err(InvokeError::Crashed(error.to_string())));
        with_id(response(answer), &context.id)
    }
}

fn response(answer: Result<Bytes, InvokeError>) -> Response<Full<Bytes>> {
    match answer {
        Ok(answer) => reply::of(&answer).unwrap_or_else(|invalid| {
            tracing::warn!(%invalid, "the answer of a function is not a response of a function URL");
            failed(StatusCode::BAD_GATEWAY)
        }),
        Err(InvokeError::Throttled(_)) => {
            let reply = json(StatusCode::TOO_MANY_REQUESTS, &json!({ "message": "Rate Exceeded." }));
            with_error_type(reply, "TooManyRequestsException")
        }
        Err(InvokeError::TimedOut(_)) => failed(StatusCode::GATEWAY_TIMEOUT),
        Err(
            InvokeError::Spawn(_) | InvokeError::Init { .. } | InvokeError::Failed { .. } | InvokeError::Crashed(_),
        ) => failed(StatusCode::BAD_GATEWAY),
    }
}

/// What the function says of its failure is in its log, and not for clients.
fn failed(status: StatusCode) -> Response<Full<Bytes>> {
    text(status, "Internal Server Error")
}

fn too_large() -> Response<Full<Bytes>> {
    let message = format!("Request must be smaller than {LARGEST_EVENT} bytes for the InvokeFunction operation");
    let reply = json(StatusCode::PAYLOAD_TOO_LARGE, &json!({ "message": message }));
    with_error_type(reply, "RequestTooLargeException")
}

fn with_error_type(mut reply: Response<Full<Bytes>>, kind: &'static str) -> Response<Full<Bytes>> {
    reply
        .headers_mut()
        .insert("x-amzn-errortype", HeaderValue::from_static(kind));
    reply
}

fn with_id(mut reply: Response<Full<Bytes>>, id: &str) -> Response<Full<Bytes>> {
    if let Ok(id) = HeaderValue::from_str(id) {
        reply.headers_mut().insert("x-amzn-requestid", id);
    }
    reply
}
