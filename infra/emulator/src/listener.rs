//! The handle of one listener: a port of the account with its own faults, counters and request log.
//!
//! Tests steer a listener and read its log here; `pipeline` serves its requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::count::{Counts, RequestRecord};
use crate::crash::{CrashPlan, CrashPoint};
use crate::faults::{FaultPlan, Faults};
use crate::http_server::Switch;
use crate::pause::{Pause, PlannedPause};
use crate::refuse::{Refuse, Refusing};
use crate::request_log::RequestLog;
use crate::service::Service;

/// A handle to one endpoint of the account. Clones refer to the same listener.
#[derive(Clone)]
pub struct Listener {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    address: SocketAddr,
    pub(crate) endpoint: String,
    pub(crate) service: Arc<Service>,
    pub(crate) switch: Switch,
    pub(crate) requests: RequestLog,
    pub(crate) faults: Mutex<FaultPlan>,
    pub(crate) pause: Mutex<Option<PlannedPause>>,
    pub(crate) refuse: Mutex<Option<Refuse>>,
    /// The partition keys, as JSON arrays, of partitions that count as full.
    pub(crate) full: Mutex<Vec<String>>,
    pub(crate) crash: Mutex<CrashPlan>,
}

impl Listener {
    pub(crate) fn new(address: SocketAddr, switch: Switch, service: Arc<Service>) -> Self {
        let inner = Inner {
            address,
            endpoint: format!("http://{address}"),
            requests: RequestLog::new(service.keeps_log()),
            service,
            switch,
            faults: Mutex::default(),
            pause: Mutex::default(),
            refuse: Mutex::default(),
            full: Mutex::default(),
            crash: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The URL for clients: `http://127.0.0.1:PORT`.
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

    /// The number of requests of each kind since the listener opened or was reset.
    pub fn counts(&self) -> Counts {
        self.inner.requests.counts()
    }

    /// Every request since the listener opened or was reset, in the order of arrival; empty when no log is kept.
    pub fn log(&self) -> Vec<RequestRecord> {
        self.inner.requests.log()
    }

    /// Clears the counters and the log. Faults stay.
    pub fn reset(&self) {
        self.inner.requests.reset();
    }

    /// Replaces the faults in force.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.inner.faults) = FaultPlan::new(faults);
    }

    /// Removes all faults. A planned crash stays planned.
    pub fn clear_faults(&self) {
        self.set_faults(Faults::default());
    }

    /// Pauses the first request for which `when` is true of the requests that arrived before it, until the returned [`Pause`] is
    /// dropped. Nothing of the request is done before.
    pub fn pause_when(&self, when: impl Fn(&[RequestRecord]) -> bool + Send + 'static) -> Pause {
        let (pause, planned) = Pause::plan(Box::new(when));
        *lock(&self.inner.pause) = Some(planned);
        pause
    }

    /// Refuses every document request for which `when` returns a refusal; replaces an earlier `when`. The record that it gets
    /// has no status yet. A refused write does not count towards a planned crash.
    pub fn refuse_when(&self, when: impl Fn(&RequestRecord) -> Option<Refusing> + Send + 'static) {
        *lock(&self.inner.refuse) = Some(Box::new(when));
    }

    /// Ends [`refuse_when`](Self::refuse_when).
    pub fn refuse_nothing(&self) {
        *lock(&self.inner.refuse) = None;
    }

    /// Treats a logical partition as full (20 GB) from now on: every write to it that creates or grows a document gets 403/1014.
    /// Deletions and smaller versions are carried out.
    pub fn fill_partition(&self, partition_key: &str) {
        lock(&self.inner.full).push(serde_json::json!([partition_key]).to_string());
    }

    /// Plans a crash of this listener at the `n`-th write from now, counted from 1. A batch is one write.
    ///
    /// That write gets no reply, and is applied or not as `when` says. Later writes are not applied, and the listener closes for
    /// good, as [`close`](Self::close) does.
    pub fn crash_at_write(&self, n: u64, when: CrashPoint) {
        *lock(&self.inner.crash) = CrashPlan::at_write(n, when);
    }

    /// Whether the planned crash has happened.
    pub fn crashed(&self) -> bool {
        lock(&self.inner.crash).is_done() && !self.inner.switch.is_on()
    }

    /// Closes every connection that is open now, as a service does while its client is frozen. Requests in progress get no reply.
    pub fn drop_connections(&self) {
        self.inner.switch.drop_connections();
    }

    /// Closes the connection of every request, also of those in progress, without a reply. The port stays bound.
    pub fn close(&self) {
        self.inner.switch.turn_off();
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave one of these values half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
