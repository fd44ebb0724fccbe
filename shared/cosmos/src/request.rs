//! What goes into the loop of `send.rs` and what comes out of each attempt. Plain data.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;

use crate::batch_failure::Failed;
use crate::consistency::ConsistencyTokens;
use crate::observe::RequestKind;
use crate::resource::{Resource, Subject};
use crate::retry::{Outcome, Retry};

/// One operation, as it is sent.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) kind: RequestKind,
    pub(crate) method: Method,
    pub(crate) resource: Resource,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    pub(crate) retry: Retry,
    pub(crate) subject: Subject<'a>,
    pub(crate) consistency: Consistency<'a>,
}

/// How a request uses the consistency tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Consistency<'a> {
    /// Nothing.
    Apart,
    /// Its answer is learnt from.
    Learn(&'a ConsistencyTokens),
    /// It must see all that this client has seen.
    Full(&'a ConsistencyTokens),
    /// It must see all that this client has seen of one range.
    Range(&'a ConsistencyTokens, &'a str),
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The operation that spoilt a batch.
    pub(crate) failed: Option<Failed>,
}

/// One attempt's end.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) outcome: Outcome,
    pub(crate) answer: Option<Answer>,
    /// Why no answer came.
    pub(crate) trouble: String,
    /// The date that was signed.
    pub(crate) date: String,
}
