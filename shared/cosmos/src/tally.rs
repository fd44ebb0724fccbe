//! Counting what some operations cost: those of one step of a workflow, say.
//!
//! A [`Tally`] belongs to a handle of a container ([`Container::tallied`](crate::Container::tallied)) and its copies. It counts every
//! attempt that was sent, also one that was refused or whose answer was lost: the service may have charged it. An operation is
//! counted when it ends, so one that is dropped while it waits for its answer is not.

use std::sync::{Mutex, PoisonError};

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallied {
    /// Requests that were sent, repetitions included.
    pub requests: u64,
    /// Thousandths of a request unit, as the service reported them.
    pub milli_request_units: u64,
    /// Bytes of the requests' bodies.
    pub bytes_sent: u64,
    /// Bytes of the answers' bodies.
    pub bytes_received: u64,
}

impl Tallied {
    /// Adds one attempt.
    pub(crate) fn add(&mut self, charge: f64, sent: u64, received: u64) {
        *self = self.plus(Tallied {
            requests: 1,
            // A charge has at most three decimals. What is no charge (negative, not a number) becomes 0.
            milli_request_units: (charge * 1_000.0).round() as u64,
            bytes_sent: sent,
            bytes_received: received,
        });
    }

    /// The sum of both.
    pub fn plus(self, other: Tallied) -> Tallied {
        Tallied {
            requests: self.requests.saturating_add(other.requests),
            milli_request_units: self.milli_request_units.saturating_add(other.milli_request_units),
            bytes_sent: self.bytes_sent.saturating_add(other.bytes_sent),
            bytes_received: self.bytes_received.saturating_add(other.bytes_received),
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Tallied>);

impl Tally {
    /// What was counted so far.
    pub fn total(&self) -> Tallied {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, operation: Tallied) {
        let mut total = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *total = total.plus(operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_counted_in_thousandths_and_nonsense_is_not() {
        let mut tallied = Tallied::default();
        for charge in [1.0, 2.83, 10.295, -5.0, f64::NAN] {
            tallied.add(charge, 10, 20);
        }
        assert_eq!(tallied.milli_request_units, 1_000 + 2_830 + 10_295);
        assert_eq!(
            (tallied.requests, tallied.bytes_sent, tallied.bytes_received),
            (5, 50, 100)
        );
    }
}
