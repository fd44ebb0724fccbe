//! One way into the account: a port with its own faults, counters and log.
//!
//! The way of a request: it is read to its end and counted; it waits if the listener is slow; it is refused, or meets
//! its fate, or is answered. Closing without an answer always happens after the whole request was read, so that
//! a client cannot know whether it was done, as when a connection is lost after sending.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Request, Response, StatusCode};
use tokio::sync::watch;

use crate::count::{Counts, RequestRecord};
use crate::faults::{CrashPoint, Fate, FaultPlan, Faults};
use crate::http::{Call, Reply};
use crate::pause::{Pause, PlannedPause};
use crate::refuse::{Refuse, Refusing};
use crate::request_log::{Outcome, RequestLog, Ticket};
use crate::service::Service;

/// A handle to one endpoint of the account; clones are the same listener.
#[derive(Clone)]
pub struct Listener {
    inner: Arc<Inner>,
}

struct Inner {
    address: SocketAddr,
    endpoint: String,
    service: Arc<Service>,
    book: RequestLog,
    faults: Mutex<FaultPlan>,
    hold: Mutex<Option<PlannedPause>>,
    refuse: Mutex<Option<Refuse>>,
    crash: Mutex<Crash>,
    life: watch::Sender<Life>,
}

/// Whether a listener answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    /// Connections are taken and closed at once.
    Dead,
    /// The server is gone, and so is the port.
    Stopped,
}

#[derive(Debug, Default)]
enum Crash {
    #[default]
    None,
    Planned {
        writes_left: u64,
        when: CrashPoint,
    },
    Done,
}

/// No answer: the connection is to be closed.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed without an answer")]
pub(super) struct Dropped;

impl Listener {
    pub(super) fn new(address: SocketAddr, service: Arc<Service>) -> Self {
        let inner = Inner {
            address,
            endpoint: format!("http://{address}"),
            book: RequestLog::new(service.keeps_log()),
            service,
            faults: Mutex::default(),
            hold: Mutex::default(),
            refuse: Mutex::default(),
            crash: Mutex::default(),
            life: watch::Sender::new(Life::Open),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Where clients connect to: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        self.inner.endpoint.clone()
    }

    /// The address that the listener listens on.
    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// The account key, in base64.
    pub fn key(&self) -> String {
        self.inner.service.key().to_owned()
    }

    /// What was asked here since the listener opened or was reset.
    pub fn counts(&self) -> Counts {
        self.inner.book.counts()
    }

    /// Every request in the order of arrival, since the listener opened or was reset; nothing when no log is kept.
    pub fn log(&self) -> Vec<RequestRecord> {
        self.inner.book.log()
    }

    /// Starts the counters and the log anew; faults stay.
    pub fn reset(&self) {
        self.inner.book.reset();
    }

    /// Puts faults in force, in place of those before.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.inner.faults) = FaultPlan::new(faults);
    }

    /// From now on nothing fails here any more. A planned crash stays planned.
    pub fn clear_faults(&self) {
        self.set_faults(Faults::default());
    }

    /// Holds the first request before whose arrival `when` is true of the log, until the answer is dropped. Nothing of
    /// the request is done before.
    pub fn pause_when(&self, when: impl Fn(&[RequestRecord]) -> bool + Send + 'static) -> Pause {
        let (hold, planned) = Pause::plan(Box::new(when));
        *lock(&self.inner.hold) = Some(planned);
        hold
    }

    /// Refuses every document request for which `when` has a refusal, in place of what was refused before. The record
    /// that it is shown has no answer yet. A refused write does not count towards a planned crash.
    pub fn refuse_when(&self, when: impl Fn(&RequestRecord) -> Option<Refusing> + Send + 'static) {
        *lock(&self.inner.refuse) = Some(Box::new(when));
    }

    /// From now on no chosen request is refused any more.
    pub fn refuse_nothing(&self) {
        *lock(&self.inner.refuse) = None;
    }

    /// Plans the death of this listener: at the `n`-th write from now, counted from 1 (a batch is one write).
    ///
    /// That write gets no answer, is applied or not as `when` says, and the listener is dead for ever afterwards.
    /// Writes that arrive after it are not applied.
    pub fn crash_at_write(&self, n: u64, when: CrashPoint) {
        *lock(&self.inner.crash) = Crash::Planned {
            writes_left: n.max(1),
            when,
        };
    }

    /// Whether the planned crash has happened.
    pub fn crashed(&self) -> bool {
        matches!(*lock(&self.inner.crash), Crash::Done) && self.life() != Life::Open
    }

    /// From now on every request here, also one under way, gets its connection closed without an answer.
    pub fn close(&self) {
        self.end(Life::Dead);
    }

    pub(super) fn stop(&self) {
        self.end(Life::Stopped);
    }

    pub(super) fn watch(&self) -> watch::Receiver<Life> {
        self.inner.life.subscribe()
    }

    pub(super) fn life(&self) -> Life {
        *self.inner.life.borrow()
    }

