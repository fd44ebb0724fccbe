//! Time that stands still until a test moves it.

use cosmos::{Clock, SystemClock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that starts at the real time and is moved by hand.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl Default for ManualClock {
    fn default() -> Self {
        ManualClock(AtomicU64::new(SystemClock.now_ms()))
    }
}

impl ManualClock {
    /// Moves time forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The real time, which a test can move forward: for tests that run duroxide's runtime, which lives in real time.
#[derive(Debug, Default)]
pub struct ShiftedClock(AtomicU64);

impl ShiftedClock {
    /// Moves time forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for ShiftedClock {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() + self.0.load(Ordering::SeqCst)
    }
}
