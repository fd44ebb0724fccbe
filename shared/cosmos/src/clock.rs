//! The time of day, injected so that tests can move it.
//!
//! Only signing needs the time of day (`auth.rs`: the service refuses a date that is over 15 minutes off). Deadlines
//! and waits use tokio's monotonic clock instead, which tests can pause.
//!
//! Invariant: [`SystemClock`] is the one place of the workspace's client side that reads the machine's clock.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of the time of day.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn now_ms(&self) -> u64;
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "the one clock that everything else is injected with"
    )]
    fn now_ms(&self) -> u64 {
        // With a clock before 1970 requests are signed with the epoch. The service refuses them for clock skew, and the
        // error says what to do.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64)
    }
}
