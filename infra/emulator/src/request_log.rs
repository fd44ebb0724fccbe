//! The book of one listener: counters and, where it is kept, a log of every request in the order of arrival.
//!
//! A request is counted when it arrives, whatever becomes of it. Its answer, and what it wrote, is added when it
//! is done; a request that is cut off keeps `None` for a status.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::count::{Counts, RequestRecord};
use crate::http::{Call, PARTITION_KEY};

/// What is known of a request when it is done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) status: Option<u16>,
    pub(crate) operations: usize,
    pub(crate) documents_written: u64,
    pub(crate) response_bytes: u64,
    pub(crate) refused: bool,
}

/// The counters and the log of one listener.
pub(crate) struct RequestLog {
    keeps_log: bool,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    counts: Counts,
    log: Vec<Entry>,
    /// Which reset the log is of, so that a late answer does not land in a later log.
    resets: u64,
}

struct Entry {
    record: RequestRecord,
    done: bool,
}

/// The records of these entries. A request under way ends just now, whenever that is.
fn shown(entries: &[Entry]) -> Vec<RequestRecord> {
    let now = Instant::now();
    let record = |entry: &Entry| RequestRecord {
        finished: if entry.done { entry.record.finished } else { now },
        ..entry.record.clone()
    };
    entries.iter().map(record).collect()
}

/// A request under way: where its entry is.
#[derive(Clone, Copy)]
pub(crate) struct Ticket {
    /// `None` without a log.
    index: Option<usize>,
    resets: u64,
}

impl RequestLog {
    pub(crate) fn new(keeps_log: bool) -> RequestLog {
        RequestLog {
            keeps_log,
            pages: Mutex::default(),
        }
    }

    /// A request of which nothing but its arrival is known.
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
        }
    }

    pub(crate) fn arrived(&self, call: &Call) -> Ticket {
        let record = self.keeps_log.then(|| Self::record_of(call));
        let mut pages = self.pages();
        pages.counts.count(call.kind);
        pages.counts.request_bytes += call.body.len() as u64;
        let index = record.map(|record| {
            pages.log.push(Entry { record, done: false });
            pages.log.len() - 1
        });
        Ticket {
            index,
            resets: pages.resets,
        }
    }

    pub(crate) fn finished(&self, ticket: Ticket, outcome: Outcome) {
        let now = Instant::now();
        let mut pages = self.pages();
        if pages.resets != ticket.resets {
            return;
        }
        pages.counts.batch_operations += outcome.operations as u64;
        pages.counts.documents_written += outcome.documents_written;
        pages.counts.response_bytes += outcome.response_bytes;
        pages.counts.refused += u64::from(outcome.refused);
        let Some(index) = ticket.index else { return };
        let entry = &mut pages.log[index];
        entry.done = true;
        entry.record.status = outcome.status;
        entry.record.operations = outcome.operations;
        entry.record.finished = now;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.pages().counts.clone()
    }

    pub(crate) fn log(&self) -> Vec<RequestRecord> {
        shown(&self.pages().log)
    }

    /// What had arrived before a request; `None` when that is not known any more.
    pub(crate) fn log_before(&self, ticket: Ticket) -> Option<Vec<RequestRecord>> {
        let pages = self.pages();
        let index = ticket.index.filter(|_| pages.resets == ticket.resets)?;
        Some(shown(&pages.log[..index]))
    }

    pub(crate) fn reset(&self) {
        let mut pages = self.pages();
        let resets = pages.resets + 1;
        *pages = Pages {
            resets,
            ..Pages::default()
        };
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        // Counters are whole after every statement: a panic elsewhere does not make them wrong.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn without_a_log_requests_are_counted_and_nothing_is_kept_of_them() {
        let book = RequestLog::new(false);
        for _ in 0..3 {
            let ticket = book.arrived(&a_read());
            let outcome = Outcome {
                response_bytes: 5,
                ..Outcome::default()
            };
            book.finished(ticket, outcome);
        }
        assert_eq!((book.counts().reads, book.counts().response_bytes), (3, 15));
        assert_eq!(book.pages().log.capacity(), 0);
    }

    #[test]
    fn an_answer_that_comes_after_a_reset_is_not_counted() {
        let book = RequestLog::new(true);
        let call = a_read();
        let ticket = book.arrived(&call);
        assert_eq!(book.counts().reads, 1);
        book.reset();
        book.finished(
            ticket,
            Outcome {
                response_bytes: 5,
                ..Outcome::default()
            },
        );
        assert_eq!(book.counts(), Counts::default());
        assert!(book.log().is_empty());
    }
}
