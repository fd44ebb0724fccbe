//! What a listener reports about its requests: counters, and a record of each request.

use std::ops::Sub;
use std::time::Instant;

use crate::kind::RequestKind;

/// The number of requests of each kind since a listener opened or was last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All requests.
    pub requests: u64,
    /// Point reads.
    pub reads: u64,
    /// Queries of one logical partition, one for each page.
    pub queries: u64,
    /// Queries of one physical partition or of the container, one for each page.
    pub cross_partition_queries: u64,
    /// Creates of one document.
    pub creates: u64,
    /// Replaces of one document.
    pub replaces: u64,
    /// Upserts of one document.
    pub upserts: u64,
    /// PATCHes of one document.
    pub patches: u64,
    /// Deletes of one document.
    pub deletes: u64,
    /// Transactional batches.
    pub batches: u64,
    /// Operations in those batches.
    pub batch_operations: u64,
    /// Listings of the physical partitions.
    pub pkranges: u64,
    /// Requests about the account, databases, containers and query plans.
    pub metadata: u64,
    /// Documents that were created, replaced, upserted or deleted, those of batches included.
    pub documents_written: u64,
    /// Documents that queries over several partitions examined: those that the part of the filter matches that an index serves.
    /// Counted only with [`ServerOptions::count_examined`](crate::ServerOptions::count_examined).
    pub examined: u64,
    /// Requests that the strict checks refused.
    pub refused: u64,
    /// The estimated charge of all requests in hundredths of a request unit; see [`request_units`](Self::request_units).
    pub charge_hundredths: u64,
    /// Bytes of request bodies: what was written, and the queries.
    pub request_bytes: u64,
    /// Bytes of reply bodies: what was read.
    pub response_bytes: u64,
}

impl Counts {
    /// The requests that write documents; a batch is one.
    pub fn writes(&self) -> u64 {
        self.creates + self.replaces + self.upserts + self.patches + self.deletes + self.batches
    }

    /// The estimated charge of all requests in request units. `docs/emulator.md` describes the model.
    pub fn request_units(&self) -> f64 {
        self.charge_hundredths as f64 / 100.0
    }

    pub(super) fn count(&mut self, kind: RequestKind) {
        self.requests += 1;
        let counter = match kind {
            RequestKind::Read => &mut self.reads,
            RequestKind::Query => &mut self.queries,
            RequestKind::CrossPartitionQuery => &mut self.cross_partition_queries,
            RequestKind::Create => &mut self.creates,
            RequestKind::Replace => &mut self.replaces,
            RequestKind::Upsert => &mut self.upserts,
            RequestKind::Patch => &mut self.patches,
            RequestKind::Delete => &mut self.deletes,
            RequestKind::Batch => &mut self.batches,
            RequestKind::PkRanges => &mut self.pkranges,
            RequestKind::Metadata => &mut self.metadata,
        };
        *counter += 1;
    }
}

impl Sub for Counts {
    type Output = Counts;

    /// The difference since `earlier`; 0 for a counter that was reset in between.
    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            requests: self.requests.saturating_sub(earlier.requests),
            reads: self.reads.saturating_sub(earlier.reads),
            queries: self.queries.saturating_sub(earlier.queries),
            cross_partition_queries: self
                .cross_partition_queries
                .saturating_sub(earlier.cross_partition_queries),
            creates: self.creates.saturating_sub(earlier.creates),
            replaces: self.replaces.saturating_sub(earlier.replaces),
            upserts: self.upserts.saturating_sub(earlier.upserts),
            patches: self.patches.saturating_sub(earlier.patches),
            deletes: self.deletes.saturating_sub(earlier.deletes),
            batches: self.batches.saturating_sub(earlier.batches),
            batch_operations: self.batch_operations.saturating_sub(earlier.batch_operations),
            pkranges: self.pkranges.saturating_sub(earlier.pkranges),
            metadata: self.metadata.saturating_sub(earlier.metadata),
            documents_written: self.documents_written.saturating_sub(earlier.documents_written),
            examined: self.examined.saturating_sub(earlier.examined),
            refused: self.refused.saturating_sub(earlier.refused),
            charge_hundredths: self.charge_hundredths.saturating_sub(earlier.charge_hundredths),
            request_bytes: self.request_bytes.saturating_sub(earlier.request_bytes),
            response_bytes: self.response_bytes.saturating_sub(earlier.response_bytes),
        }
    }
}

/// One request at a listener.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// The kind of request.
    pub kind: RequestKind,
    /// The status of the reply; `None` when none was sent, or none was sent yet.
    pub status: Option<u16>,
    /// The partition key header, as sent.
    pub partition_key: Option<String>,
    /// The path, as sent.
    pub path: String,
    /// When the whole request had arrived.
    pub started: Instant,
    /// When the request ended; for a request in progress, the time at which the log was read.
    pub finished: Instant,
    /// The number of operations of a batch.
    pub operations: usize,
    /// The estimated charge in request units; 0 while it is in progress.
    pub charge: f64,
}

/// The largest number of requests of which no two overlapped in time: the sequential round trips.
pub fn sequential_round_trips(log: &[RequestRecord]) -> usize {
    let mut intervals: Vec<_> = log.iter().map(|record| (record.finished, record.started)).collect();
    intervals.sort_unstable();
    let mut round_trips = 0;
    let mut free_from = None;
    for (finished, started) in intervals {
        if free_from.is_none_or(|free| started >= free) {
            round_trips += 1;
            free_from = Some(finished);
        }
    }
    round_trips
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn record(origin: Instant, from: u64, to: u64) -> RequestRecord {
        RequestRecord {
            kind: RequestKind::Read,
            status: Some(200),
            partition_key: None,
            path: String::new(),
            started: origin + Duration::from_millis(from),
            finished: origin + Duration::from_millis(to),
            operations: 0,
            charge: 0.0,
        }
    }

    #[test]
    fn overlapping_requests_are_one_round_trip() {
        let origin = Instant::now();
        let log = |spans: &[(u64, u64)]| -> Vec<_> { spans.iter().map(|&(a, b)| record(origin, a, b)).collect() };
        assert_eq!(sequential_round_trips(&[]), 0);
        assert_eq!(sequential_round_trips(&log(&[(0, 10), (1, 9), (2, 12)])), 1);
        assert_eq!(sequential_round_trips(&log(&[(0, 10), (10, 20), (20, 30)])), 3);
        // One long request beside three short ones in a row: the short ones are the chain.
        assert_eq!(sequential_round_trips(&log(&[(0, 30), (0, 9), (10, 19), (20, 29)])), 3);
        assert_eq!(sequential_round_trips(&log(&[(0, 10), (5, 15), (12, 20)])), 2);
    }

    #[test]
    fn the_difference_of_two_counts_is_what_happened_in_between() {
        let before = Counts {
            reads: 2,
            requests: 2,
            ..Counts::default()
        };
        let after = Counts {
            reads: 2,
            creates: 1,
            batches: 1,
            requests: 4,
            ..Counts::default()
        };
        assert_eq!(after.writes(), 2);
        let between = after - before;
        assert_eq!(
            between,
            Counts {
                creates: 1,
                batches: 1,
                requests: 2,
                ..Counts::default()
            }
        );
    }
}
