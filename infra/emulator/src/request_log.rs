//! The request log of one listener: counters and, optionally, a record of every request in the order of arrival.
//!
//! A request is counted when it arrives, whatever its outcome. Its status and what it wrote are added when it ends; a request
//! without a reply keeps `None` as its status.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::count::{Counts, RequestRecord};
use crate::http::{Call, PARTITION_KEY};

/// What is known of a request when it has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) status: Option<u16>,
    pub(crate) operations: usize,
    pub(crate) documents_written: u64,
    pub(crate) examined: u64,
    /// The charge in hundredths of a request unit.
    pub(crate) charge_hundredths: u64,
    pub(crate) response_bytes: u64,
    pub(crate) refused: bool,
}

/// The counters and the log of one listener.
pub(crate) struct RequestLog {
    keeps_log: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    counts: Counts,
    log: Vec<Entry>,
    /// How often the log was reset, so that a late outcome is not added to a later log.
    resets: u64,
}

struct Entry {
    record: RequestRecord,
    done: bool,
}

/// The records of these entries. A request in progress gets the current time as its end.
fn records(entries: &[Entry]) -> Vec<RequestRecord> {
    let now = Instant::now();
    let record = |entry: &Entry| RequestRecord {
        finished: if entry.done { entry.record.finished } else { now },
        ..entry.record.clone()
    };
    entries.iter().map(record).collect()
}

/// The place of a request in the log.
#[derive(Clone, Copy)]
pub(crate) struct EntryId {
    /// `None` without a log.
    index: Option<usize>,
    resets: u64,
}

impl RequestLog {
    pub(crate) fn new(keeps_log: bool) -> RequestLog {
        RequestLog {
            keeps_log,
            state: Mutex::default(),
        }
    }

    /// The record of a request that has just arrived.
    pub(crate) fn record_of(call: &Call) -> RequestRecord {
        let now = Instant::now();
        RequestRecord {
            kind: call.kind,
            status: None,
            partition_key: call.header(PARTITION_KEY).map(str::to_owned),
            path: call.path.clone(),
            started: now,
            finished: now,
            operations: 0,
            charge: 0.0,
        }
    }

    pub(crate) fn arrived(&self, call: &Call) -> EntryId {
        let record = self.keeps_log.then(|| Self::record_of(call));
        let mut state = self.state();
        state.counts.count(call.kind);
        state.counts.request_bytes += call.body.len() as u64;
        let index = record.map(|record| {
            state.log.push(Entry { record, done: false });
            state.log.len() - 1
        });
        EntryId {
            index,
            resets: state.resets,
        }
    }

    pub(crate) fn finished(&self, entry_id: EntryId, outcome: Outcome) {
        let now = Instant::now();
        let mut state = self.state();
        if state.resets != entry_id.resets {
            return;
        }
        state.counts.batch_operations += outcome.operations as u64;
        state.counts.documents_written += outcome.documents_written;
        state.counts.examined += outcome.examined;
        state.counts.charge_hundredths += outcome.charge_hundredths;
        state.counts.response_bytes += outcome.response_bytes;
        state.counts.refused += u64::from(outcome.refused);
        let Some(index) = entry_id.index else { return };
        let entry = &mut state.log[index];
        entry.done = true;
        entry.record.status = outcome.status;
        entry.record.operations = outcome.operations;
        entry.record.charge = outcome.charge_hundredths as f64 / 100.0;
        entry.record.finished = now;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    pub(crate) fn log(&self) -> Vec<RequestRecord> {
        records(&self.state().log)
    }

    /// The requests that arrived before this one; `None` without a log or after a reset.
    pub(crate) fn log_before(&self, entry_id: EntryId) -> Option<Vec<RequestRecord>> {
        let state = self.state();
        let index = entry_id.index.filter(|_| state.resets == entry_id.resets)?;
        Some(records(&state.log[..index]))
    }

    pub(crate) fn reset(&self) {
        let mut state = self.state();
        let resets = state.resets + 1;
        *state = State {
            resets,
            ..State::default()
        };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Counters are consistent after every statement, so a panic elsewhere does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_read() -> Call {
        let path = "/dbs/d/colls/c/docs/x";
        Call::new(hyper::Method::GET, path, Default::default(), Default::default())
    }

    #[test]
    fn without_a_log_requests_are_counted_and_not_recorded() {
        let log = RequestLog::new(false);
        for _ in 0..3 {
            let entry_id = log.arrived(&a_read());
            let outcome = Outcome {
                response_bytes: 5,
                ..Outcome::default()
            };
            log.finished(entry_id, outcome);
        }
        assert_eq!((log.counts().reads, log.counts().response_bytes), (3, 15));
        assert_eq!(log.state().log.capacity(), 0);
    }

    #[test]
    fn an_outcome_after_a_reset_is_not_counted() {
        let log = RequestLog::new(true);
        let call = a_read();
        let entry_id = log.arrived(&call);
        assert_eq!(log.counts().reads, 1);
        log.reset();
        log.finished(
            entry_id,
            Outcome {
                response_bytes: 5,
                ..Outcome::default()
            },
        );
        assert_eq!(log.counts(), Counts::default());
        assert!(log.log().is_empty());
    }
}
