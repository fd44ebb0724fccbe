//! What an operation costs at a listener of the emulator: requests, and how many of them wait for each other.
//!
//! While an operation is measured the listener is slow, so that requests which are sent together are also seen together:
//! a chain of `n` requests of which none overlaps is `n` round trips, however fast the machine is.

use cosmos_emulator::{Counts, Faults, Listener, RequestKind, sequential_round_trips};
use std::time::Duration;

/// Long enough that requests of one moment overlap on a busy machine.
pub const SLOW: Duration = Duration::from_millis(500);

/// What an operation cost.
#[derive(Debug)]
pub struct Cost {
    /// The listener's counters.
    pub counts: Counts,
    /// The requests, in the order of their arrival.
    pub kinds: Vec<RequestKind>,
    /// How many requests waited for another.
    pub round_trips: usize,
}

impl Cost {
    /// Fails unless the cost is exactly this, within one partition.
    #[track_caller]
    pub fn is(&self, requests: u64, round_trips: usize) {
        assert_eq!(
            (self.counts.requests, self.round_trips),
            (requests, round_trips),
            "{self:?}"
        );
        assert_eq!(self.counts.cross_partition_queries, 0, "{self:?}");
    }

    /// Fails when the cost is over this, or involves more than one partition.
    #[track_caller]
    pub fn is_within(&self, requests: u64, round_trips: usize) {
        let is_within = self.counts.requests <= requests && self.round_trips <= round_trips;
        assert!(
            is_within,
            "over {requests} requests or {round_trips} round trips: {self:?}"
        );
        assert_eq!(self.counts.cross_partition_queries, 0, "{self:?}");
    }

    /// Fails unless these were the requests, in this order as far as one waited for the other.
    #[track_caller]
    pub fn is_exactly(&self, kinds: &[RequestKind], round_trips: usize) {
        assert_eq!(
            (self.kinds.as_slice(), self.round_trips),
            (kinds, round_trips),
            "{self:?}"
        );
    }
}

/// Runs an operation and measures it.
pub async fn cost_of<T>(listener: &Listener, operation: impl Future<Output = T>) -> (T, Cost) {
    listener.set_faults(Faults {
        delay: Some(SLOW),
        ..Faults::default()
    });
    listener.reset();
    let answer = operation.await;
    let (counts, log) = (listener.counts(), listener.log());
    listener.clear_faults();
    let cost = Cost {
        counts,
        kinds: log.iter().map(|record| record.kind).collect(),
        round_trips: sequential_round_trips(&log),
    };
    (answer, cost)
}
