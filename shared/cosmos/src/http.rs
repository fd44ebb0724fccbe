//! The HTTP client and its connections.
//!
//! Creating a client reads and parses the machine's root certificates, which takes longer than everything else at the start
//! of a process. So it is created when it is first needed, or in parallel to the rest of the start
//! ([`warm`](crate::Container::warm)).
//!
//! A connection costs three round trips to the other cloud before the first request (the name, TCP, TLS 1.3; four with TLS 1.2), so
//! it is kept and used again, also after the process was frozen. What can have happened to it meanwhile:
//!
//! | the connection | noticed | what follows |
//! |---|---|---|
//! | was closed or reset by the service | before the next request is sent | a new one; nothing was sent, one attempt |
//! | is unused for 90 s | at the next request | a new one: the service closes idle connections too, at a time that is not documented |
//! | was forgotten by the service or by a NAT on the way | no acknowledgement for 2 s (`TCP_USER_TIMEOUT`), or a reset | the request is lost: the rules for an unknown outcome apply (`retry.rs`) |
//!
//! What kills one idle connection kills the others with it, and the repetition of a lost request must not try them one by
//! one. So a request that is lost when nothing was answered for a second replaces the client: [`Http::lost`]. Under load single
//! losses do not.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay without acknowledgement: several retransmissions. A slow answer does not count.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(2);
/// A request that is lost after such a pause is a sign that idle connections have died.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Http {
    state: Mutex<State>,
    https_only: bool,
}

#[derive(Debug, Default)]
struct State {
    client: Option<reqwest::Client>,
    /// The number of clients before this one.
    generation: u64,
    /// When a connection of this client last delivered an answer.
    answered: Option<Instant>,
}

/// A client for one request.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    pub(crate) client: reqwest::Client,
    generation: u64,
    /// Whether the client has had an answer, but none for a while.
    after_pause: bool,
}

impl State {
    fn connections(&self) -> Option<Connections> {
        self.client.clone().map(|client| self.with(client))
    }

    fn with(&self, client: reqwest::Client) -> Connections {
        Connections {
            client,
            generation: self.generation,
            after_pause: self.answered.is_some_and(|last| last.elapsed() >= PAUSE),
        }
    }
}

impl Http {
    pub(crate) fn new(https_only: bool) -> Http {
        Http {
            state: Mutex::default(),
            https_only,
        }
    }

    /// The client. Two first callers at the same time may each create one; one of them is kept.
    pub(crate) fn connections(&self) -> Result<Connections, Error> {
        if let Some(connections) = self.state().connections() {
            return Ok(connections);
        }
        // Outside the lock: it takes some milliseconds.
        let made = self.make().map_err(|source| Error::HttpClient { source })?;
        let mut state = self.state();
        let client = state.client.get_or_insert(made).clone();
        Ok(state.with(client))
    }

    /// A connection has delivered an answer.
    pub(crate) fn answered(&self, by: &Connections) {
        let mut state = self.state();
        if state.generation == by.generation {
            state.answered = Some(Instant::now());
        }
    }

    /// A request was lost. After a pause the other idle connections are taken for dead as well.
    pub(crate) fn lost(&self, by: &Connections) {
        let mut state = self.state();
        if state.generation == by.generation && by.after_pause {
            tracing::debug!("a request was lost after a pause: new connections are opened");
            *state = State {
                generation: state.generation + 1,
                ..State::default()
            };
        }
    }

    fn make(&self) -> reqwest::Result<reqwest::Client> {
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            .pool_idle_timeout(Duration::from_secs(90))
            .connect_timeout(CONNECT_TIMEOUT)
            .https_only(self.https_only);
        // Other systems have no such option: there the limit of the attempt ends it.
        #[cfg(target_os = "linux")]
        let builder = builder.tcp_user_timeout(UNACKNOWLEDGED);
        // The emulator on this machine is reached without TLS: reading the root certificates of the machine would be most of the work
        // of a new client.
        let builder = match self.https_only {
            true => builder,
            false => builder.tls_certs_only([]),
        };
        builder.build()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every statement leaves it consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
