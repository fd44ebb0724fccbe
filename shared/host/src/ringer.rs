//! Ringing within a bound: the one place that sends rings.
//!
//! Rings follow a commit and never undo it: whatever goes wrong here is logged and counted, and the caller is told in
//! time which rings were not taken. A ring that was not taken costs time until the sweep finds its target, never work.

use crate::doorbell::{Delayed, Doorbell, NotRung};
use crate::meter::Meter;
use std::sync::Arc;
use std::time::Duration;

/// How many failed rings of one call are logged one by one; the rest is a number.
const LOGGED: usize = 10;

/// A doorbell with a time limit.
#[derive(Clone, Debug)]
pub struct Ringer {
    doorbell: Arc<dyn Doorbell>,
    limit: Duration,
    meter: Arc<Meter>,
}

impl Ringer {
    /// Rings this doorbell, waiting for it at most `limit` each time.
    pub fn new(doorbell: Arc<dyn Doorbell>, limit: Duration, meter: Arc<Meter>) -> Ringer {
        Ringer { doorbell, limit, meter }
    }

    /// Sends the rings and answers those that were not taken, after the time limit at the latest.
    pub async fn ring(&self, rings: Vec<Delayed>) -> Vec<NotRung> {
        self.ring_within(self.limit, rings).await
    }

    /// The same in an invocation that has only so much time left.
    pub async fn ring_within(&self, left: Duration, rings: Vec<Delayed>) -> Vec<NotRung> {
        if rings.is_empty() {
            return Vec::new();
        }
        let limit = self.limit.min(left);
        let failed = match tokio::time::timeout(limit, self.doorbell.ring(&rings)).await {
            Ok(failed) => failed,
            // Some may have been sent all the same: then the repeated ring finds nothing to do.
            Err(_) => not_in_time(&rings, limit),
        };
        self.meter.rings(rings.len().saturating_sub(failed.len()), failed.len());
        for not_rung in failed.iter().take(LOGGED) {
            tracing::warn!(
                instance = not_rung.ring.target.instance(),
                activity = not_rung.ring.target.activity(),
                reason = not_rung.reason,
                "a ring was not taken: its target waits for maintenance, or for its next ring"
            );
        }
        if failed.len() > LOGGED {
            tracing::warn!(rings = failed.len() - LOGGED, "more rings were not taken");
        }
        failed
    }
}

fn not_in_time(rings: &[Delayed], limit: Duration) -> Vec<NotRung> {
    let reason = format!("the doorbell did not answer within {} ms", limit.as_millis());
    let not_rung = |delayed: &Delayed| NotRung {
        ring: delayed.ring.clone(),
        reason: reason.clone(),
    };
    rings.iter().map(not_rung).collect()
}
