//! The Runtime API of one environment: <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>.
//!
//! `/next` waits for an invocation. Meanwhile the process and its children are frozen, as on Lambda: a function that relies
//! on work between invocations fails here, and not after its deployment.

use super::error::InvokeError;
use super::process::send;
use crate::aws::function_arn;
use crate::net::{Call, Handler, json};
use bytes::Bytes;
use cosmos::{Clock, SystemClock};
use http_body_util::Full;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use rustix::process::{Pid, Signal};
use serde::Deserialize;
use serde_json::json;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot, watch};

/// Lambda's limit for an answer.
const LARGEST_ANSWER: usize = 6 * 1024 * 1024;

/// One invocation on its way to an environment.
#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) id: String,
    pub(super) payload: Bytes,
    pub(super) answer: oneshot::Sender<Answer>,
}

pub(super) type Answer = Result<Bytes, InvokeError>;

/// The phases of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has not asked for an invocation yet.
    Starting,
    /// It has.
    Ready,
    /// Its process has ended, in this way.
    Ended(String),
}

/// See the module.
#[derive(Debug)]
pub(super) struct RuntimeApi {
    function: String,
    timeout: Duration,
    work: AsyncMutex<mpsc::Receiver<Invocation>>,
    current: Mutex<Option<(String, oneshot::Sender<Answer>)>>,
    phase: watch::Sender<Phase>,
    init_error: Mutex<Option<String>>,
    /// How often `/next` was called: the newest call gets the invocation.
    asked: watch::Sender<u64>,
    /// The process group to freeze; 0 until it is known, or if nothing is to be frozen.
    frozen_group: AtomicI32,
}

/// An error as functions report it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reported {
    error_type: String,
    error_message: String,
}

impl RuntimeApi {
    pub(super) fn new(
        function: &str,
        timeout: Duration,
        work: mpsc::Receiver<Invocation>,
        phase: watch::Sender<Phase>,
    ) -> RuntimeApi {
        RuntimeApi {
            function: function.to_owned(),
            timeout,
            work: AsyncMutex::new(work),
            current: Mutex::default(),
            phase,
            init_error: Mutex::default(),
            asked: watch::Sender::new(0),
            frozen_group: AtomicI32::new(0),
        }
    }

    /// Freezes this process group between invocations from now on.
    pub(super) fn freeze(&self, group: Pid) {
        self.frozen_group.store(group.as_raw_nonzero().get(), Ordering::SeqCst);
        // It may be waiting for an invocation already. None can arrive before its start has returned, which is our caller.
        if self.work.try_lock().is_err() {
            self.signal(Signal::STOP);
        }
    }

