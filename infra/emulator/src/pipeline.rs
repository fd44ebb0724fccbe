//! The stages of one request at a listener.
//!
//! ```text
//!   count -> delay -> pause -> signature and strict checks -> refuse_when, fill_partition -> planned crash -> random fault -> service
//!         -> reply
//! ```
//!
//! A new kind of fault is a new stage of [`Listener::process`]. The connection is closed without a reply only after the whole
//! request was read, so that a client cannot know whether the request was done: as when a connection is lost after sending.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::{Request, Response, StatusCode};

use crate::charge;
use crate::crash::{CrashPoint, CrashStep};
use crate::faults::Fate;
use crate::http::{Call, PARTITION_KEY, Reply};
use crate::listener::{Listener, lock};
use crate::pause::PlannedPause;
use crate::refuse::Refusing;
use crate::request_log::{EntryId, Outcome, RequestLog};

impl Listener {
    /// Serves one request. `None` closes the connection without a reply.
    pub(crate) async fn serve(&self, request: Request<Bytes>) -> Option<Response<Full<Bytes>>> {
        if !self.inner.switch.is_on() {
            return None;
        }
        let (parts, body) = request.into_parts();
        let call = Call::new(parts.method, parts.uri.path(), parts.headers, body);
        let mut logged = Logged {
            log: &self.inner.requests,
            entry: self.inner.requests.arrived(&call),
            outcome: Outcome::default(),
        };
        let delay = lock(&self.inner.faults).delay();
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        if let Some(planned) = self.take_pause(logged.entry) {
            planned.wait().await;
        }
        let mut reply = self.process(&call, &mut logged.outcome).await?;
        self.inner.service.stamp(&call, &mut reply);
        logged.outcome.status = Some(reply.status.as_u16());
        logged.outcome.response_bytes = reply.body.len() as u64;
        drop(logged);
        let mut response = Response::new(Full::new(reply.body));
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        Some(response)
    }

    /// The planned pause, if it is for this request.
    fn take_pause(&self, entry: EntryId) -> Option<PlannedPause> {
        lock(&self.inner.pause).take_if(|planned| {
            let before = self.inner.requests.log_before(entry);
            before.is_some_and(|before| planned.is_for(&before))
        })
    }

    async fn process(&self, call: &Call, outcome: &mut Outcome) -> Option<Reply> {
        let checked = match self.inner.service.check(call).await {
            Ok(checked) => checked,
            Err(refusal) => {
                outcome.refused = true;
                return Some(refusal.into_reply());
            }
        };
        outcome.operations = checked.operations;
        if let Some(refusing) = self.refusing(call) {
            return Some(refusing.into_reply());
        }
        if self.is_full(call) && self.inner.service.grows(call).await {
            return Some(Refusing::partition_full().into_reply());
        }
        let crash = self.next_write(call);
        match crash {
            // The write that crashes the listener may still be in progress: it closes the listener when it is applied.
            CrashStep::Crashed => return None,
            CrashStep::Crash(CrashPoint::BeforeApplied) => {
                self.close();
                return None;
            }
            CrashStep::Crash(CrashPoint::AfterApplied) | CrashStep::Pass => {}
        }
        let (fate, stale, retry_after) = self.draw(call);
        match fate {
            // The planned crash takes precedence.
            _ if crash != CrashStep::Pass => {}
            Fate::LostBefore => return None,
            Fate::Throttled => return Some(throttled(retry_after)),
            Fate::Unavailable => return Some(unavailable()),
            Fate::Served | Fate::LostAfter => {}
        }
        if !self.inner.switch.is_on() {
            return None;
        }
        let service = &self.inner.service;
        let mut reply = service.answer(call, &checked, stale, &self.inner.endpoint).await;
        if reply.is_success() {
            outcome.documents_written = checked.documents;
            outcome.examined = service.examined(call, &checked, &reply).await;
        }
        if outcome.examined > 0 {
            service.charge_examined(call, &mut reply, outcome.examined).await;
        }
        outcome.charge_hundredths = charge::hundredths(&reply);
        if crash != CrashStep::Pass {
            self.close();
        }
        if fate == Fate::LostAfter || !self.inner.switch.is_on() {
            return None;
        }
        Some(reply)
    }

    /// The refusal that a test has planned for this request.
    fn refusing(&self, call: &Call) -> Option<Refusing> {
        let refuse = lock(&self.inner.refuse);
        let when = refuse.as_ref().filter(|_| call.kind.is_document())?;
        when(&RequestLog::record_of(call))
    }

    /// Whether the request writes to a partition that counts as full.
    fn is_full(&self, call: &Call) -> bool {
        let full = lock(&self.inner.full);
        if full.is_empty() || !call.kind.is_write() {
            return false;
        }
        let header = call.header(PARTITION_KEY).unwrap_or_default();
        let key = serde_json::from_str::<serde_json::Value>(header).unwrap_or_default();
        full.contains(&key.to_string())
    }

    /// Counts a write towards the planned crash.
    fn next_write(&self, call: &Call) -> CrashStep {
        if call.kind.is_write() {
            lock(&self.inner.crash).next_write()
        } else {
            CrashStep::Pass
        }
    }

    /// The fate of a request, whether it reads stale data, and how long a throttled client is to wait.
    fn draw(&self, call: &Call) -> (Fate, bool, Duration) {
        if !call.kind.is_document() {
            return (Fate::Served, false, Duration::ZERO);
        }
        let mut plan = lock(&self.inner.faults);
        (plan.fate(call.kind), plan.is_stale(call.kind), plan.retry_after())
    }
}

/// A request in progress. Dropping it, also when the request is cancelled, completes its log entry.
struct Logged<'a> {
    log: &'a RequestLog,
    entry: EntryId,
    outcome: Outcome,
}

impl Drop for Logged<'_> {
    fn drop(&mut self) {
        self.log.finished(self.entry, self.outcome);
    }
}

fn unavailable() -> Reply {
    let message = "The request failed because the service is currently unavailable.";
    Reply::error(StatusCode::SERVICE_UNAVAILABLE, None, message)
}

fn throttled(retry_after: Duration) -> Reply {
    let message = "Request rate is large. More Request Units may be needed, so no changes were made.";
    let mut reply = Reply::error(StatusCode::TOO_MANY_REQUESTS, Some(3200), message);
    let wait = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
    reply.headers.insert("x-ms-retry-after-ms", HeaderValue::from(wait));
    reply
}
