//! The Runtime API of one environment: <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>.
//!
//! `/next` waits for work. While it waits the process and what it started are frozen, as Lambda freezes them: a function
//! that does something between invocations is found out here, and not after it was deployed.

use super::function::InvokeError;
use super::process::send;
use crate::net::{Call, Handler, json};
use crate::sqs::{ACCOUNT, REGION};
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

/// What Lambda lets a function answer.
const LARGEST_ANSWER: usize = 6 * 1024 * 1024;

/// One invocation on its way to an environment.
#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) id: String,
    pub(super) payload: Bytes,
    pub(super) answer: oneshot::Sender<Answer>,
}

pub(super) type Answer = Result<Bytes, InvokeError>;

/// How far an environment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It has not asked for work yet.
    Starting,
    /// It has.
    Ready,
    /// Its process is gone.
    Ended(String),
}

/// See the module.
#[derive(Debug)]
pub(super) struct RuntimeApi {
    function: String,
    timeout: Duration,
    work: AsyncMutex<mpsc::Receiver<Invocation>>,
    current: Mutex<Option<(String, oneshot::Sender<Answer>)>>,
    life: watch::Sender<Life>,
    init_error: Mutex<Option<String>>,
    /// 0 until it is known, or when the process is not to be frozen.
    freezes: AtomicI32,
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
        life: watch::Sender<Life>,
    ) -> RuntimeApi {
        RuntimeApi {
            function: function.to_owned(),
            timeout,
            work: AsyncMutex::new(work),
            current: Mutex::default(),
            life,
            init_error: Mutex::default(),
            freezes: AtomicI32::new(0),
        }
    }

    /// From now on this process group is frozen between invocations.
    pub(super) fn freeze(&self, group: Pid) {
        self.freezes.store(group.as_raw_nonzero().get(), Ordering::SeqCst);
        // It may be so quick as to wait for work already. None can come before its start has returned, and we are in it.
        if self.work.try_lock().is_err() {
            self.signal(Signal::STOP);
        }
    }

    /// What the process reported before it ended in its start.
    pub(super) fn init_error(&self) -> Option<String> {
        self.init_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.freezes.load(Ordering::SeqCst)) {
            send(group, signal);
        }
    }

    async fn next(&self) -> Response<Full<Bytes>> {
        self.life.send_if_modified(|life| match life {
            Life::Starting => {
                *life = Life::Ready;
                true
            }
            Life::Ready | Life::Ended(_) => false,
        });
        let mut work = self.work.lock().await;
        self.signal(Signal::STOP);
        let invocation = work.recv().await;
        self.signal(Signal::CONT);
        let Some(invocation) = invocation else {
            return json(
                StatusCode::GONE,
                &json!({ "errorMessage": "the environment is shut down" }),
            );
        };
        let deadline_ms = SystemClock.now_ms() + self.timeout.as_millis() as u64;
        let mut response = Response::new(Full::new(invocation.payload));
        let arn = format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{}", self.function);
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("lambda-runtime-aws-request-id", invocation.id.clone()),
            ("lambda-runtime-deadline-ms", deadline_ms.to_string()),
            ("lambda-runtime-invoked-function-arn", arn),
            ("lambda-runtime-trace-id", trace_of(&invocation.id)),
        ];
        for (name, value) in headers {
            let value = HeaderValue::from_str(&value).expect("ids and numbers are header values");
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some((invocation.id, invocation.answer));
        response
    }

    /// Ends the invocation of that id.
    fn answered(&self, id: &str, answer: Answer) -> Response<Full<Bytes>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match current.take_if(|(running, _)| running == id) {
            Some((_, waiting)) => {
                // Nobody waits any more: the invocation was given up.
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
            let said = format!("the answer has {} bytes, and Lambda takes {LARGEST_ANSWER}", body.len());
            return self.answered(id, Err(InvokeError::failed("ResponseSizeTooLarge", said)));
        }
        self.answered(id, Ok(body))
    }

    fn init_failed(&self, body: &Bytes) -> Response<Full<Bytes>> {
        let reported: Reported = serde_json::from_slice(body).unwrap_or_default();
        let said = format!("{}: {}", reported.error_type, reported.error_message);
        *self.init_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
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

/// A trace header of the right form, of which nobody keeps the trace.
fn trace_of(id: &str) -> String {
    let hex: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    format!("Root=1-{:0>8.8}-{:0>24.24};Parent={:0>16.16};Sampled=0", hex, hex, hex)
}