    fn end(&self, how: Life) {
        self.inner.life.send_if_modified(|life| {
            let changes = *life != how && *life != Life::Stopped;
            if changes {
                *life = how;
            }
            changes
        });
    }

    /// Serves one request.
    pub(super) async fn serve(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Dropped> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Dropped)?.to_bytes();
        if self.life() != Life::Open {
            return Err(Dropped);
        }
        let call = Call::new(parts.method, parts.uri.path(), parts.headers, body);
        let mut underway = Underway {
            book: &self.inner.book,
            ticket: self.inner.book.arrived(&call),
            outcome: Outcome::default(),
        };
        let delay = lock(&self.inner.faults).delay();
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        if let Some(planned) = self.take_hold(underway.ticket) {
            planned.wait().await;
        }
        let mut reply = self.process(&call, &mut underway.outcome).await?;
        self.inner.service.stamp(&call, &mut reply);
        underway.outcome.status = Some(reply.status.as_u16());
        underway.outcome.response_bytes = reply.body.len() as u64;
        drop(underway);
        let mut response = Response::new(Full::new(reply.body));
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        Ok(response)
    }

    /// The hold that is meant for this request, if one is.
    fn take_hold(&self, ticket: Ticket) -> Option<PlannedPause> {
        let mut hold = lock(&self.inner.hold);
        hold.take_if(|planned| {
            let before = self.inner.book.log_before(ticket);
            before.is_some_and(|before| planned.is_for(&before))
        })
    }

    fn refusing(&self, call: &Call) -> Option<Refusing> {
        let refuse = lock(&self.inner.refuse);
        let when = refuse.as_ref().filter(|_| call.kind.is_document())?;
        when(&RequestLog::record_of(call))
    }

    async fn process(&self, call: &Call, outcome: &mut Outcome) -> Result<Reply, Dropped> {
        let checked = match self.inner.service.check(call).await {
            Ok(checked) => checked,
            Err(refusal) => {
                outcome.refused = true;
                return Ok(refusal.into_reply());
            }
        };
        outcome.operations = checked.operations;
        if let Some(refusing) = self.refusing(call) {
            return Ok(refusing.into_reply());
        }
        let crash = if call.kind.is_write() { self.next_write()? } else { None };
        let (fate, stale, retry_after) = self.draw(call);
        match fate {
            // The crash is what was planned for this very write.
            _ if crash.is_some() => {}
            Fate::LostBefore => return Err(Dropped),
            Fate::Throttled => return Ok(throttled(retry_after)),
            Fate::Unavailable => {
                let message = "The request failed because the service is currently unavailable.";
                return Ok(Reply::error(StatusCode::SERVICE_UNAVAILABLE, None, message));
            }
            Fate::Served | Fate::LostAfter => {}
        }
        if self.life() != Life::Open {
            return Err(Dropped);
        }
        let reply = self
            .inner
            .service
            .answer(call, &checked, stale, &self.inner.endpoint)
            .await;
        if reply.is_success() {
            outcome.documents_written = checked.documents;
        }
        if crash == Some(CrashPoint::AfterApplied) {
            self.close();
        }
        if fate == Fate::LostAfter || self.life() != Life::Open {
            return Err(Dropped);
        }
        Ok(reply)
    }

    fn draw(&self, call: &Call) -> (Fate, bool, Duration) {
        if !call.kind.is_document() {
            return (Fate::Served, false, Duration::ZERO);
        }
        let mut plan = lock(&self.inner.faults);
        (plan.fate(call.kind), plan.is_stale(call.kind), plan.retry_after())
    }

    /// Counts a write against the planned crash; gives `AfterApplied` to the one that is still applied.
    fn next_write(&self) -> Result<Option<CrashPoint>, Dropped> {
        let mut crash = lock(&self.inner.crash);
        match &mut *crash {
            Crash::None => Ok(None),
            Crash::Done => Err(Dropped),
            Crash::Planned { writes_left, .. } if *writes_left > 1 => {
                *writes_left -= 1;
                Ok(None)
            }
            Crash::Planned { when, .. } => {
                let when = *when;
                *crash = Crash::Done;
                if when == CrashPoint::BeforeApplied {
                    self.close();
                    return Err(Dropped);
                }
                Ok(Some(when))
            }
        }
    }
}

/// A request that is being served; when it ends, in whatever way, the book hears of it.
struct Underway<'a> {
    book: &'a RequestLog,
    ticket: Ticket,
    outcome: Outcome,
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.book.finished(self.ticket, self.outcome);
    }
}

fn throttled(retry_after: Duration) -> Reply {
    let message = "Request rate is large. More Request Units may be needed, so no changes were made.";
    let mut reply = Reply::error(StatusCode::TOO_MANY_REQUESTS, Some(3200), message);
    let wait = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
    reply.headers.insert("x-ms-retry-after-ms", HeaderValue::from(wait));
    reply
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in these is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