    /// The error that the process reported before it ended during its start.
    pub(super) fn init_error(&self) -> Option<String> {
        self.init_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.frozen_group.load(Ordering::SeqCst)) {
            send(group, signal);
        }
    }

    async fn next(&self) -> Response<Full<Bytes>> {
        self.phase.send_if_modified(|phase| match phase {
            Phase::Starting => {
                *phase = Phase::Ready;
                true
            }
            Phase::Ready | Phase::Ended(_) => false,
        });
        // A process that asks for the next invocation answers the last one no more. Of an attached function it may be another process.
        drop(self.current.lock().unwrap_or_else(PoisonError::into_inner).take());
        let invocation = tokio::select! {
            received = self.received() => received,
            // It waits no more: the other process serves from now on.
            () = self.asked_again() => return gone("another process has attached"),
        };
        let Some(invocation) = invocation else {
            return gone("the environment is shutting down");
        };
        let deadline_ms = SystemClock.now_ms() + self.timeout.as_millis() as u64;
        let mut response = Response::new(Full::new(invocation.payload));
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("lambda-runtime-aws-request-id", invocation.id.clone()),
            ("lambda-runtime-deadline-ms", deadline_ms.to_string()),
            ("lambda-runtime-invoked-function-arn", function_arn(&self.function)),
            ("lambda-runtime-trace-id", trace_of(&invocation.id)),
        ];
        for (name, value) in headers {
            let value = HeaderValue::from_str(&value).expect("ids and numbers are header values");
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some((invocation.id, invocation.answer));
        response
    }

    /// Waits for an invocation.
    async fn received(&self) -> Option<Invocation> {
        let mut work = self.work.lock().await;
        self.signal(Signal::STOP);
        let invocation = loop {
            match work.recv().await {
                // Nobody waits for its answer any more.
                Some(abandoned) if abandoned.answer.is_closed() => {}
                received => break received,
            }
        };
        self.signal(Signal::CONT);
        invocation
    }

    /// Waits until `/next` is called again: by another process of an attached function, because one process waits for its answer.
    async fn asked_again(&self) {
        let mut this_one = 0;
        self.asked.send_modify(|calls| {
            *calls += 1;
            this_one = *calls;
        });
        let mut asked = self.asked.subscribe();
        // The sender is in `self`.
        asked
            .wait_for(|calls| *calls > this_one)
            .await
            .map(drop)
            .unwrap_or_default();
    }

    /// Ends the invocation of that id.
    fn answered(&self, id: &str, answer: Answer) -> Response<Full<Bytes>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match current.take_if(|(running, _)| running == id) {
            Some((_, waiting)) => {
                // If nobody waits any more, the invocation was cancelled or timed out, and its caller has reported that.
                waiting.send(answer).unwrap_or_default();
                json(StatusCode::ACCEPTED, &json!({ "status": "OK" }))
            }
            None => json(
                StatusCode::BAD_REQUEST,
                &json!({ "errorType": "InvalidRequestID", "errorMessage": format!("{id} is not running here") }),
            ),
        }
    }

    fn response(&self, id: &str, body: Bytes) -> Response<Full<Bytes>> {
        if body.len() > LARGEST_ANSWER {
            let message = format!(
                "the answer has {} bytes; Lambda's limit is {LARGEST_ANSWER}",
                body.len()
            );
            return self.answered(id, Err(InvokeError::failed("ResponseSizeTooLarge", message)));
        }
        self.answered(id, Ok(body))
    }

    fn init_failed(&self, body: &Bytes) -> Response<Full<Bytes>> {
        let reported: Reported = serde_json::from_slice(body).unwrap_or_default();
        let error = format!("{}: {}", reported.error_type, reported.error_message);
        *self.init_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        json(StatusCode::ACCEPTED, &json!({ "status": "OK" }))
    }
}

impl Handler for RuntimeApi {
    async fn handle(&self, call: Call) -> Response<Full<Bytes>> {
        let segments = call.segments();
        let ["2018-06-01", "runtime", rest @ ..] = segments.as_slice() else {
            return json(
                StatusCode::NOT_FOUND,
                &json!({ "errorMessage": format!("no such path: {}", call.path) }),
            );
        };
        match (&call.method, rest) {
            (&Method::GET, ["invocation", "next"]) => self.next().await,
            (&Method::POST, ["invocation", id, "response"]) => self.response(id, call.body.clone()),
            (&Method::POST, ["invocation", id, "error"]) => {
                let reported: Reported = serde_json::from_slice(&call.body).unwrap_or_default();
                self.answered(
                    id,
                    Err(InvokeError::failed(&reported.error_type, reported.error_message)),
                )
            }
            (&Method::POST, ["init", "error"]) => self.init_failed(&call.body),
            _ => json(
                StatusCode::NOT_FOUND,
                &json!({ "errorMessage": format!("{} {} is not part of the Runtime API", call.method, call.path) }),
            ),
        }
    }
}

/// Ends the process that asked.
fn gone(why: &str) -> Response<Full<Bytes>> {
    json(StatusCode::GONE, &json!({ "errorMessage": why }))
}

/// A well-formed trace header that is not sampled.
fn trace_of(id: &str) -> String {
    let hex: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    format!("Root=1-{:0>8.8}-{:0>24.24};Parent={:0>16.16};Sampled=0", hex, hex, hex)
}
