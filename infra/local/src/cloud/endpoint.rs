//! The AWS endpoint: SQS, Lambda's Invoke, and two paths of our own for clients.
//!
//! | request | answer |
//! |---|---|
//! | `X-Amz-Target: AmazonSQS.…` | SQS |
//! | `POST /2015-03-31/functions/{name}/invocations` | Lambda's Invoke |
//! | `GET /cloud/variables` | the variables of functions and clients, without the key of an account |
//! | `GET /cloud/status` | counts and state of functions and queues |
//!
//! Whoever may run programs on this machine may use it; a web page may not. The server refuses what a foreign page sends
//! (`http_server` of the emulator crate). Invoke also needs the `Authorization` of a signed request, with any credentials: a
//! page cannot send one without asking first, which is refused.

use super::status::Services;
use crate::lambda::{Function, InvokeError};
use crate::net::{Call, Handler, json, text};
use crate::sqs::SqsApi;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::{Method, Response, StatusCode};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) sqs: SqsApi,
    pub(super) services: Arc<Services>,
    pub(super) variables: BTreeMap<String, String>,
}

impl Handler for Endpoint {
    async fn handle(&self, call: Call) -> Response<Full<Bytes>> {
        if let Some(action) = SqsApi::action(&call) {
            return self.sqs.answer(action, &call.body).await;
        }
        match (&call.method, call.segments().as_slice()) {
            (&Method::GET, ["cloud", "variables"]) => json(StatusCode::OK, &json!(self.variables)),
            (&Method::GET, ["cloud", "status"]) => json(StatusCode::OK, &json!(self.services.status())),
            (&Method::POST, ["2015-03-31", "functions", _, "invocations"]) if !is_signed(&call) => unsigned(),
            (&Method::POST, ["2015-03-31", "functions", name, "invocations"]) => {
                self.invoke(name, call.header("x-amz-invocation-type"), call.body.clone())
                    .await
            }
            _ => text(
                StatusCode::NOT_FOUND,
                format!(
                    "{} {} does not exist: the local cloud has SQS, Lambda's Invoke, /cloud/variables and /cloud/status.\n",
                    call.method, call.path
                ),
            ),
        }
    }
}

impl Endpoint {
    async fn invoke(&self, name: &str, kind: Option<&str>, payload: Bytes) -> Response<Full<Bytes>> {
        let Some(function) = self.services.function(name) else {
            let error = json!({ "Type": "User", "Message": format!("Function not found: {name}") });
            return json(StatusCode::NOT_FOUND, &error);
        };
        match kind.unwrap_or("RequestResponse") {
            "Event" => {
                let function = Arc::clone(function);
                // Nobody waits for the answer. `Function` counts and logs errors.
                tokio::spawn(async move { function.invoke(payload).await.map(drop).unwrap_or_default() });
                json(StatusCode::ACCEPTED, &json!({}))
            }
            "RequestResponse" => invoke_and_wait(function, payload).await,
            other => {
                let error =
                    json!({ "Type": "User", "Message": format!("The invocation type {other} is not supported.") });
                json(StatusCode::BAD_REQUEST, &error)
            }
        }
    }
}

/// Whether the request has a signature of AWS. Which one does not matter: there are no secret credentials here.
fn is_signed(call: &Call) -> bool {
    call.header("authorization")
        .is_some_and(|value| value.starts_with("AWS4-"))
}

fn unsigned() -> Response<Full<Bytes>> {
    let message =
        "Missing Authentication Token: sign the request as the AWS SDKs and the AWS CLI do, with any credentials";
    let mut response = json(StatusCode::FORBIDDEN, &json!({ "Message": message }));
    let kind = HeaderValue::from_static("MissingAuthenticationTokenException");
    response.headers_mut().insert("x-amzn-errortype", kind);
    response
}

/// Answers as Lambda does: an error of the function is status 200 with a header that says so.
async fn invoke_and_wait(function: &Arc<Function>, payload: Bytes) -> Response<Full<Bytes>> {
    let function = Arc::clone(function);
    // A client that hangs up ends this request. As a task of its own the invocation continues, as on Lambda, and its
    // environment returns to the pool or is killed at its timeout.
    let invocation = tokio::spawn(async move { function.invoke(payload).await });
    let answer = invocation
        .await
        .unwrap_or_else(|error| Err(InvokeError::Crashed(error.to_string())));
    match answer {
        Ok(body) => Response::new(Full::new(body)),
        Err(error) => {
            let kind = match &error {
                InvokeError::Failed { kind, .. } => kind.as_str(),
                InvokeError::TimedOut(_) => "Sandbox.Timedout",
                InvokeError::Init { .. } | InvokeError::Spawn(_) => "Runtime.InitError",
                InvokeError::Crashed(_) => "Runtime.ExitError",
                InvokeError::Throttled(_) => "TooManyRequestsException",
            };
            let message = match &error {
                InvokeError::Failed { message, .. } => message.clone(),
                other => other.to_string(),
            };
            let mut response = json(StatusCode::OK, &json!({ "errorType": kind, "errorMessage": message }));
            response
                .headers_mut()
                .insert("x-amz-function-error", HeaderValue::from_static("Unhandled"));
            response
        }
    }
}
