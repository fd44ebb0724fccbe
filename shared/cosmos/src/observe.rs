//! One report per attempt, for metrics, and the kinds of requests.
//!
//! `send.rs` calls the observer after each attempt, answered or not, so the sum over the reports is what the account
//! charged. Nothing in this crate depends on an observer.

use std::fmt::Debug;
use std::time::Duration;

/// Receives a report of every attempt.
pub trait Observer: Send + Sync + Debug {
    /// One attempt has ended. Called on the sending task: be quick.
    fn observed(&self, request: &Observed);
}

/// One attempt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Observed {
    /// The kind of request.
    pub kind: RequestKind,
    /// The HTTP status, or `None` when no answer came.
    pub status: Option<u16>,
    /// The service's substatus, if any.
    pub substatus: Option<u32>,
    /// From before sending until the whole answer was read.
    pub duration: Duration,
    /// Bytes of the request's body.
    pub request_bytes: u64,
    /// Bytes of the answer's body.
    pub response_bytes: u64,
    /// Request units, as the service reported them.
    pub charge: f64,
    /// 1 for the first attempt of an operation.
    pub attempt: u32,
}

/// The kind of a request.
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
    /// New content of an existing document.
    Replace,
    /// Changed fields of an existing document.
    Patch,
    /// The deletion of a document.
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
        matches!(self, Create | Replace | Patch | Delete | Batch)
    }

    /// The name in spans and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RequestKind::Read => "read",
            RequestKind::Query => "query",
            RequestKind::RangeQuery => "range_query",
            RequestKind::Create => "create",
            RequestKind::Replace => "replace",
            RequestKind::Patch => "patch",
            RequestKind::Delete => "delete",
            RequestKind::Batch => "batch",
            RequestKind::Ranges => "ranges",
            RequestKind::Metadata => "metadata",
        }
    }
}
