//! The parts of the API, shared by all requests.

use crate::auth::Auth;
use crate::throughput::KnownHours;
use crate::wait::{Timer, TokioTimer};
use cosmos::{Clock, SystemClock};
use duroxide_cosmos::{CosmosProvider, Ids, RandomIds};
use duroxide_lambda::Connection;
use duroxide_lambda::config::{ApiSettings, MaintenanceSettings};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What a handler may take when its host names no deadline.
const USUAL_TIME: Duration = Duration::from_secs(29);
/// Reserved at the end of an invocation for the last read and the answer.
const RESERVE: Duration = Duration::from_secs(2);

/// The API of one deployment.
#[derive(Clone)]
pub struct Api {
    pub(crate) parts: Arc<Parts>,
}

pub(crate) struct Parts {
    pub connection: Connection,
    pub auth: Auth,
    pub cors_origin: Option<String>,
    pub maintenance: MaintenanceSettings,
    pub ids: Arc<dyn Ids>,
    pub clock: Arc<dyn Clock>,
    pub known_hours: KnownHours,
    pub timer: Arc<dyn Timer>,
}

impl Api {
    /// An API on this connection.
    pub fn new(connection: Connection, settings: &ApiSettings, maintenance: MaintenanceSettings) -> Api {
        Api::with(
            connection,
            settings,
            maintenance,
            Arc::new(SystemClock),
            Arc::new(TokioTimer),
        )
    }

    /// The same, with the clock by which tokens expire and hours are over, and the timer of long polls.
    pub fn with(
        connection: Connection,
        settings: &ApiSettings,
        maintenance: MaintenanceSettings,
        clock: Arc<dyn Clock>,
        timer: Arc<dyn Timer>,
    ) -> Api {
        Api {
            parts: Arc::new(Parts {
                connection,
                auth: Auth::new(&settings.auth, Arc::clone(&clock)),
                cors_origin: settings.cors_origin.clone(),
                maintenance,
                ids: Arc::new(RandomIds),
                clock,
                known_hours: KnownHours::default(),
                timer,
            }),
        }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.parts.connection
    }

    pub(crate) fn store(&self) -> &CosmosProvider {
        self.parts.connection.store()
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("auth", &self.parts.auth)
            .field("cors_origin", &self.parts.cors_origin)
            .finish_non_exhaustive()
    }
}

/// What a host knows of a request besides HTTP. It is an extension of the request.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// The ARN of the caller, whose signature AWS has checked.
    pub caller: Option<String>,
    /// When the host ends the request.
    pub deadline: Option<Instant>,
}

impl Invocation {
    /// The time in which a handler may work.
    pub(crate) fn time_left(&self) -> Duration {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.unwrap_or(USUAL_TIME).saturating_sub(RESERVE)
    }
}
