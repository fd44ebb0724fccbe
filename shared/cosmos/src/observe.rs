//! What a caller may watch: one report per attempt.
//!
//! `send.rs` calls the observer after each attempt, answered or not, so the sum over the reports is what the account
//! was asked for and billed. Nothing in this crate depends on an observer.

use std::fmt::Debug;
use std::time::Duration;

/// Is told of every attempt.
pub trait Observer: Send + Sync + Debug {
    /// One attempt has ended. Called on the sending task: be quick.
    fn observed(&self, request: &Observed);
}

/// One attempt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Observed {
    /// What was asked.
    pub kind: RequestKind,
    /// The HTTP status, or `None` when no answer came.
    pub status: Option<u16>,
    /// The service's finer status, where it gave one.
    pub substatus: Option<u32>,
    /// From before sending until the whole answer was read.
    pub duration: Duration,
    /// Bytes of the request's body.
    pub request_bytes: u64,
    /// Bytes of the answer's body.
    pub response_bytes: u64,
    /// Request units that the service says it charged.
    pub charge: f64,
    /// 1 for the first attempt of an operation.
    pub attempt: u32,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestKind {
    /// One document by its id.
    Read,
    /// A page of a query within one logical partition.
    Query,
    /// A page of a query over one physical range.
    RangeQuery,
    /// A new document.
    Create,
    /// An existing document's new content.
    Replace,
    /// A document's content, whether it exists or not.
    Upsert,
    /// A document's end.
    Delete,
    /// A transactional batch.
    Batch,
    /// The list of physical ranges.
    Ranges,
    /// Databases and containers.
    Metadata,
}

impl RequestKind {
    /// Whether the request changes something, so that an unknown outcome matters.
    pub fn is_write(self) -> bool {
        use RequestKind::*;
        matches!(self, Create | Replace | Upsert | Delete | Batch)
    }
}
